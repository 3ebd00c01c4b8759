//! Readers and writers of both.

use std::time::Duration;

use bramah_core::Release;

use crate::{
    AT_ONCE, LONG, LONG_MS,
    java::WATCHDOG,
    world::{World, close, everywhere, now},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_of_both_hold_together_and_writers_of_both_wait_for_them_all() {
    everywhere(together).await;
}

async fn together(world: &'static World) {
    let (java, name) = (&world.java, world.name("together"));
    let session = world.session(LONG, "").await;
    let lock = session.rwlock(name.as_str()).unwrap();
    let (reader, writer) = (format!("{name}-reader"), format!("{name}-writer"));

    // Theirs leaves first, and ours is all that their writer waits for.
    assert_eq!(java.ask(&reader, &format!("read lock {name} {LONG_MS}")).await, "held");
    let guard = lock.read().lock().await.unwrap();
    assert_eq!(java.ask(&writer, &format!("write tryLock {name}")).await, "false");
    assert!(lock.write().try_lock().await.unwrap().is_none());
    let mut waiting = java.begin(&writer, &format!("write lock {name} {LONG_MS}"));
    java.await_parked(&writer).await;
    assert_eq!(java.ask(&reader, &format!("read unlock {name}")).await, "released");
    assert!(guard.confirm().await.unwrap());
    assert!(waiting.waits(), "we still read");
    assert_eq!(guard.release().await, Release::Released);
    let freed = now();
    assert_eq!(waiting.finish().await, "held");
    assert!(now().since(freed) < AT_ONCE, "after {:?}", now().since(freed));

    // Their writer leaves, and lets readers of both in.
    let ours = world.wait_for(&lock.read()).await;
    let theirs = java.begin(&reader, &format!("read lock {name} {LONG_MS}"));
    java.await_parked(&reader).await;
    assert_eq!(java.ask(&writer, &format!("write unlock {name}")).await, "released");
    let freed = now();
    assert_eq!(theirs.finish().await, "held");
    let (granted, guard) = ours.finish().await;
    assert!(now().since(freed) < AT_ONCE && granted.since(freed) < AT_ONCE, "after {:?}", now().since(freed));

    // Ours leaves first, and theirs is all that our writer waits for.
    let waiting = world.wait_for(&lock.write()).await;
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(java.ask(&reader, &format!("read isHeldByCurrentThread {name}")).await, "true");
    assert!(lock.write().try_lock().await.unwrap().is_none());
    assert!(waiting.waits(), "they still read");
    assert_eq!(java.ask(&reader, &format!("read unlock {name}")).await, "released");
    let freed = now();
    let (granted, guard) = waiting.finish().await;
    assert!(granted.since(freed) < AT_ONCE, "after {:?}", granted.since(freed));
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(world.call(&name, &["EXISTS", &name]).text(), "0");
    close(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_readers_of_redisson_are_woken_by_the_release_of_our_writer() {
    everywhere(all_woken).await;
}

async fn all_woken(world: &'static World) {
    let (java, name) = (&world.java, world.name("woken"));
    let session = world.session(LONG, "").await;
    let guard = session.rwlock(name.as_str()).unwrap().write().lock().await.unwrap();
    let threads = [1, 2, 3].map(|n| format!("{name}-{n}"));
    let mut waiting = Vec::new();
    for thread in &threads {
        waiting.push(java.begin(thread, &format!("read lock {name} {LONG_MS}")));
        java.await_parked(thread).await;
    }
    assert_eq!(guard.release().await, Release::Released);
    let freed = now();
    for waiting in waiting {
        assert_eq!(waiting.finish().await, "held");
    }
    assert!(now().since(freed) < AT_ONCE, "after {:?}", now().since(freed));
    for thread in &threads {
        assert_eq!(java.ask(thread, &format!("read unlock {name}")).await, "released");
    }
    close(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_writer_of_redisson_that_becomes_a_reader_lets_our_readers_in() {
    everywhere(downgrade).await;
}

async fn downgrade(world: &'static World) {
    let (java, name) = (&world.java, world.name("downgrade"));
    let session = world.session(LONG, "").await;
    let lock = session.rwlock(name.as_str()).unwrap();
    assert_eq!(java.ask(&name, &format!("write lock {name} {LONG_MS}")).await, "held");
    assert_eq!(java.ask(&name, &format!("read lock {name} {LONG_MS}")).await, "held");
    let (one, two) = (world.wait_for(&lock.read()).await, world.wait_for(&lock.read()).await);
    assert_eq!(java.ask(&name, &format!("write unlock {name}")).await, "released");
    let freed = now();
    for waiting in [one, two] {
        let (granted, guard) = waiting.finish().await;
        assert!(granted.since(freed) < AT_ONCE, "after {:?}", granted.since(freed));
        assert_eq!(guard.release().await, Release::Released);
    }
    assert!(lock.write().try_lock().await.unwrap().is_none(), "they still read");
    assert_eq!(java.ask(&name, &format!("read unlock {name}")).await, "released");
    assert_eq!(world.call(&name, &["EXISTS", &name]).text(), "0");
    close(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_of_both_are_kept_alive_past_their_ttls() {
    everywhere(kept).await;
}

async fn kept(world: &'static World) {
    let (java, name) = (&world.java, world.name("read-kept"));
    let session = world.session(Duration::from_secs(2), "").await;
    let lock = session.rwlock(name.as_str()).unwrap();
    assert_eq!(java.ask(&name, &format!("read lock {name}")).await, "held");
    let guard = lock.read().lock().await.unwrap();
    let since = now();
    while now().since(since) < WATCHDOG + Duration::from_millis(1500) {
        assert!(lock.write().try_lock().await.unwrap().is_none());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Each alone still keeps a writer out.
    assert!(guard.is_held());
    assert_eq!(guard.release().await, Release::Released);
    assert!(lock.write().try_lock().await.unwrap().is_none());
    let guard = lock.read().lock().await.unwrap();
    assert_eq!(java.ask(&name, &format!("read unlock {name}")).await, "released");
    assert_eq!(java.ask(&name, &format!("write tryLock {name}")).await, "false");
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(world.call(&name, &["EXISTS", &name]).text(), "0");
    close(session).await;
}
