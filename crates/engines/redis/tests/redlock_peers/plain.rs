//! Clients that ask a majority as we do: hand-overs both ways, a crowd of both, and who is killed or frozen.

use std::{future::Future, sync::Arc, time::Duration};

use bramah_core::{Release, Session};
use tokio::time::sleep;

use crate::{
    AT_ONCE, PATIENCE, SOON,
    driven::Peer,
    fleet::{Counter, Fleet, close, fleets, fresh, mutex, together},
    now,
    ours::{self, Ours},
};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A ttl that no test waits for.
const LONG_MS: u64 = 20_000;

/// The ttl of a session that should be renewed while a test looks.
const TTL: Duration = ms(4000);

#[derive(Clone, Copy, Debug)]
enum Client {
    NodeRedlock,
    Pottery,
}

impl Client {
    const ALL: [Self; 2] = [Self::NodeRedlock, Self::Pottery];
}

/// One lock on one fleet.
struct Scene {
    client: Client,
    fleet: &'static Fleet,
    name: String,
}

impl Scene {
    fn new(client: Client, fleet: &'static Fleet, what: &str) -> Self {
        Self { client, fleet, name: fresh(what) }
    }

    /// Another process of theirs.
    fn peer(&self) -> Option<Peer> {
        match self.client {
            Client::NodeRedlock => Peer::node_redlock(&self.fleet.masters()),
            Client::Pottery => Peer::pottery(&self.fleet.masters()),
        }
    }

    /// What is before a name in a key of theirs.
    fn prefix(&self) -> &'static str {
        match self.client {
            Client::NodeRedlock => "",
            Client::Pottery => "redlock:",
        }
    }

    fn options(&self) -> String {
        format!("&prefix={}", self.prefix())
    }

    fn key(&self) -> String {
        format!("{}{}", self.prefix(), self.name)
    }

    async fn session(&self, ttl: Duration) -> Session {
        self.fleet.session(ttl, &self.options()).await
    }

    /// Waits until we have the lock, gives it back, and says how long that took.
    async fn follow(&self, session: &Session) -> Duration {
        let (began, lock) = (now(), mutex(session, &self.name));
        let guard = tokio::time::timeout(PATIENCE, lock.lock()).await.expect("it is free").unwrap();
        let waited = now().since(began);
        assert_eq!(guard.release().await, Release::Released);
        waited
    }

    async fn end(self, session: Session) {
        close(session).await;
        self.fleet.await_free(&self.key()).await;
    }
}

/// Runs a test with every client on every fleet at the same time.
async fn each<F: Future<Output = ()> + Send + 'static>(what: &'static str, test: fn(Scene) -> F) {
    run(&Client::ALL, what, test).await;
}

async fn run<F: Future<Output = ()> + Send + 'static>(
    clients: &[Client],
    what: &'static str,
    test: fn(Scene) -> F,
) {
    let scenes = fleets().into_iter().flat_map(|fleet| clients.iter().map(move |&client| (client, fleet)));
    let scenes = scenes.map(|(client, fleet)| Scene::new(client, fleet, what));
    together(scenes.map(|scene| (format!("{:?} on {}", scene.client, scene.fleet.label()), test(scene))))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn another_redlock_holds_and_its_release_wakes_us() {
    each("theirs-then-ours", theirs_then_ours).await;
}

async fn theirs_then_ours(scene: Scene) {
    let Some(mut peer) = scene.peer() else { return };
    let session = scene.session(TTL).await;
    let lock = mutex(&session, &scene.name);
    let mut quickest = PATIENCE;
    for _ in 0..3 {
        assert_eq!(peer.acquire(&scene.name, LONG_MS, 5000), "held");
        assert!(lock.try_lock().await.unwrap().is_none());
        let waiting = scene.fleet.wait_for(&lock, &scene.key(), scene.fleet.majority()).await;
        assert!(waiting.waits(), "it is theirs");
        assert_eq!(peer.ask("release"), "released");
        let released = now();
        let (granted, guard) = waiting.finish().await;
        quickest = quickest.min(granted.since(released));
        assert_eq!(guard.release().await, Release::Released);
    }
    assert!(quickest < AT_ONCE, "after {quickest:?} at the soonest");

    // Theirs is the time that they extend it to.
    assert_eq!(peer.acquire(&scene.name, 4500, 5000), "held");
    sleep(ms(1000)).await;
    assert_eq!(peer.ask("extend 4500"), "extended");
    let extended = now();
    let waited = scene.follow(&session).await;
    assert!(now().since(extended) > ms(4000), "after {waited:?}");
    scene.end(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn we_hold_and_another_redlock_waits_for_our_release() {
    each("ours-then-theirs", ours_then_theirs).await;
}

async fn ours_then_theirs(scene: Scene) {
    let Some(mut peer) = scene.peer() else { return };
    let session = scene.session(TTL).await;
    let guard = mutex(&session, &scene.name).lock().await.unwrap();
    let told = peer.acquire(&scene.name, LONG_MS, 0);
    assert_eq!(told, "busy", "while {guard:?} is held: {}", guard.is_held());
    peer.tell(&format!("acquire {} {LONG_MS} {}", scene.name, PATIENCE.as_millis()));
    // Longer than our ttl: what it waits for is renewed.
    sleep(TTL + ms(300)).await;
    assert!(guard.confirm().await.unwrap());
    let released = now();
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(peer.answer(), "held");
    assert!(now().since(released) < SOON, "after {:?}", now().since(released));
    assert!(mutex(&session, &scene.name).try_lock().await.unwrap().is_none(), "it is theirs");
    assert_eq!(peer.ask("release"), "released");
    scene.end(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crowd_of_other_redlocks_and_of_us_counts_exactly() {
    for client in Client::ALL {
        run(&[client], "crowd", crowd).await;
    }
}

async fn crowd(scene: Scene) {
    const TIMES: u32 = 6;
    const PAUSE: Duration = ms(3);
    let (Some(one), Some(two)) = (scene.peer(), scene.peer()) else { return };
    let (mut theirs, mut ours, mut sessions) = (vec![one, two], Vec::new(), Vec::new());
    let counter = Arc::new(Counter::new(&scene.name));
    for peer in &mut theirs {
        let file = counter.path().display();
        peer.tell(&format!("count {} 3000 {file} {TIMES} {}", scene.name, PAUSE.as_millis()));
    }
    for _ in 0..2 {
        let session = scene.session(ms(6000)).await;
        for _ in 0..2 {
            let (counter, lock) = (counter.clone(), mutex(&session, &scene.name));
            ours.push(tokio::spawn(async move { counter.count(lock, TIMES, PAUSE).await }));
        }
        sessions.push(session);
    }
    for ours in ours {
        ours.await.unwrap();
    }
    for peer in &mut theirs {
        assert_eq!(peer.answer(), "counted");
    }
    assert_eq!(counter.read(), 6 * TIMES);
    for session in sessions {
        close(session).await;
    }
    scene.fleet.await_free(&scene.key()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn another_redlock_that_is_killed_is_followed_by_us_after_its_ttl() {
    each("killed", killed).await;
}

async fn killed(scene: Scene) {
    let Some(mut peer) = scene.peer() else { return };
    let session = scene.session(TTL).await;
    let asked = now();
    assert_eq!(peer.acquire(&scene.name, 1500, 5000), "held");
    let held = now();
    drop(peer);
    scene.follow(&session).await;
    assert!(now().since(asked) > ms(1300), "after {:?}", now().since(asked));
    assert!(now().since(held) < ms(1500) + SOON, "after {:?}", now().since(held));
    scene.end(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn another_redlock_that_is_frozen_has_lost_its_lock_to_us_and_learns_it() {
    each("frozen", frozen).await;
}

async fn frozen(scene: Scene) {
    let Some(mut peer) = scene.peer() else { return };
    let session = scene.session(TTL).await;
    assert_eq!(peer.acquire(&scene.name, 1000, 5000), "held");
    peer.freeze();
    let (frozen, lock) = (now(), mutex(&session, &scene.name));
    let guard = tokio::time::timeout(PATIENCE, lock.lock()).await.expect("it is free").unwrap();
    assert!(now().since(frozen) < ms(1000) + SOON, "after {:?}", now().since(frozen));
    peer.thaw();
    let told = peer.ask("release");
    assert!(told.starts_with("lost "), "{told}");
    assert!(guard.confirm().await.unwrap(), "theirs did not end ours");
    assert_eq!(guard.release().await, Release::Released);
    scene.end(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_of_ours_that_is_killed_is_followed_by_another_redlock_after_its_ttl() {
    each("ours-killed", ours_killed).await;
}

async fn ours_killed(scene: Scene) {
    let Some(mut peer) = scene.peer() else { return };
    let ours = Ours::start(&scene.fleet.url(&scene.options()), &scene.name);
    assert_eq!(peer.acquire(&scene.name, 5000, 0), "busy");
    ours.kill();
    let killed = now();
    assert_eq!(peer.acquire(&scene.name, 5000, 20_000), "held");
    let waited = now().since(killed);
    assert!(waited > ours::TTL / 3 && waited < ours::TTL + SOON, "after {waited:?}");
    assert_eq!(peer.ask("release"), "released");
    scene.fleet.await_free(&scene.key()).await;
}
