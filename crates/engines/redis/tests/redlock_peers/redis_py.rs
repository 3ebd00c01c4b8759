//! A client that knows one server only, on some of the masters.

use std::time::Duration;

use bramah_core::Release;

use crate::{
    driven::Peer,
    fleet::{close, fresh, mutex, three},
    now,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn redis_py_stops_us_on_two_of_three_masters_and_not_on_one() {
    let (fleet, name) = (three(), fresh("some"));
    let session = fleet.session(Duration::from_secs(3), "").await;
    let lock = mutex(&session, &name);
    let masters = fleet.masters();
    let (Some(mut one), Some(mut two)) = (Peer::redis_py(&[masters[0]]), Peer::redis_py(&[masters[1]]))
    else {
        return;
    };
    assert_eq!(one.acquire(&name, 20_000, 0), "held");
    let guard = lock.try_lock().await.unwrap().expect("two of three are free");
    assert_eq!(two.acquire(&name, 20_000, 0), "busy");
    assert_eq!(guard.release().await, Release::Released);

    // It is given back everywhere, and what is not ours stays.
    assert_eq!(two.acquire(&name, 20_000, 5000), "held");
    assert_eq!(one.ask("owned"), "yes");
    assert!(lock.try_lock().await.unwrap().is_none());
    let waiting = fleet.wait_for(&lock, &name, 2).await;
    assert_eq!(one.ask("owned"), "yes");
    assert_eq!(two.ask("owned"), "yes");
    assert!(waiting.waits(), "two of three are theirs");
    assert_eq!(one.ask("release"), "released");
    let released = now();
    let (granted, guard) = waiting.finish().await;
    assert!(granted.since(released) < Duration::from_secs(5), "after {:?}", granted.since(released));
    assert_eq!(two.ask("owned"), "yes");
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(two.ask("release"), "released");
    close(session).await;
    fleet.await_free(&name).await;
}
