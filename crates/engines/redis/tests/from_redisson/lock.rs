//! `RLock`: taking it and giving it back.

use std::time::Duration;

use bramah_core::{ErrorKind, Owner, Release};

use crate::stage::*;

const CHANNEL: &str = "redisson_lock__channel:{orders}";

/// A ttl that is renewed while one looks, and its lock.
const BRIEF: Duration = ms(1500);

/// Whether it is a UUID, a colon and a number.
fn is_owner(text: &str) -> bool {
    let (client, thread) = text.split_once(':').unwrap();
    let dashes = client.char_indices().filter(|(_, c)| *c == '-').map(|(at, _)| at);
    client.len() == 36 && dashes.eq([8, 13, 18, 23]) && thread.parse::<u64>().is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lock() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let guard = mutex(&session, "orders").lock().await.unwrap();
    let (owner, count) = stage.holder("orders");
    assert!(is_owner(&owner) && count == "1", "{owner} {count}");
    assert!((25_000..=30_000).contains(&stage.pttl("orders")));
    assert!(stage.java_lock("orders", JAVA, 30_000).is_some_and(|left| left > 25_000));
    guard.release().await;

    assert_eq!(stage.java_lock("orders", JAVA, 30_000), None);
    let lock = mutex(&session, "orders");
    let waiting = stage.waiting(async move { lock.lock().await }).await;
    assert_eq!(stage.java_unlock("orders", JAVA), Some(1));
    let guard = soon(waiting).await.unwrap().unwrap();
    assert!(guard.is_held());

    let brief = stage.session_of(BRIEF).await;
    let renewed = mutex(&brief, "renewed").lock().await.unwrap();
    stage.await_renewal("renewed").await;
    stage.await_renewal("renewed").await;
    assert!(renewed.is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lock_again() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let (lock, owner) = (mutex(&session, "orders"), Owner::new());
    let outer = lock.owned_by(&owner).lock().await.unwrap();
    let inner = lock.owned_by(&owner).try_lock().await.unwrap().unwrap();
    assert!(lock.try_lock().await.unwrap().is_none(), "without the owner it is somebody else");
    assert_eq!(inner.release().await, Release::StillOwned);
    assert!(outer.is_held() && stage.exists("orders"));
    assert_eq!(outer.release().await, Release::Released);
    assert!(!stage.exists("orders"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lock_lease() {
    let stage = Stage::enter().await;
    // Its keeper would renew it several times.
    let session = stage.session_of(ms(600)).await;
    let guard = mutex(&session, "orders").lease(BRIEF).lock().await.unwrap();
    let mut last = stage.pttl("orders");
    assert!(last > 600 && last <= 1500, "{last}");
    eventually("the end of the lease", || {
        let before = std::mem::replace(&mut last, stage.pttl("orders"));
        assert!(last <= before, "it was renewed: {before} ms, then {last} ms");
        if last < 0 { Ok(()) } else { Err(format!("{last} ms are left")) }
    })
    .await;
    soon(guard.lost()).await;
    assert_eq!(guard.release().await, Release::AlreadyLost);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lock_lease_of_nothing() {
    let stage = Stage::enter().await;
    let session = stage.session_of(BRIEF).await;
    let refused = mutex(&session, "orders").lease(Duration::ZERO).lock().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    assert!(!stage.exists("orders"));
    let guard = mutex(&session, "orders").lock().await.unwrap();
    stage.await_renewal("orders").await;
    assert!(guard.is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn try_lock() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let lock = mutex(&session, "orders");
    let guard = lock.try_lock().await.unwrap().expect("it is free");
    guard.release().await;
    assert_eq!(stage.java_lock("orders", JAVA, 30_000), None);
    assert!(lock.try_lock().await.unwrap().is_none());
    assert_eq!(stage.holder("orders"), (JAVA.to_owned(), "1".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn try_lock_wait() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let lock = mutex(&session, "orders");
    assert_eq!(stage.java_lock("orders", JAVA, 30_000), None);
    let began = now();
    let late = lock.lock_within(ms(300)).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Timeout, "{late}");
    assert!(now().since(began) >= ms(300));
    let waiting = stage.waiting(async move { lock.lock_within(PATIENCE).await }).await;
    assert_eq!(stage.java_unlock("orders", JAVA), Some(1));
    let _guard = soon(waiting).await.unwrap().unwrap();
    assert!((25_000..=30_000).contains(&stage.pttl("orders")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn try_lock_wait_of_nothing() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let lock = mutex(&session, "orders");
    // Whether the server answers before there is no time left is a matter of luck.
    match lock.lock_within(Duration::ZERO).await {
        Ok(guard) => assert_eq!(guard.release().await, Release::Released),
        Err(late) => assert_eq!(late.kind(), ErrorKind::Timeout, "{late}"),
    }
    eventually("what was sent to be taken back", || {
        if session.claims() == 0 && !stage.exists("orders") { Ok(()) } else { Err("it is there".into()) }
    })
    .await;
    drop(lock.try_lock().await.unwrap().expect("it is free"));
    eventually("a free lock", || {
        stage.java_lock("orders", JAVA, 30_000).map_or(Ok(()), |_| Err("it is held".into()))
    })
    .await;
    assert_eq!(lock.lock_within(Duration::ZERO).await.unwrap_err().kind(), ErrorKind::Timeout);
    assert!(lock.try_lock().await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn try_lock_wait_and_lease() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let lock = mutex(&session, "orders").lease(ms(5000));
    assert_eq!(stage.java_lock("orders", JAVA, 30_000), None);
    assert_eq!(lock.lock_within(ms(100)).await.unwrap_err().kind(), ErrorKind::Timeout);
    let waiting = stage.waiting(async move { lock.lock_within(PATIENCE).await }).await;
    assert_eq!(stage.java_unlock("orders", JAVA), Some(1));
    let _guard = soon(waiting).await.unwrap().unwrap();
    assert!((1..=5000).contains(&stage.pttl("orders")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn try_lock_wait_and_no_lease() {
    let stage = Stage::enter().await;
    let session = stage.session_of(BRIEF).await;
    assert_eq!(stage.java_lock("orders", JAVA, 30_000), None);
    let lock = mutex(&session, "orders");
    let waiting = stage.waiting(async move { lock.lock_within(PATIENCE).await }).await;
    assert_eq!(stage.java_unlock("orders", JAVA), Some(1));
    let guard = soon(waiting).await.unwrap().unwrap();
    stage.await_renewal("orders").await;
    assert!(guard.is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn try_lock_no_wait_and_lease() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let lock = mutex(&session, "orders").lease(ms(5000));
    let guard = lock.try_lock().await.unwrap().unwrap();
    assert!((1..=5000).contains(&stage.pttl("orders")));
    assert!(lock.try_lock().await.unwrap().is_none());
    guard.release().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lock_interruptibly() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    assert_eq!(stage.java_lock("orders", JAVA, 30_000), None);
    let lock = mutex(&session, "orders");
    let waiting = stage.waiting(async move { lock.lock().await }).await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    assert_eq!(stage.java_unlock("orders", JAVA), Some(1));
    eventually("nothing to be left", || {
        if session.claims() == 0 && !stage.exists("orders") { Ok(()) } else { Err("it is there".into()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn unlock() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let mut listener = stage.listen(CHANNEL);
    let guard = mutex(&session, "orders").lock().await.unwrap();
    assert_eq!(stage.java_unlock("orders", JAVA), None, "Redisson throws");
    assert_eq!(guard.release().await, Release::Released);
    assert!(!stage.exists("orders"));
    assert_eq!(listener.heard(), ["0"]);

    drop(mutex(&session, "orders").lock().await.unwrap());
    eventually("a guard that was dropped", || {
        if stage.exists("orders") { Err("it is held".into()) } else { Ok(()) }
    })
    .await;
    assert_eq!(listener.heard(), ["0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn unlock_too_late() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let guard = mutex(&session, "orders").lock().await.unwrap();
    assert_eq!(stage.cli(&["DEL", "orders"]), "1");
    assert_eq!(stage.java_lock("orders", JAVA, 30_000), None);
    assert!(!guard.confirm().await.unwrap());
    assert_eq!(guard.release().await, Release::AlreadyLost);
    assert_eq!(stage.holder("orders").0, JAVA, "another's hold is not ended");
}
