//! PgBouncer.

use std::net::TcpStream;

use bramah_lab::{PgBouncer, Pooling, Postgres, servers::Flavor};

use crate::{has, runs};

#[test]
fn a_query_passes_in_both_ways_of_pooling() {
    if !has(Flavor::Postgres) || !has(Flavor::PgBouncer) {
        return;
    }
    let postgres = Postgres::start().unwrap();
    for pooling in [Pooling::Transaction, Pooling::Session] {
        let bouncer = PgBouncer::before(&postgres, pooling).unwrap();
        eprintln!("pgbouncer {}", bouncer.version());
        let asked = "SELECT current_user, inet_server_port()";
        assert_eq!(bouncer.sql(asked).unwrap(), format!("bramah|{}", postgres.port()));
        assert_eq!(bouncer.url(), postgres.url_at(&bouncer.address()));
        let (address, pid) = (bouncer.address(), bouncer.pid().unwrap());
        drop(bouncer);
        assert!(TcpStream::connect(address).is_err() && !runs(pid));
    }
}

/// A session's settings outlive its transactions only where it keeps its connection.
#[test]
fn connections_are_shared_by_transaction_or_by_session() {
    if !has(Flavor::Postgres) || !has(Flavor::PgBouncer) {
        return;
    }
    let postgres = Postgres::start().unwrap();
    // The lock of the first client is on the connection that the second one gets.
    let (take, look) =
        ("SELECT pg_try_advisory_lock(1)", "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'");
    let session = PgBouncer::before(&postgres, Pooling::Session).unwrap();
    assert_eq!(session.sql(take).unwrap(), "t");
    assert_eq!(session.sql(look).unwrap(), "0");
    let transaction = PgBouncer::before(&postgres, Pooling::Transaction).unwrap();
    assert_eq!(transaction.sql(take).unwrap(), "t");
    assert_eq!(transaction.sql(look).unwrap(), "1");
}
