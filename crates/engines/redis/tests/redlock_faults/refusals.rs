//! What Redlock does not do.

use bramah_core::ErrorKind;
use bramah_redis::redlock::Redlock;

use crate::{rig::*, stage::*};

#[test]
fn a_master_that_is_named_twice_has_one_vote() {
    let why = Redlock::from_url("redlock://h:1,h:1").unwrap_err();
    assert_eq!(why.kind(), ErrorKind::Invalid, "{why}");
    assert!(why.to_string().contains("h:1"), "{why}");
    let twice = Redlock::new([("h", 1), ("h", 2), ("h", 1)]);
    assert_eq!(twice.engine().map(drop).unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn permits_are_not_for_masters_that_know_nothing_of_each_other() {
    let masters = Masters::start(3);
    let session = join(&masters.url("restart=trust&node_timeout=1s&layout=redisson"), ms(6000)).await;
    let why = session.semaphore("permits", 3).map(drop).unwrap_err();
    assert_eq!(why.kind(), ErrorKind::Unsupported, "{why}");
    session.rwlock("readers").unwrap();
    close([session]).await;
}
