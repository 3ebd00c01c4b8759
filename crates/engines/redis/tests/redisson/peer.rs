//! Redisson with itself: what the tests drive works as they think it does.

use std::time::Duration;

use crate::{
    AT_ONCE, LONG_MS,
    world::{World, everywhere, now},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn redisson_waits_for_redisson_and_is_woken_by_its_unlock() {
    everywhere(hand_over).await;
}

async fn hand_over(world: &'static World) {
    let (java, name) = (&world.java, world.name("own"));
    assert_eq!(java.ask("own-1", &format!("lock lock {name} {LONG_MS}")).await, "held");
    assert_eq!(java.ask("own-1", &format!("lock lock {name} {LONG_MS}")).await, "held");
    assert_eq!(java.ask("own-1", &format!("lock getHoldCount {name}")).await, "2");
    assert_eq!(java.ask("own-2", &format!("lock tryLock {name}")).await, "false");
    let refused = java.ask("own-2", &format!("lock unlock {name}")).await;
    assert!(refused.starts_with("error IllegalMonitorStateException"), "{refused}");
    let mut waiting = java.begin("own-2", &format!("lock lock {name} {LONG_MS}"));
    java.await_parked("own-2").await;
    assert_eq!(java.ask("own-1", &format!("lock unlock {name}")).await, "released");
    assert!(waiting.waits(), "it is held once more");
    assert_eq!(java.ask("own-1", &format!("lock unlock {name}")).await, "released");
    let released = now();
    assert_eq!(waiting.finish().await, "held");
    assert!(now().since(released) < AT_ONCE, "after {:?}", now().since(released));
    assert_eq!(java.ask("own-2", &format!("lock isHeldByCurrentThread {name}")).await, "true");
    assert_eq!(java.ask("own-2", &format!("lock unlock {name}")).await, "released");
    assert_eq!(world.call(&name, &["EXISTS", &name]).text(), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_kind_of_redissons_locks_answers() {
    everywhere(kinds).await;
}

async fn kinds(world: &'static World) {
    let java = &world.java;
    let told = async |call: &str| java.ask("kinds", call).await;
    let fenced = world.name("kinds");
    for token in ["1", "2"] {
        assert_eq!(told(&format!("fenced lockAndGetToken {fenced}")).await, token);
        assert_eq!(told(&format!("fenced unlock {fenced}")).await, "released");
    }
    assert_eq!(told(&format!("fenced getToken {fenced}")).await, "2");
    let members = format!("{},{}", world.name("kinds"), world.name("kinds"));
    for kind in ["multi", "red"] {
        assert_eq!(told(&format!("{kind} tryLock {members} 1000 {LONG_MS}")).await, "true");
        assert_eq!(told(&format!("{kind} unlock {members}")).await, "released");
    }
    let counted = world.name("kinds");
    assert_eq!(told(&format!("semaphore trySetPermits {counted} 2")).await, "true");
    assert_eq!(told(&format!("semaphore acquire {counted} 2")).await, "held");
    assert_eq!(told(&format!("semaphore tryAcquire {counted} 1 50")).await, "false");
    assert_eq!(told(&format!("semaphore release {counted} 2")).await, "released");
    assert_eq!(told(&format!("semaphore availablePermits {counted}")).await, "2");
    let expiring = world.name("kinds");
    assert_eq!(told(&format!("permits trySetPermits {expiring} 1")).await, "true");
    let id = told(&format!("permits acquire {expiring}")).await;
    assert_eq!(told(&format!("permits release {expiring} {id}")).await, "released");
    // One of its releases wraps the reason and the other does not.
    let twice = told(&format!("permits release {expiring} {id}")).await;
    assert!(
        twice.starts_with("error RedisException") || twice.starts_with("error IllegalArgument"),
        "{twice}"
    );
    let latch = world.name("kinds");
    assert_eq!(told(&format!("latch trySetCount {latch} 1")).await, "true");
    let waiting = java.begin("kinds-2", &format!("latch await {latch}"));
    assert_eq!(told(&format!("latch countDown {latch}")).await, "counted");
    assert_eq!(waiting.finish().await, "true");
    let unknown = told(&format!("lock open {latch}")).await;
    assert!(unknown.starts_with("error IllegalArgumentException"), "{unknown}");
    let left = told(&format!("lock tryLock {fenced} 0 {LONG_MS}")).await;
    assert_eq!(left, "true");
    let left: u64 = told(&format!("lock remainTimeToLive {fenced}")).await.parse().unwrap();
    assert!(Duration::from_millis(left) > AT_ONCE, "{left}");
    assert_eq!(told(&format!("lock forceUnlock {fenced}")).await, "true");
    assert_eq!(told(&format!("lock isLocked {fenced}")).await, "false");
}
