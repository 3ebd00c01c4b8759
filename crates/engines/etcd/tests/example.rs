//! The example does what it says.

#[path = "../examples/guarded.rs"]
#[allow(dead_code, reason = "its own main is not called")]
mod guarded;

use bramah_lab::{Etcd as Server, servers::Flavor};

#[tokio::test]
async fn a_counter_is_written_under_its_lock_or_not_at_all() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let address = server.addresses().remove(0);
    assert_eq!(guarded::count(&address, false).await.unwrap(), Some(1));
    assert_eq!(guarded::count(&address, true).await.unwrap(), None);
    assert_eq!(guarded::count(&address, false).await.unwrap(), Some(2));
}
