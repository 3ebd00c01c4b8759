//! Locks with one holder, of every kind that both sides have: a hand-over in both directions, and who is told what.

use std::{future::Future, time::Duration};

use bramah_core::{Lock, Name, Release, Session};

use crate::{
    AT_ONCE, LONG, LONG_MS,
    java::{Java, WATCHDOG},
    world::{World, close, everywhere, now},
};

/// What Redisson calls it, and how to have it with us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Lock,
    Fenced,
    Fair,
    Write,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Lock, Self::Fenced, Self::Fair, Self::Write];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Fenced => "fenced",
            Self::Fair => "fair",
            Self::Write => "write",
        }
    }

    pub(crate) fn options(self) -> &'static str {
        if self == Self::Fair { "&fair=true" } else { "" }
    }

    pub(crate) fn ours(self, session: &Session, name: &str) -> Lock {
        match self {
            Self::Write => session.rwlock(name).unwrap().write(),
            Self::Lock | Self::Fenced | Self::Fair => Lock::clone(&session.mutex(name).unwrap()),
        }
    }
}

/// One lock of one kind, and a thread that is used for it alone.
pub(crate) struct Scene {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) world: &'static World,
}

impl Scene {
    pub(crate) fn new(world: &'static World, kind: Kind, what: &str) -> Self {
        Self { kind, name: world.name(&format!("{what}-{}", kind.word())), world }
    }

    fn call(&self, call: &str) -> String {
        let mut words = call.splitn(2, ' ');
        let (call, rest) = (words.next().unwrap(), words.next().unwrap_or_default());
        format!("{} {call} {} {rest}", self.kind.word(), self.name).trim_end().to_owned()
    }

    pub(crate) fn begin(&self, java: &Java, call: &str) -> crate::java::Call {
        java.begin(&self.name, &self.call(call))
    }

    /// What the shared Redisson answers.
    pub(crate) async fn java(&self, call: &str) -> String {
        self.java_of(&self.world.java, call).await
    }

    pub(crate) async fn java_of(&self, java: &Java, call: &str) -> String {
        self.begin(java, call).finish().await
    }

    pub(crate) async fn session(&self, ttl: Duration) -> Session {
        self.world.session(ttl, self.kind.options()).await
    }

    pub(crate) fn lock(&self, session: &Session) -> Lock {
        self.kind.ours(session, &self.name)
    }

    fn assert_free(&self) {
        assert_eq!(self.world.call(&self.name, &["EXISTS", &self.name]).text(), "0", "{}", self.name);
    }
}

/// Runs a test with every kind in every world at the same time.
async fn each<F: Future<Output = ()> + Send + 'static>(what: &'static str, test: fn(Scene) -> F) {
    everywhere(move |world| async move {
        let running = Kind::ALL.map(|kind| (kind, tokio::spawn(test(Scene::new(world, kind, what)))));
        for (kind, test) in running {
            if let Err(why) = test.await {
                eprintln!("of the kind {kind:?}");
                std::panic::resume_unwind(why.into_panic());
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn redisson_holds_twice_and_its_last_unlock_wakes_us() {
    each("theirs", theirs_then_ours).await;
}

async fn theirs_then_ours(scene: Scene) {
    let session = scene.session(LONG).await;
    let lock = scene.lock(&session);
    for _ in 0..2 {
        assert_eq!(scene.java(&format!("lock {LONG_MS}")).await, "held");
    }
    assert_eq!(scene.java("getHoldCount").await, "2");
    assert!(lock.try_lock().await.unwrap().is_none());
    let waiting = scene.world.wait_for(&lock).await;
    assert_eq!(scene.java("unlock").await, "released");
    assert_eq!(scene.java("getHoldCount").await, "1");
    assert!(lock.try_lock().await.unwrap().is_none());
    assert!(waiting.waits(), "it is held once more");
    assert_eq!(scene.java("unlock").await, "released");
    let released = now();
    let (granted, guard) = waiting.finish().await;
    assert!(granted.since(released) < AT_ONCE, "after {:?}", granted.since(released));
    assert_eq!(scene.java("tryLock").await, "false");
    assert_eq!(guard.release().await, Release::Released);
    scene.assert_free();
    close(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn we_are_told_of_redissons_unlock_and_need_not_look() {
    each("told", told).await;
}

async fn told(scene: Scene) {
    let session = scene.session(LONG).await;
    let lock = scene.lock(&session);
    let mut quickest = LONG;
    for _ in 0..4 {
        assert_eq!(scene.java(&format!("lock {LONG_MS}")).await, "held");
        let waiting = scene.world.wait_for(&lock).await;
        let asked = now();
        assert_eq!(scene.java("unlock").await, "released");
        let (granted, guard) = waiting.finish().await;
        quickest = quickest.min(granted.since(asked));
        assert_eq!(guard.release().await, Release::Released);
    }
    // A waiter looks by itself half a second after it last did. A busy machine is not slow every time.
    assert!(quickest < Duration::from_millis(400), "the quickest after {quickest:?}");
    close(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn we_hold_and_our_release_wakes_redisson() {
    each("ours", ours_then_theirs).await;
}

async fn ours_then_theirs(scene: Scene) {
    let session = scene.session(LONG).await;
    let lock = scene.lock(&session);
    let guard = lock.lock().await.unwrap();
    assert_eq!(scene.java("isLocked").await, "true");
    assert_eq!(scene.java("isHeldByCurrentThread").await, "false");
    let left: u64 = scene.java("remainTimeToLive").await.parse().unwrap();
    assert!(left > LONG_MS / 2 && left <= LONG_MS, "{left}");
    assert_eq!(scene.java("tryLock").await, "false");
    let refused = scene.java("unlock").await;
    assert!(refused.starts_with("error IllegalMonitorStateException"), "{refused}");
    let mut waiting = scene.begin(&scene.world.java, &format!("lock {LONG_MS}"));
    scene.world.java.await_parked(&scene.name).await;
    assert!(guard.confirm().await.unwrap());
    assert!(waiting.waits());
    assert_eq!(guard.release().await, Release::Released);
    let released = now();
    assert_eq!(waiting.finish().await, "held");
    assert!(now().since(released) < AT_ONCE, "after {:?}", now().since(released));
    assert!(lock.try_lock().await.unwrap().is_none());
    assert_eq!(scene.java("unlock").await, "released");
    scene.assert_free();
    close(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn both_keep_their_locks_alive_past_their_ttls() {
    each("kept", kept).await;
}

async fn kept(theirs: Scene) {
    let ours = Scene::new(theirs.world, theirs.kind, "kept");
    let session = ours.session(Duration::from_secs(2)).await;
    assert_eq!(theirs.java("lock").await, "held");
    let guard = ours.lock(&session).lock().await.unwrap();
    let since = now();
    while now().since(since) < WATCHDOG + Duration::from_millis(1500) {
        assert!(theirs.lock(&session).try_lock().await.unwrap().is_none());
        assert_eq!(ours.java("tryLock").await, "false");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(guard.is_held());
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(theirs.java("unlock").await, "released");
    ours.assert_free();
    theirs.assert_free();
    close(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_forced_unlock_of_redisson_is_told_to_our_guard() {
    each("forced", forced_by_java).await;
}

async fn forced_by_java(scene: Scene) {
    let (owner, other) = (scene.session(Duration::from_secs(3)).await, scene.session(LONG).await);
    let guard = scene.lock(&owner).lock().await.unwrap();
    let waiting = scene.world.wait_for(&scene.lock(&other)).await;
    assert_eq!(scene.java("forceUnlock").await, "true");
    let forced = now();
    let (granted, next) = waiting.finish().await;
    assert!(granted.since(forced) < AT_ONCE, "after {:?}", granted.since(forced));
    assert!(next.fence() > guard.fence(), "{next:?} after {guard:?}");
    tokio::time::timeout(AT_ONCE, guard.lost()).await.expect("it learns with its next renewal");
    assert!(!guard.is_held());
    assert_eq!(guard.release().await, Release::AlreadyLost);
    assert!(next.confirm().await.unwrap(), "the first one did not end the second");
    assert_eq!(next.release().await, Release::Released);
    scene.assert_free();
    close(owner).await;
    close(other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_of_redisson_is_shown_and_can_be_broken() {
    each("broken", broken_by_us).await;
}

async fn broken_by_us(scene: Scene) {
    let session = scene.session(LONG).await;
    let name = Name::new(&scene.name).unwrap();
    for _ in 0..2 {
        assert_eq!(scene.java(&format!("lock {LONG_MS}")).await, "held");
    }
    let line = session.inspect(&name).await.unwrap().expect("somebody holds it");
    let holders: Vec<_> = line.holders().collect();
    assert_eq!(holders.len(), 1, "{line:?}");
    let call = format!("{} lock {} {LONG_MS}", scene.kind.word(), scene.name);
    let (java, next) = (&scene.world.java, format!("{}-next", scene.name));
    let waiting = java.begin(&next, &call);
    java.await_parked(&next).await;
    assert!(session.break_hold(&name, holders[0].claim.id.tag(), "it hangs").await.unwrap());
    let broken = now();
    assert_eq!(waiting.finish().await, "held");
    assert!(now().since(broken) < AT_ONCE, "after {:?}", now().since(broken));
    assert_eq!(scene.java("isHeldByCurrentThread").await, "false");
    let refused = scene.java("unlock").await;
    assert!(refused.starts_with("error IllegalMonitorStateException"), "{refused}");
    let line = session.inspect(&name).await.unwrap().expect("it is held again");
    assert_eq!(line.broken.map(|broken| broken.cause.reason.to_string()).as_deref(), Some("it hangs"));
    let call = format!("{} unlock {}", scene.kind.word(), scene.name);
    assert_eq!(java.ask(&next, &call).await, "released");
    scene.assert_free();
    close(session).await;
}
