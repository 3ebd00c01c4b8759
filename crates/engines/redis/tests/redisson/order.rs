//! Who comes first: the queue of a fair lock, and tokens that only grow.

use std::time::Duration;

use bramah_core::Release;

use crate::{
    AT_ONCE, LONG, LONG_MS,
    exclusive::{Kind, Scene},
    world::{World, close, everywhere, now},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_fair_lock_serves_both_in_the_order_in_which_they_came() {
    everywhere(in_turn).await;
}

async fn in_turn(world: &'static World) {
    let scene = Scene::new(world, Kind::Fair, "turn");
    let (java, name) = (&world.java, scene.name.clone());
    let session = scene.session(LONG).await;
    let lock = scene.lock(&session);
    assert_eq!(scene.java(&format!("lock {LONG_MS}")).await, "held");
    let threads = [format!("{name}-1"), format!("{name}-2")];
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for (round, thread) in threads.iter().enumerate() {
        theirs.push(java.begin(thread, &format!("fair lock {name} {LONG_MS}")));
        world.await_queue(&name, 2 * round + 1).await;
        java.await_parked(thread).await;
        ours.push(world.wait_for(&lock).await);
        world.await_queue(&name, 2 * round + 2).await;
    }
    let mut fence = None;
    assert_eq!(scene.java("unlock").await, "released");
    for (round, thread) in threads.iter().enumerate() {
        let freed = now();
        assert_eq!(theirs.remove(0).finish().await, "held", "round {round}");
        assert!(now().since(freed) < AT_ONCE, "round {round} after {:?}", now().since(freed));
        assert!(
            ours.iter().all(|waiting| waiting.waits()) && theirs.iter_mut().all(|waiting| waiting.waits())
        );
        assert_eq!(java.ask(thread, &format!("fair unlock {name}")).await, "released");
        let freed = now();
        let (granted, guard) = ours.remove(0).finish().await;
        assert!(granted.since(freed) < AT_ONCE, "round {round} after {:?}", granted.since(freed));
        assert!(
            ours.iter().all(|waiting| waiting.waits()) && theirs.iter_mut().all(|waiting| waiting.waits())
        );
        assert!(guard.fence() > fence, "{guard:?} after {fence:?}");
        fence = guard.fence();
        assert_eq!(guard.release().await, Release::Released);
    }
    let left = ["redisson_lock_queue", "redisson_lock_timeout"].map(|key| format!("{key}:{{{name}}}"));
    assert_eq!(world.call(&name, &["EXISTS", &name, &left[0], &left[1]]).text(), "0");
    close(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_gives_up_waiting_for_a_fair_lock_is_passed_over() {
    everywhere(passed_over).await;
}

async fn passed_over(world: &'static World) {
    let scene = Scene::new(world, Kind::Fair, "passed");
    let (java, name) = (&world.java, scene.name.clone());
    let session = scene.session(LONG).await;
    let lock = scene.lock(&session);
    assert_eq!(scene.java(&format!("lock {LONG_MS}")).await, "held");
    // One of each gives up, and then one of each waits for good.
    let brief = java.begin(&format!("{name}-1"), &format!("fair tryLock {name} 2000 {LONG_MS}"));
    world.await_queue(&name, 1).await;
    assert!(lock.lock_within(Duration::from_millis(300)).await.is_err());
    assert_eq!(brief.finish().await, "false");
    world.await_queue(&name, 0).await;
    let ours = world.wait_for(&lock).await;
    world.await_queue(&name, 1).await;
    let last = java.begin(&format!("{name}-2"), &format!("fair lock {name} {LONG_MS}"));
    world.await_queue(&name, 2).await;
    java.await_parked(&format!("{name}-2")).await;
    assert_eq!(scene.java("unlock").await, "released");
    let freed = now();
    let (granted, guard) = ours.finish().await;
    assert!(granted.since(freed) < AT_ONCE, "after {:?}", granted.since(freed));
    assert_eq!(guard.release().await, Release::Released);
    let freed = now();
    assert_eq!(last.finish().await, "held");
    assert!(now().since(freed) < AT_ONCE, "after {:?}", now().since(freed));
    assert_eq!(java.ask(&format!("{name}-2"), &format!("fair unlock {name}")).await, "released");
    close(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tokens_grow_from_one_grant_to_the_next_on_both_sides() {
    everywhere(tokens).await;
}

async fn tokens(world: &'static World) {
    let scene = Scene::new(world, Kind::Fenced, "tokens");
    let session = scene.session(LONG).await;
    let lock = scene.lock(&session);
    let mut last = 0;
    for round in 0..20 {
        let token = if round % 2 == 0 {
            let token = scene.java("lockAndGetToken").await.parse().unwrap();
            assert_eq!(scene.java("unlock").await, "released");
            token
        } else {
            let guard = lock.lock().await.unwrap();
            let fence = guard.fence().expect("a mutex has one").get();
            assert_eq!(scene.java("getToken").await, fence.to_string());
            assert_eq!(guard.release().await, Release::Released);
            fence
        };
        assert!(token > last, "{token} after {last}");
        last = token;
    }
    close(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_two_of_both_ever_hold_at_the_same_time() {
    everywhere(|world| async move {
        for kind in Kind::ALL {
            crowd(Scene::new(world, kind, "crowd")).await;
        }
    })
    .await;
}

/// Two threads and two tasks, each of which adds one to a number by reading and writing it: none is lost.
async fn crowd(scene: Scene) {
    const TURNS: usize = 8;
    let (world, kind) = (scene.world, scene.kind);
    let number = format!("number:{{{}}}", scene.name);
    world.call(&scene.name, &["SET", &number, "0"]);
    let add = {
        let (name, number) = (scene.name.clone(), number.clone());
        move || {
            let seen: u64 = world.call(&name, &["GET", &number]).text().parse().unwrap();
            world.call(&name, &["SET", &number, &(seen + 1).to_string()]);
        }
    };
    let mut running = Vec::new();
    for who in 0..2 {
        let (name, add) = (scene.name.clone(), add.clone());
        running.push(tokio::spawn(async move {
            let thread = format!("{name}-{who}");
            for _ in 0..TURNS {
                let locked = world.java.ask(&thread, &format!("{} lock {name} {LONG_MS}", kind.word())).await;
                assert_eq!(locked, "held");
                add();
                let unlocked = world.java.ask(&thread, &format!("{} unlock {name}", kind.word())).await;
                assert_eq!(unlocked, "released");
            }
        }));
    }
    for _ in 0..2 {
        let (session, add) = (scene.session(LONG).await, add.clone());
        let lock = scene.lock(&session);
        running.push(tokio::spawn(async move {
            for _ in 0..TURNS {
                let guard = lock.lock().await.unwrap();
                add();
                assert_eq!(guard.release().await, Release::Released);
            }
            close(session).await;
        }));
    }
    for running in running {
        running.await.unwrap();
    }
    assert_eq!(world.call(&scene.name, &["GET", &number]).text(), (4 * TURNS).to_string());
}
