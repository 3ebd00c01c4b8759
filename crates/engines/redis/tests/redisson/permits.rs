//! Permits of both, as Redisson's expirable semaphore has them.

use std::time::Duration;

use bramah_core::{ErrorKind, Release};

use crate::{
    AT_ONCE, LONG, LONG_MS,
    java::WATCHDOG,
    world::{World, close, everywhere, now},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn both_take_permits_of_one_semaphore_and_wake_each_other() {
    everywhere(shared).await;
}

async fn shared(world: &'static World) {
    let (java, name) = (&world.java, world.name("permits"));
    let session = world.session(LONG, "").await;
    let told = async |call: &str| java.ask(&name, call).await;
    assert_eq!(told(&format!("permits trySetPermits {name} 2")).await, "true");
    let one = session.semaphore(name.as_str(), 2).unwrap().permits(1);
    let id = told(&format!("permits acquire {name} {LONG_MS}")).await;
    let ours = one.lock().await.unwrap();
    assert!(one.try_lock().await.unwrap().is_none());
    assert_eq!(told(&format!("permits tryAcquire {name}")).await, "null");
    assert_eq!(told(&format!("permits availablePermits {name}")).await, "0");
    assert_eq!(told(&format!("permits getPermits {name}")).await, "2");

    let waiting = world.wait_for(&one).await;
    assert_eq!(told(&format!("permits release {name} {id}")).await, "released");
    let freed = now();
    let (granted, second) = waiting.finish().await;
    assert!(granted.since(freed) < AT_ONCE, "after {:?}", granted.since(freed));

    let thread = format!("{name}-waits");
    let waiting = java.begin(&thread, &format!("permits acquire {name} {LONG_MS}"));
    java.await_parked(&thread).await;
    assert_eq!(ours.release().await, Release::Released);
    let freed = now();
    let id = waiting.finish().await;
    assert!(now().since(freed) < AT_ONCE, "after {:?}", now().since(freed));
    assert_eq!(second.release().await, Release::Released);
    assert_eq!(told(&format!("permits release {name} {id}")).await, "released");
    assert_eq!(told(&format!("permits availablePermits {name}")).await, "2");
    let wrong = told(&format!("permits release {name} {id}")).await;
    assert!(wrong.starts_with("error "), "{wrong}");
    close(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_semaphore_that_we_begin_is_redissons_too() {
    everywhere(begun).await;
}

async fn begun(world: &'static World) {
    let (java, name) = (&world.java, world.name("begun"));
    let session = world.session(LONG, "").await;
    let semaphore = session.semaphore(name.as_str(), 3).unwrap();
    let two = semaphore.permits(2).lock().await.unwrap();
    assert_eq!(java.ask(&name, &format!("permits trySetPermits {name} 9")).await, "false");
    assert_eq!(java.ask(&name, &format!("permits availablePermits {name}")).await, "1");
    let id = java.ask(&name, &format!("permits tryAcquire {name} 0 {LONG_MS}")).await;
    assert_eq!(id.len(), 32, "{id}");
    assert!(semaphore.permits(1).try_lock().await.unwrap().is_none());
    let other = session.semaphore(name.as_str(), 4).unwrap();
    assert_eq!(other.permits(1).try_lock().await.unwrap_err().kind(), ErrorKind::Conflict);

    // Both of ours at once, for two who wait.
    let threads = [1, 2].map(|n| format!("{name}-{n}"));
    let mut waiting = Vec::new();
    for thread in &threads {
        waiting.push(java.begin(thread, &format!("permits acquire {name} {LONG_MS}")));
        java.await_parked(thread).await;
    }
    assert_eq!(two.release().await, Release::Released);
    let freed = now();
    let mut ids = vec![id];
    for waiting in waiting {
        ids.push(waiting.finish().await);
    }
    assert!(now().since(freed) < AT_ONCE, "after {:?}", now().since(freed));
    for id in ids {
        assert_eq!(java.ask(&name, &format!("permits release {name} {id}")).await, "released");
    }
    assert_eq!(java.ask(&name, &format!("permits availablePermits {name}")).await, "3");
    close(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn our_permits_are_kept_alive_and_those_of_redisson_end_with_their_lease() {
    everywhere(leases).await;
}

async fn leases(world: &'static World) {
    let (java, name) = (&world.java, world.name("leases"));
    let session = world.session(Duration::from_secs(2), "").await;
    let one = session.semaphore(name.as_str(), 2).unwrap().permits(1);
    let kept = one.lock().await.unwrap();
    let id = java.ask(&name, &format!("permits tryAcquire {name} 0 {}", WATCHDOG.as_millis())).await;
    let since = now();
    let (granted, next) = world.wait_for(&one).await.finish().await;
    let waited = granted.since(since);
    assert!(waited > WATCHDOG / 2 && waited < WATCHDOG + AT_ONCE, "after {waited:?}");
    assert!(kept.is_held() && kept.confirm().await.unwrap());
    assert_eq!(java.ask(&name, &format!("permits tryAcquire {name}")).await, "null");
    let late = java.ask(&name, &format!("permits release {name} {id}")).await;
    assert!(late.starts_with("error "), "{late}");
    for guard in [kept, next] {
        assert_eq!(guard.release().await, Release::Released);
    }
    assert_eq!(java.ask(&name, &format!("permits availablePermits {name}")).await, "2");
    close(session).await;
}
