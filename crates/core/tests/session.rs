//! The life of a session: closing, the last handle, suspend, and a store that hangs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bramah_core::{
    Claim, ClaimId, Clock, Engine, ErrorKind, Exit, Keeper, Look, Memory, Name, Opening, Profile, Release,
    Renewal, Reply, Scope, Session, SessionId, Standing, Survey, Wait, all,
};

/// A memory engine whose answers take a while, or never come.
#[derive(Debug, Clone)]
struct Slow {
    inner: Memory,
    delay: Duration,
    dead: Arc<AtomicBool>,
    renewals: Arc<AtomicUsize>,
}

impl Slow {
    fn new(inner: Memory, delay: Duration) -> Self {
        Self { inner, delay, dead: Arc::default(), renewals: Arc::default() }
    }

    fn later<T: Send + 'static>(&self, call: impl FnOnce(Memory) -> Reply<T> + Send + 'static) -> Reply<T> {
        let this = self.clone();
        Reply::later(async move {
            tokio::time::sleep(this.delay).await;
            if this.dead.load(Ordering::Relaxed) {
                return std::future::pending().await;
            }
            call(this.inner).await
        })
    }
}

impl Engine for Slow {
    fn profile(&self) -> Profile {
        self.inner.profile()
    }
    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        self.inner.open(opening)
    }
    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
        self.later(|inner| inner.claim(claim))
    }
    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        self.renewals.fetch_add(1, Ordering::Relaxed);
        self.later(move |inner| inner.renew(session, claims))
    }
    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        // Slower than everything else: whoever does not wait for it is early.
        let slower = Self { delay: self.delay * 4, ..self.clone() };
        slower.later(|inner| inner.withdraw(claim, exit))
    }
    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        self.inner.ask(claim)
    }
    fn close(&self, session: SessionId) -> Reply<()> {
        self.later(move |inner| inner.close(session))
    }
    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        self.inner.survey(scope, look)
    }
    fn lifelines(&self, session: SessionId) -> Vec<std::os::fd::OwnedFd> {
        self.inner.lifelines(session)
    }
}

fn slow(inner: &Memory, delay_ms: u64) -> Arc<dyn Engine> {
    Arc::new(Slow::new(inner.clone(), Duration::from_millis(delay_ms)))
}

async fn claims_in(store: &Memory) -> usize {
    let survey = store.survey(&Scope::All, Look::Once).await.expect("memory answers");
    survey.lines.iter().map(|line| line.places.len()).sum()
}

#[test]
fn a_program_that_ends_leaves_no_lock_behind() {
    let store = Memory::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let guard = runtime.block_on(async {
        let session = Session::open(slow(&store, 20)).await.unwrap();
        session.mutex("a").unwrap().lock().await.unwrap()
    });
    // The runtime is gone, the guard is the last handle: dropping it withdraws, and waits for that.
    drop(runtime);
    drop(guard);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(claims_in(&store)), 0);
}

#[tokio::test]
async fn closing_releases_everything_and_the_guards_know() {
    let store = Memory::new();
    let session = Session::open(slow(&store, 5)).await.unwrap();
    let guard = session.mutex("a").unwrap().lock().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = session.mutex("a").unwrap();
        async move { mutex.lock().await }
    });
    while claims_in(&store).await < 2 {
        tokio::task::yield_now().await;
    }
    let closed = session.close(Duration::from_secs(10)).await;
    assert!(closed.left.is_empty(), "{closed:?}");
    assert_eq!(claims_in(&store).await, 0);
    assert!(!guard.is_held());
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(guard.release().await, Release::AlreadyLost);
    assert_eq!(session.mutex("b").unwrap().lock().await.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test]
async fn closing_says_what_it_could_not_withdraw() {
    let engine = Slow::new(Memory::new(), Duration::from_millis(1));
    let session = Session::builder(Arc::new(engine.clone()) as Arc<dyn Engine>).open().await.unwrap();
    let guard = session.mutex("stuck").unwrap().lock().await.unwrap();
    engine.dead.store(true, Ordering::Relaxed);
    let closed = session.close(Duration::from_millis(50)).await;
    assert_eq!(closed.left.iter().map(ToString::to_string).collect::<Vec<_>>(), ["stuck"]);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_announced_on_time_while_every_call_hangs() {
    let clock = Clock::runtime();
    let engine = Slow::new(Memory::with_clock(clock.clone()), Duration::ZERO);
    let (keeper, driver) = Keeper::driven(clock.clone());
    tokio::spawn(driver);
    let ttl = Duration::from_secs(3);
    let builder = Session::builder(Arc::new(engine.clone()) as Arc<dyn Engine>).ttl(ttl).keeper(keeper);
    let session = builder.open().await.unwrap();
    let guard = session.mutex("a").unwrap().lock().await.unwrap();
    tokio::time::sleep(ttl * 3).await;
    assert!(guard.is_held(), "renewed for three ttls");
    engine.dead.store(true, Ordering::Relaxed);
    let cut = clock.now();
    guard.lost().await;
    let noticed = clock.now().since(cut);
    assert!(noticed < ttl, "after {noticed:?}, before the store's {ttl:?}");
    assert!(noticed > ttl / 2, "after {noticed:?}: given up too early");
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_slept_past_the_ttl_does_not_believe_in_its_lock() {
    let clock = Clock::runtime();
    let store = Memory::with_clock(clock.clone());
    let (keeper, driver) = Keeper::driven(clock.clone());
    tokio::spawn(driver);
    let session = Session::builder(store).keeper(keeper).open().await.unwrap();
    let (asked, told) = (
        session.mutex("a").unwrap().lock().await.unwrap(),
        session.mutex("b").unwrap().lock().await.unwrap(),
    );
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(asked.is_held() && told.is_held());
    clock.suspend(Duration::from_secs(3600));
    assert!(!asked.is_held(), "known at once, before any timer");
    tokio::time::timeout(Duration::from_secs(2), told.lost()).await.expect("announced within a step");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!asked.is_held() && !told.is_held(), "no renewal brings it back");
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_sends_nothing() {
    let clock = Clock::runtime();
    let engine = Slow::new(Memory::with_clock(clock.clone()), Duration::ZERO);
    let (keeper, driver) = Keeper::driven(clock.clone());
    tokio::spawn(driver);
    let builder = Session::builder(Arc::new(engine.clone()) as Arc<dyn Engine>).keeper(keeper);
    let session = builder.open().await.unwrap();
    session.mutex("a").unwrap().lock().await.unwrap().release().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = engine.renewals.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(engine.renewals.load(Ordering::Relaxed), before);
    let guard = session.mutex("a").unwrap().lock().await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(guard.is_held());
    assert!(engine.renewals.load(Ordering::Relaxed) >= before + 50, "every third of the ttl");
}

#[tokio::test(start_paused = true)]
async fn a_ghost_of_ours_lives_for_one_renewal() {
    let clock = Clock::runtime();
    let store = Memory::with_clock(clock.clone());
    let (keeper, driver) = Keeper::driven(clock.clone());
    tokio::spawn(driver);
    let session = Session::builder(store.clone()).keeper(keeper).open().await.unwrap();
    let guard = session.mutex("a").unwrap().lock().await.unwrap();
    // A message of ours that came too late: nobody here waits for it, and it would live for an hour.
    let ghost = Claim {
        id: ClaimId { session: session.id(), seq: 99 },
        name: Name::new("ghost").unwrap(),
        capacity: 1,
        weight: 1,
        wait: Wait::Line,
        again: false,
        floor: None,
        ttl: Duration::from_secs(3600),
        lease: None,
        note: "".into(),
    };
    store.claim(Arc::new(ghost)).await.unwrap();
    assert_eq!(claims_in(&store).await, 2);
    tokio::time::sleep(Session::DEFAULT_TTL / 3 + Duration::from_secs(1)).await;
    assert_eq!(claims_in(&store).await, 1, "the ghost is gone");
    assert!(guard.is_held(), "and what is known is not");
}

#[tokio::test]
async fn settings_out_of_range_are_refused_in_one_line() {
    for ttl in [Duration::ZERO, Duration::from_millis(99), Duration::from_secs(31 * 24 * 3600)] {
        let error = Session::builder(Memory::new()).ttl(ttl).open().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    let long = Session::builder(Memory::new()).owner("x".repeat(5000)).open().await.unwrap_err();
    assert_eq!(long.kind(), ErrorKind::Invalid);
    let session = Session::open(Memory::new()).await.unwrap();
    let mutex = session.mutex("a").unwrap();
    let refused = [
        mutex.lease(Duration::ZERO).lock().await,
        mutex.max_hold(Duration::from_nanos(1)).lock().await,
        mutex.reason("x".repeat(1025)).lock().await,
        session.semaphore("s", 2).unwrap().permits(3).lock().await,
        session.semaphore("s", 2).unwrap().permits(0).lock().await,
    ];
    for error in refused {
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(!error.to_string().contains('\n'));
    }
    assert_eq!(session.semaphore("s", 0).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(session.mutex("a//b").unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_session_without_a_name_for_its_store_shows_no_pointer() {
    let session = Session::open(Memory::new()).await.unwrap();
    assert_eq!(session.store(), "unnamed");
    assert!(!format!("{session:?}").contains("0x"), "{session:?}");
    let named = Session::builder(Memory::new()).store("memory:").open().await.unwrap();
    assert_eq!(named.store(), "memory:");
}

#[tokio::test]
async fn one_name_in_two_sessions_is_sorted_by_the_names_of_their_stores_or_refused() {
    let kind = |sessions: [&Session; 2]| {
        let locks = sessions.map(|session| session.mutex("a").unwrap());
        async move { all(locks).try_lock().await.map(|guards| guards.is_some()).map_err(|error| error.kind()) }
    };
    let store = Memory::new();
    // One store by two sessions: it would wait for itself, and that cannot be seen from here.
    let (one, two) =
        (Session::open(store.clone()).await.unwrap(), Session::open(store.clone()).await.unwrap());
    assert_eq!(kind([&one, &two]).await, Err(ErrorKind::Invalid));
    let shared: Arc<dyn Engine> = store.clone().into();
    let (one, two) = (Session::open(shared.clone()).await.unwrap(), Session::open(shared).await.unwrap());
    assert_eq!(kind([&one, &two]).await, Err(ErrorKind::Invalid));
    let named = |store: Memory, name: &'static str| Session::builder(store).store(name).open();
    let (one, two) = (named(store.clone(), "a").await.unwrap(), named(store, "a").await.unwrap());
    assert_eq!(kind([&one, &two]).await, Err(ErrorKind::Invalid));
    // Two stores: the names give the order, the same in every process.
    let (one, two) = (named(Memory::new(), "a").await.unwrap(), Session::open(Memory::new()).await.unwrap());
    assert_eq!(kind([&one, &two]).await, Err(ErrorKind::Invalid), "one of them has no name");
    let two = named(Memory::new(), "b").await.unwrap();
    assert_eq!(kind([&two, &one]).await, Ok(true));
    let names = all([two.mutex("a").unwrap(), one.mutex("b").unwrap(), two.mutex("b").unwrap()]);
    assert!(names.try_lock().await.unwrap().is_some());
}

#[tokio::test]
async fn no_more_remains_than_max_hold_leaves() {
    let session = Session::open(Memory::new()).await.unwrap();
    let limit = Duration::from_secs(3);
    let guard = session.mutex("a").unwrap().max_hold(limit).lock().await.unwrap();
    assert!(guard.remaining() <= limit && guard.remaining() > Duration::ZERO, "{:?}", guard.remaining());
    assert!(guard.confirm().await.unwrap());
    assert!(guard.remaining() <= limit, "a renewal does not stretch it: {:?}", guard.remaining());
    guard.release().await;
    let guard = session.mutex("a").unwrap().lock().await.unwrap();
    assert!(guard.remaining() > limit, "the limit is that hold's alone");
}
