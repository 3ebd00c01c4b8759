//! Who is killed or frozen: its locks are free after its ttl, and it learns that they are not its own any more.

use std::{
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use bramah_core::Release;
use bramah_lab::{Signal, interop};

use crate::{
    AT_ONCE, LONG, LONG_MS, PATIENCE,
    exclusive::{Kind, Scene},
    java::{OLDER, WATCHDOG},
    world::{World, close, everywhere, now, open},
};

/// The ttl of our process.
const TTL: Duration = Duration::from_secs(2);

fn scenes(world: &'static World, what: &str) -> [Scene; 4] {
    Kind::ALL.map(|kind| Scene::new(world, kind, what))
}

/// The longest that a wait may take which ends with a ttl.
fn soon_after(ttl: Duration) -> Duration {
    ttl + AT_ONCE
}

/// Whether Redisson does not wake by itself when a holder dies without a word. The fair lock of the older one reckons
/// how long to sleep from the time when it came. If the holder has renewed since, that is negative, and it takes this for
/// no limit.
fn oversleeps(scene: &Scene) -> bool {
    scene.kind == Kind::Fair && scene.world.version == OLDER
}

async fn try_until_held(scene: &Scene) {
    let began = now();
    while scene.java(&format!("tryLock 0 {LONG_MS}")).await != "true" {
        assert!(now().since(began) < PATIENCE, "{} is not free", scene.name);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redisson_that_is_killed_is_followed_by_us_after_its_watchdogs_timeout() {
    everywhere(|world| async move {
        let (java, scenes) = (world.another(), scenes(world, "killed"));
        for scene in &scenes {
            assert_eq!(scene.java_of(&java, "lock").await, "held");
        }
        let mut waiting = Vec::new();
        for scene in &scenes {
            let session = scene.session(LONG).await;
            waiting.push((scene.world.wait_for(&scene.lock(&session)).await, session));
        }
        java.kill();
        let killed = now();
        for (waiting, session) in waiting {
            let (granted, guard) = waiting.finish().await;
            let waited = granted.since(killed);
            assert!(waited > WATCHDOG / 3 && waited < soon_after(WATCHDOG), "{guard:?} after {waited:?}");
            assert_eq!(guard.release().await, Release::Released);
            close(session).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redisson_that_is_frozen_has_lost_its_locks_to_us_and_learns_it() {
    everywhere(|world| async move {
        let (java, scenes) = (world.another(), scenes(world, "frozen"));
        for scene in &scenes {
            assert_eq!(scene.java_of(&java, "lock").await, "held");
        }
        java.freeze();
        let mut held = Vec::new();
        for scene in &scenes {
            let session = scene.session(LONG).await;
            let frozen = now();
            held.push((scene.lock(&session).lock().await.unwrap(), session));
            assert!(now().since(frozen) < soon_after(WATCHDOG), "after {:?}", now().since(frozen));
        }
        java.thaw();
        for (scene, (guard, session)) in scenes.iter().zip(held) {
            assert_eq!(scene.java_of(&java, "isHeldByCurrentThread").await, "false");
            let told = scene.java_of(&java, "unlock").await;
            assert!(told.starts_with("error IllegalMonitorStateException"), "{told}");
            assert!(guard.confirm().await.unwrap(), "theirs did not end ours");
            assert_eq!(guard.release().await, Release::Released);
            close(session).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_of_ours_that_is_killed_is_followed_by_redisson_after_its_ttl() {
    everywhere(|world| async move {
        let scenes = scenes(world, "our-killed");
        let mut ours = Ours::start(world, &scenes);
        let mut waiting = Vec::new();
        for scene in &scenes {
            if oversleeps(scene) {
                waiting.push(None);
                continue;
            }
            waiting.push(Some(scene.begin(&world.java, &format!("lock {LONG_MS}"))));
            world.java.await_parked(&scene.name).await;
        }
        let [(reader, writes), (permit, takes)] =
            [(0, "write lock"), (1, "permits acquire")].map(|(nth, call)| {
                let name = &ours.beside[nth];
                (name.clone(), world.java.begin(name, &format!("{call} {name} {LONG_MS}")))
            });
        world.java.await_parked(&reader).await;
        world.java.await_parked(&permit).await;
        ours.child.kill().unwrap();
        let killed = now();
        for (scene, waiting) in scenes.iter().zip(waiting) {
            match waiting {
                Some(waiting) => assert_eq!(waiting.finish().await, "held"),
                None => try_until_held(scene).await,
            }
            let waited = now().since(killed);
            assert!(waited > TTL / 3 && waited < soon_after(TTL), "{} after {waited:?}", scene.name);
            assert_eq!(scene.java("unlock").await, "released");
        }
        assert_eq!(writes.finish().await, "held");
        assert_eq!(takes.finish().await.len(), 32);
        assert!(now().since(killed) < soon_after(TTL), "after {:?}", now().since(killed));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_of_ours_that_is_frozen_has_lost_its_locks_to_redisson_and_learns_it() {
    everywhere(|world| async move {
        let scenes = scenes(world, "our-frozen");
        let mut ours = Ours::start(world, &scenes);
        interop::signal(&ours.child, Signal::STOP).unwrap();
        let frozen = now();
        for scene in &scenes {
            if oversleeps(scene) {
                try_until_held(scene).await;
            } else {
                assert_eq!(scene.java(&format!("lock {LONG_MS}")).await, "held");
            }
        }
        assert!(now().since(frozen) < soon_after(TTL), "after {:?}", now().since(frozen));
        interop::signal(&ours.child, Signal::CONT).unwrap();
        for _ in &scenes {
            assert_eq!(ours.line(), "lost, held: false, AlreadyLost");
        }
        for scene in &scenes {
            assert_eq!(scene.java("isHeldByCurrentThread").await, "true");
            assert_eq!(scene.java("unlock").await, "released");
        }
    })
    .await;
}

const ORDERS: &str = "BRAMAH_REDISSON_HOLD";

/// A process of ours that holds a lock of each kind.
struct Ours {
    child: Child,
    /// A lock that it reads, and a semaphore whose permits it has.
    beside: [String; 2],
    lines: Lines<BufReader<ChildStdout>>,
}

impl Ours {
    fn start(world: &World, scenes: &[Scene]) -> Self {
        let beside = ["our-reader", "our-permit"].map(|what| world.name(what));
        let names = scenes.iter().map(|scene| &scene.name).chain(&beside);
        let names: Vec<_> = names.map(String::as_str).collect();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "gone::a_process_that_holds", "--nocapture"])
            .env(ORDERS, format!("{} {} {}", world.url(""), world.url("&fair=true"), names.join(" ")))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut ours = Self { child, beside, lines };
        assert_eq!(ours.line(), "held");
        ours
    }

    /// The next one that is not the test harness's.
    fn line(&mut self) -> String {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        let find = || lines.find_map(|line| line.split_once("ours: ").map(|(_, line)| line.to_owned()));
        tokio::task::block_in_place(find).expect("the process ended")
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Other tests start this one as a process of its own; here it has nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_holds() {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let words: Vec<_> = orders.split(' ').collect();
    let [plain, fair, names @ .., read, permit] = words.as_slice() else { panic!("unclear: {orders}") };
    let (plain, fair) = (open(plain, TTL).await, open(fair, TTL).await);
    let _reader = plain.rwlock(*read).unwrap().read().lock().await.unwrap();
    let semaphore = plain.semaphore(*permit, 2).unwrap();
    let _permits = [semaphore.permits(1).lock().await.unwrap(), semaphore.permits(1).lock().await.unwrap()];
    let mut held = Vec::new();
    for (kind, name) in Kind::ALL.into_iter().zip(names) {
        let session = if kind == Kind::Fair { &fair } else { &plain };
        held.push(kind.ours(session, name).lock().await.unwrap());
    }
    println!("ours: held");
    for guard in held {
        guard.lost().await;
        let is_held = guard.is_held();
        println!("ours: lost, held: {is_held}, {:?}", guard.release().await);
    }
}
