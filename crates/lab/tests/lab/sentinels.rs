//! Sentinels and their failovers.

use std::time::Instant;

use bramah_lab::{Reply, Sentinels, servers::Flavor};

use crate::flavors;

#[test]
fn a_failover_swaps_the_roles_and_keeps_the_data_in_every_flavor() {
    for flavor in flavors() {
        let began = Instant::now();
        let sentinels = Sentinels::start(flavor, 1).unwrap();
        eprintln!("sentinels of {flavor} started in {:?}", began.elapsed());
        let old = sentinels.master().unwrap();
        assert_eq!(sentinels.url_list().len(), 3);
        // On one connection: a wait is for the writes of its own.
        let mut wire = old.wire().unwrap();
        wire.call(&["SET", "key", "value"]).unwrap();
        assert_eq!(wire.call(&["WAIT", "1", "4000"]), Ok(Reply::Int(1)));

        let began = Instant::now();
        sentinels.failover().unwrap();
        eprintln!("failover in {:?}", began.elapsed());

        let new = sentinels.master().unwrap();
        assert_ne!(new.port(), old.port());
        assert_eq!(new.call(&["GET", "key"]), Ok(Reply::Text("value".into())));
        assert!(old.call(&["SET", "key", "other"]).unwrap_err().contains("READONLY"));
    }
}

#[test]
fn a_killed_master_is_replaced() {
    let sentinels = Sentinels::start(Flavor::Redis7, 2).unwrap();
    let old = sentinels.master().unwrap();
    old.kill();
    let began = Instant::now();
    let new = sentinels.await_other_master(old).unwrap();
    eprintln!("a killed master was replaced in {:?}", began.elapsed());
    assert_eq!(new.call(&["SET", "key", "value"]), Ok(Reply::Text("OK".into())));
}
