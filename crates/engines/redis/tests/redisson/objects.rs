//! Semaphores, permits with ids and latches, shared by Redisson and us.

use std::time::Duration;

use bramah_core::Moment;
use bramah_redis::{
    Redis,
    redisson::{LeaseLeft, PermitId},
};
use tokio::task::JoinHandle;

use crate::{
    AT_ONCE, LONG_MS, PATIENCE,
    world::{World, everywhere, now},
};

/// An engine of ours in the same world.
fn engine(world: &World) -> Redis {
    Redis::from_url(&world.url("")).unwrap()
}

/// The end of something that was waited for, which came soon after `since`.
async fn finish<T>(waiting: JoinHandle<bramah_core::Result<T>>, since: Moment) -> T {
    let done = tokio::time::timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    assert_soon(since);
    done
}

fn assert_soon(since: Moment) {
    assert!(now().since(since) < AT_ONCE, "after {:?}", now().since(since));
}

fn id(text: &str) -> PermitId {
    text.parse().unwrap_or_else(|why| panic!("{text}: {why}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_semaphore_is_one_and_each_side_is_woken_by_the_other() {
    everywhere(|world| async move {
        semaphore(world, world.name("sem")).await;
        semaphore(world, format!("{{{}}}:tagged", world.name("sem"))).await;
    })
    .await;
}

async fn semaphore(world: &World, name: String) {
    let (java, ours) = (&world.java, engine(world).redisson_semaphore(&name));
    let thread = format!("objects-{name}");
    let told =
        async |call: &str| java.ask(&thread, &format!("semaphore {}", call.replace("NAME", &name))).await;
    let channel =
        if name.contains('{') { format!("redisson_sc:{name}") } else { format!("redisson_sc:{{{name}}}") };

    assert!(ours.try_set_permits(3, None).await.unwrap());
    assert_eq!(told("trySetPermits NAME 5").await, "false", "it is set");
    assert_eq!(told("availablePermits NAME").await, "3");
    assert_eq!(told("acquire NAME 2").await, "held");
    assert_eq!(ours.available_permits().await.unwrap(), 1);
    assert!(!ours.try_acquire(2).await.unwrap());
    assert!(ours.try_acquire(1).await.unwrap());
    assert_eq!(told("tryAcquire NAME 1").await, "false");

    for _ in 0..3 {
        let waiting = tokio::spawn({
            let ours = ours.clone();
            async move { ours.acquire(1).await }
        });
        assert_eq!(told("availablePermits NAME").await, "0");
        assert!(!waiting.is_finished());
        let since = now();
        assert_eq!(told("release NAME 1").await, "released");
        finish(waiting, since).await;
    }
    for _ in 0..3 {
        let mut waiting = java.begin(&thread, &format!("semaphore acquire {name} 1"));
        world.await_subscribers(&name, &channel, 1).await;
        assert!(waiting.waits());
        let since = now();
        ours.release(1).await.unwrap();
        assert_eq!(waiting.finish().await, "held");
        assert_soon(since);
        world.await_subscribers(&name, &channel, 0).await;
    }
    assert_eq!(ours.available_permits().await.unwrap(), 0);
    assert!(ours.delete().await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_permit_is_known_by_its_id_on_both_sides() {
    everywhere(|world| async move {
        permits(world, world.name("permits")).await;
        permits(world, format!("{{{}}}:tagged", world.name("permits"))).await;
    })
    .await;
}

async fn permits(world: &World, name: String) {
    let (java, ours) = (&world.java, engine(world).redisson_permits(&name));
    let thread = format!("objects-{name}");
    let told =
        async |call: &str| java.ask(&thread, &format!("permits {}", call.replace("NAME", &name))).await;
    let channel =
        if name.contains('{') { format!("redisson_sc:{name}") } else { format!("redisson_sc:{{{name}}}") };

    assert_eq!(told("trySetPermits NAME 2").await, "true");
    assert!(!ours.try_set_permits(3).await.unwrap(), "it is set");
    let theirs = id(&told("acquire NAME").await);
    assert_eq!(ours.lease_left(theirs).await.unwrap(), LeaseLeft::Endless);
    let leased = id(&told(&format!("acquire NAME {LONG_MS}")).await);
    let LeaseLeft::Ends(left) = ours.lease_left(leased).await.unwrap() else {
        panic!("{leased} has no lease")
    };
    assert!(left <= Duration::from_millis(LONG_MS) && left > Duration::from_millis(LONG_MS / 5), "{left:?}");
    assert_eq!((ours.acquired_permits().await.unwrap(), ours.permits().await.unwrap()), (2, 2));

    // We give theirs back, and they find it gone.
    assert!(ours.release(leased).await.unwrap());
    let gone = told(&format!("release NAME {leased}")).await;
    assert!(gone.starts_with("error "), "{gone}");
    // They give ours back, and we find it gone.
    let mine = ours.try_acquire(1, Some(Duration::from_millis(LONG_MS))).await.unwrap().unwrap()[0];
    assert_eq!(told("availablePermits NAME").await, "0");
    assert_eq!(told(&format!("release NAME {mine}")).await, "released");
    assert!(!ours.release(mine).await.unwrap());

    // We wait for them.
    let mut mine = ours.acquire(1, None).await.unwrap()[0];
    for given_back in [mine, theirs] {
        let waiting = tokio::spawn({
            let ours = ours.clone();
            async move { ours.acquire(1, None).await }
        });
        assert_eq!(told("availablePermits NAME").await, "0");
        assert!(!waiting.is_finished());
        let since = now();
        assert_eq!(told(&format!("release NAME {given_back}")).await, "released");
        mine = finish(waiting, since).await[0];
    }
    // They wait for us: for what we give back, and for a lease that we have end.
    for lease in [None, Some(Duration::from_millis(300))] {
        let mut waiting = java.begin(&thread, &format!("permits acquire {name}"));
        world.await_subscribers(&name, &channel, 1).await;
        assert!(waiting.waits());
        let since = now();
        match lease {
            None => assert!(ours.release(mine).await.unwrap()),
            Some(_) => {
                // Redisson does not hear of a shorter lease: whoever comes by takes it back, and tells.
                assert!(ours.update_lease(mine, lease).await.unwrap());
                while ours.lease_left(mine).await.unwrap() != LeaseLeft::Gone {}
            }
        }
        mine = id(&waiting.finish().await);
        assert_soon(since);
        world.await_subscribers(&name, &channel, 0).await;
    }
    assert_eq!(ours.acquired_permits().await.unwrap(), 2);
    // A lease of theirs ends, and nobody says so.
    assert!(ours.release(mine).await.unwrap());
    told("acquire NAME 300").await.parse::<PermitId>().unwrap();
    let since = now();
    assert_eq!(ours.acquire(1, None).await.unwrap().len(), 1);
    assert_soon(since);
    assert!(ours.delete().await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_latch_opens_on_both_sides_whoever_counts_it_down() {
    everywhere(latch).await;
}

async fn latch(world: &'static World) {
    let name = world.name("latch");
    let (java, ours) = (&world.java, engine(world).redisson_latch(&name));
    let thread = format!("objects-{name}");
    let told = async |call: &str| java.ask(&thread, &format!("latch {}", call.replace("NAME", &name))).await;
    let channel = format!("redisson_countdownlatch__channel__{{{name}}}");
    // Who ends it last: they, we, or our removing it.
    for round in 0..3 {
        match round {
            0 => assert!(ours.try_set_count(2).await.unwrap()),
            _ => assert_eq!(told("trySetCount NAME 2").await, "true"),
        }
        assert_eq!(told("getCount NAME").await, "2");
        assert_eq!(ours.count().await.unwrap(), 2);
        let mut theirs = java.begin(&format!("{thread}-waits"), &format!("latch await {name}"));
        world.await_subscribers(&name, &channel, 1).await;
        let waiting = tokio::spawn({
            let ours = ours.clone();
            async move { ours.wait().await }
        });
        match round {
            0 => assert_eq!(ours.count_down().await.unwrap(), 1),
            _ => assert_eq!(told("countDown NAME").await, "counted"),
        }
        assert_eq!(told("getCount NAME").await, "1");
        assert!(theirs.waits() && !waiting.is_finished());
        let since = now();
        match round {
            0 => assert_eq!(told("countDown NAME").await, "counted"),
            1 => assert_eq!(ours.count_down().await.unwrap(), 0),
            _ => assert!(ours.delete().await.unwrap()),
        }
        finish(waiting, since).await;
        assert_eq!(theirs.finish().await, "true");
        assert_soon(since);
        world.await_subscribers(&name, &channel, 0).await;
    }
    assert_eq!(world.call(&name, &["EXISTS", &name]).text(), "0");
}
