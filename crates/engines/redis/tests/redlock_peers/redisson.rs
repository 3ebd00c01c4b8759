//! Redisson's RedLock, which needs most of its locks, and its MultiLock, which needs them all.

use std::{
    future::Future,
    sync::{Arc, LazyLock},
    time::Duration,
};

use bramah_core::{ErrorKind, Lock, Release, Session};
use tokio::time::sleep;

use crate::{
    AT_ONCE, PATIENCE, SOON,
    fleet::{Counter, First, Fleet, Waiting, close, fresh, mutex, three, together, try_open},
    java::{CURRENT, Call, Java, OLDER, WATCHDOG},
    now,
    ours::{self, Ours},
};

const VERSIONS: [&str; 2] = [CURRENT, OLDER];

/// A ttl that no test waits for.
const LONG: Duration = Duration::from_secs(6);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Red,
    Multi,
}

impl Kind {
    const BOTH: [Self; 2] = [Self::Red, Self::Multi];

    fn word(self) -> &'static str {
        match self {
            Self::Red => "red",
            Self::Multi => "multi",
        }
    }

    fn options(self) -> &'static str {
        match self {
            Self::Red => "&layout=redisson",
            Self::Multi => "&layout=redisson&quorum=all",
        }
    }
}

/// A Redisson with a client for each of the masters.
fn java(version: &str, fleet: &Fleet) -> Option<Java> {
    let each: Vec<_> = fleet.masters().iter().map(|master| master.url()).collect();
    let each: Vec<_> = each.iter().map(String::as_str).collect();
    Java::start(version, &each)
}

/// One of each version, where it can be had.
fn javas(fleet: &Fleet) -> [Option<Java>; 2] {
    std::thread::scope(|scope| {
        let starting = VERSIONS.map(|version| scope.spawn(move || java(version, fleet)));
        starting.map(|it| it.join().unwrap_or_else(|why| std::panic::resume_unwind(why)))
    })
}

/// Masters, and a Redisson of each version on them that is never killed.
struct World {
    fleet: &'static Fleet,
    javas: [Option<Java>; 2],
}

/// Where all masters are there.
static WHOLE: LazyLock<World> = LazyLock::new(|| {
    let fleet = three();
    World { fleet, javas: javas(fleet) }
});

/// One lock of one kind, and threads of Redisson that are used for it alone.
struct Scene {
    kind: Kind,
    version: &'static str,
    fleet: &'static Fleet,
    java: &'static Java,
    name: String,
}

impl World {
    fn scenes(&'static self, kinds: &'static [Kind], what: &str) -> Vec<Scene> {
        let there = VERSIONS
            .into_iter()
            .zip(&self.javas)
            .filter_map(|(version, java)| Some((version, java.as_ref()?)));
        let scene = |(version, java), kind: &Kind| Scene {
            kind: *kind,
            version,
            fleet: self.fleet,
            java,
            name: fresh(what),
        };
        there.flat_map(|java| kinds.iter().map(move |kind| scene(java, kind))).collect()
    }
}

impl Scene {
    /// What a thread of a Redisson is told to do with the lock.
    fn begin_of(&self, java: &Java, thread: &str, call: &str) -> Call {
        let members: Vec<_> = (0..3).map(|at| format!("{}#{at}", self.name)).collect();
        let (call, rest) = call.split_once(' ').unwrap_or((call, ""));
        let call = format!("{} {call} {} {rest}", self.kind.word(), members.join(","));
        java.begin(&format!("{}-{thread}", self.name), call.trim_end())
    }

    fn begin(&self, call: &str) -> Call {
        self.begin_of(self.java, "", call)
    }

    async fn ask(&self, call: &str) -> String {
        self.begin(call).finish().await
    }

    async fn await_parked(&self) {
        self.java.await_parked(&format!("{}-", self.name)).await;
    }

    async fn session(&self, ttl: Duration) -> Session {
        self.fleet.session(ttl, self.kind.options()).await
    }

    fn lock(&self, session: &Session) -> Lock {
        mutex(session, &self.name)
    }

    async fn wait_for(&self, lock: &Lock) -> Waiting {
        let refused = if self.kind == Kind::Red { self.fleet.majority() } else { 1 };
        self.fleet.wait_for(lock, &self.name, refused).await
    }

    async fn end(&self, session: Session) {
        close(session).await;
        self.fleet.await_free(&self.name).await;
    }
}

async fn each<F: Future<Output = ()> + Send + 'static>(what: &'static str, test: fn(Scene) -> F) {
    let world = tokio::task::block_in_place(|| &*WHOLE);
    run(world.scenes(&Kind::BOTH, what), test).await;
}

async fn run<F: Future<Output = ()> + Send + 'static>(scenes: Vec<Scene>, test: fn(Scene) -> F) {
    let label = |scene: &Scene| format!("redisson {} and its {:?}", scene.version, scene.kind);
    together(scenes.into_iter().map(|scene| (label(&scene), test(scene)))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn redisson_holds_and_its_unlock_wakes_us() {
    each("theirs", theirs_then_ours).await;
}

async fn theirs_then_ours(scene: Scene) {
    let session = scene.session(LONG).await;
    let lock = scene.lock(&session);
    let mut quickest = PATIENCE;
    for _ in 0..3 {
        assert_eq!(scene.ask("lock").await, "held");
        assert!(lock.try_lock().await.unwrap().is_none());
        let waiting = scene.wait_for(&lock).await;
        assert!(waiting.waits(), "it is theirs");
        assert_eq!(scene.ask("unlock").await, "released");
        let released = now();
        let (granted, guard) = waiting.finish().await;
        quickest = quickest.min(granted.since(released));
        assert_eq!(scene.ask("tryLock").await, "false");
        assert_eq!(guard.release().await, Release::Released);
    }
    assert!(quickest < AT_ONCE, "after {quickest:?} at the soonest");
    scene.end(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn we_hold_and_our_release_or_drop_wakes_redisson() {
    each("ours", ours_then_theirs).await;
}

async fn ours_then_theirs(scene: Scene) {
    let session = scene.session(LONG).await;
    let lock = scene.lock(&session);
    for dropped in [false, true] {
        let mut quickest = PATIENCE;
        for _ in 0..3 {
            let guard = lock.lock().await.unwrap();
            assert_eq!(scene.ask("tryLock").await, "false");
            let mut waiting = scene.begin("lock");
            scene.await_parked().await;
            assert!(waiting.waits(), "it is ours");
            let released = now();
            if dropped {
                drop(guard);
            } else {
                assert_eq!(guard.release().await, Release::Released);
            }
            assert_eq!(waiting.finish().await, "held");
            quickest = quickest.min(now().since(released));
            assert!(lock.try_lock().await.unwrap().is_none(), "it is theirs");
            assert_eq!(scene.ask("unlock").await, "released");
        }
        assert!(quickest < AT_ONCE, "after {quickest:?} at the soonest");
    }
    scene.end(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn both_keep_what_they_hold_past_their_ttls() {
    each("kept", kept).await;
}

async fn kept(scene: Scene) {
    let session = scene.session(Duration::from_secs(3)).await;
    let lock = scene.lock(&session);
    assert_eq!(scene.ask("lock").await, "held");
    let since = now();
    while now().since(since) < WATCHDOG + Duration::from_millis(500) {
        assert!(lock.try_lock().await.unwrap().is_none(), "its watchdog keeps it");
        sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(scene.ask("unlock").await, "released");
    let guard = lock.lock().await.unwrap();
    let since = now();
    while now().since(since) < Duration::from_millis(3500) {
        assert_eq!(scene.ask("tryLock").await, "false");
        sleep(Duration::from_millis(200)).await;
    }
    assert!(guard.confirm().await.unwrap());
    assert_eq!(guard.release().await, Release::Released);
    scene.end(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crowd_of_redissons_and_of_us_counts_exactly() {
    each("crowd", crowd).await;
}

async fn crowd(scene: Scene) {
    const TIMES: u32 = 5;
    const PAUSE: Duration = Duration::from_millis(3);
    let counter = Arc::new(Counter::new(&scene.name));
    let call = format!("count {} {TIMES} {}", counter.path().display(), PAUSE.as_millis());
    let theirs = ["1", "2"].map(|thread| scene.begin_of(scene.java, thread, &call));
    let (mut ours, mut sessions) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let session = scene.session(LONG).await;
        let (counter, lock) = (counter.clone(), scene.lock(&session));
        ours.push(tokio::spawn(async move { counter.count(lock, TIMES, PAUSE).await }));
        sessions.push(session);
    }
    for ours in ours {
        ours.await.unwrap();
    }
    for theirs in theirs {
        assert_eq!(theirs.finish().await, "counted");
    }
    assert_eq!(counter.read(), 4 * TIMES);
    for session in sessions {
        close(session).await;
    }
    scene.fleet.await_free(&scene.name).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redisson_that_is_killed_is_followed_by_us_after_its_watchdogs_timeout() {
    let world = tokio::task::block_in_place(|| &*WHOLE);
    let javas = tokio::task::block_in_place(|| javas(world.fleet));
    let of =
        |version| VERSIONS.iter().position(|it| *it == version).and_then(|at| javas[at].as_ref()).unwrap();
    let mut waiting = Vec::new();
    for scene in world.scenes(&Kind::BOTH, "killed") {
        assert_eq!(scene.begin_of(of(scene.version), "", "lock").finish().await, "held");
        let session = scene.session(LONG).await;
        waiting.push((scene.wait_for(&scene.lock(&session)).await, scene, session));
    }
    javas.iter().flatten().for_each(Java::kill);
    let killed = now();
    for (waiting, scene, session) in waiting {
        let (granted, guard) = waiting.finish().await;
        let waited = granted.since(killed);
        assert!(waited > WATCHDOG / 3 && waited < WATCHDOG + SOON, "{:?} after {waited:?}", scene.kind);
        assert_eq!(guard.release().await, Release::Released);
        scene.end(session).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_of_ours_that_is_killed_is_followed_by_redisson_after_its_ttl() {
    each("our-killed", ours_killed).await;
}

async fn ours_killed(scene: Scene) {
    let ours = Ours::start(&scene.fleet.url(scene.kind.options()), &scene.name);
    assert_eq!(scene.ask("tryLock").await, "false");
    let waiting = scene.begin("lock");
    scene.await_parked().await;
    ours.kill();
    let killed = now();
    assert_eq!(waiting.finish().await, "held");
    let waited = now().since(killed);
    assert!(waited > ours::TTL / 3 && waited < ours::TTL + SOON, "after {waited:?}");
    assert_eq!(scene.ask("unlock").await, "released");
    scene.fleet.await_free(&scene.name).await;
}

/// Where the first of three masters has failed since.
static LESS: LazyLock<World> = LazyLock::new(|| {
    let fleet = Fleet::start(3, First::Up);
    let javas = javas(&fleet);
    World { fleet: Box::leak(Box::new(fleet.but(First::Killed))), javas }
});

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_a_master_down_redlock_goes_on_and_multilock_waits_for_it() {
    let world = tokio::task::block_in_place(|| &*LESS);
    run(world.scenes(&[Kind::Red], "less"), goes_on).await;
    run(world.scenes(&[Kind::Multi], "less"), is_refused).await;

    // One that was there when the session was opened.
    let (first, name) = (world.fleet.masters()[0], fresh("less"));
    tokio::task::block_in_place(|| first.restart()).unwrap();
    let session = world.fleet.session(LONG, Kind::Multi.options()).await;
    first.kill();
    let lock = mutex(&session, &name);
    let error = lock.try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    tokio::task::block_in_place(|| first.restart()).unwrap();
    let guard = tokio::time::timeout(PATIENCE, lock.lock()).await.expect("all are there").unwrap();
    assert_eq!(guard.release().await, Release::Released);
    close(session).await;
}

async fn goes_on(scene: Scene) {
    let session = scene.session(LONG).await;
    let lock = scene.lock(&session);
    assert_eq!(scene.ask("lock").await, "held");
    assert!(lock.try_lock().await.unwrap().is_none());
    let waiting = scene.wait_for(&lock).await;
    assert_eq!(scene.ask("unlock").await, "released");
    let released = now();
    let (granted, guard) = waiting.finish().await;
    assert!(granted.since(released) < SOON, "after {:?}", granted.since(released));
    assert_eq!(scene.ask("tryLock").await, "false");
    let theirs = scene.begin("lock");
    assert!(guard.confirm().await.unwrap());
    let released = now();
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(theirs.finish().await, "held");
    assert!(now().since(released) < WATCHDOG + SOON, "after {:?}", now().since(released));
    assert!(lock.try_lock().await.unwrap().is_none(), "it is theirs");
    assert_eq!(scene.ask("unlock").await, "released");
    scene.end(session).await;
}

async fn is_refused(scene: Scene) {
    let error = try_open(&scene.fleet.url(scene.kind.options()), LONG).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(scene.ask("tryLock").await, "false");
    scene.fleet.await_free(&scene.name).await;
}
