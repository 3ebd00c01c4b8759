//! A master with replicas.

use bramah_lab::{Replicated, Reply, servers::Flavor};

#[test]
fn a_replica_has_what_its_master_was_told() {
    let servers = Replicated::start(Flavor::Redis7, 2).unwrap();
    servers.master().call(&["SET", "key", "value"]).unwrap();
    servers.await_sync().unwrap();
    assert_eq!(servers.replicas().len(), 2);
    for replica in servers.replicas() {
        assert_eq!(replica.call(&["GET", "key"]), Ok(Reply::Text("value".into())));
        assert!(replica.call(&["SET", "key", "other"]).unwrap_err().contains("READONLY"));
    }
}
