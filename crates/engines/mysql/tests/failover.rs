//! Another server takes over.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod stage;

use std::{sync::Arc, time::Duration};

use bramah_core::{Engine, ErrorKind, Session};
use bramah_lab::{MariaDb as Server, servers::Flavor};
use bramah_mysql::MySql;

use crate::stage::{flavors, lock, session};

/// MariaDB's answers a commit when the replica has it too. MySQL would need a plugin for that: there, its replica is level when
/// the primary is killed.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_failover_to_a_replica_that_had_everything_fences_rise() {
    for flavor in flavors() {
        let mut settings = vec![("server_id", "1"), ("log_bin", "changes"), ("binlog_format", "ROW")];
        if flavor == Flavor::MariaDb {
            settings.push(("rpl_semi_sync_master_enabled", "ON"));
            settings.push(("rpl_semi_sync_master_wait_point", "AFTER_SYNC"));
        }
        let primary = Server::of(flavor, &settings).unwrap();
        let replica = primary.replica().unwrap();
        MySql::from_url(&primary.url()).unwrap().init().await.unwrap();
        let ttl = Duration::from_secs(3);
        let first = session(&primary.url(), ttl).await;
        let mut last = None;
        for _ in 0..20 {
            let guard = lock(&first, "failover").await;
            last = last.max(guard.fence());
            guard.release().await;
        }
        let guard = lock(&first, "failover").await;
        last = last.max(guard.fence());
        assert!(last.is_some());
        if flavor == Flavor::MariaDb {
            assert_eq!(
                primary.sql("SHOW STATUS LIKE 'Rpl_semi_sync_master_status'").unwrap(),
                "Rpl_semi_sync_master_status\tON"
            );
        } else {
            level(&replica, last.unwrap().get());
        }
        primary.kill();

        let engine: Arc<dyn Engine> = MySql::from_url(&replica.url()).unwrap().into();
        let error = Session::builder(engine).open().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("takes no writes"), "{error}");

        replica.promote().unwrap();
        let second = session(&replica.url(), ttl).await;
        // The lock is known there, so it is not given before its time is up.
        let next = lock(&second, "failover").await;
        assert!(!guard.is_held(), "two believe to hold it");
        assert!(next.fence() > last, "{:?} after {last:?}", next.fence());
        next.release().await;
    }
}

/// Waits until a replica has the row of a grant.
fn level(replica: &Server, ticket: u64) {
    let look = || match replica
        .sql(&format!("SELECT COUNT(*) FROM bramah_claims WHERE ticket = {ticket}"))?
        .as_str()
    {
        "1" => Ok(()),
        _ => Err("it lags".to_owned()),
    };
    bramah_lab::until("the replica to be level", stage::SOON, look).unwrap();
}
