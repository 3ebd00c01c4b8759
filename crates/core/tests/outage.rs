//! A store that does not answer is waited for as long as the lock is.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bramah_core::{
    Claim, Clock, Engine, Error, ErrorKind, Exit, Keeper, Look, Memory, Opening, Profile, Renewal, Reply,
    Scope, Session, SessionId, Standing, Survey,
};
use tokio::sync::watch;

/// What the store does now.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Up,
    /// Every call is refused.
    Down,
    /// It has forgotten the session, which has to be opened again.
    Forgot,
    /// The same, and it does not answer when that is tried.
    ForgotAndDown,
}

#[derive(Debug)]
struct Store {
    memory: Memory,
    state: watch::Sender<State>,
    asked: AtomicU32,
}

fn away<T: Send + 'static>() -> Reply<T> {
    Reply::now(Err(Error::new(ErrorKind::Unavailable, "connection refused")))
}

impl Engine for Store {
    fn profile(&self) -> Profile {
        self.memory.profile()
    }
    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        match *self.state.borrow() {
            State::Down | State::ForgotAndDown => return away(),
            State::Up | State::Forgot => {}
        }
        self.state.send_replace(State::Up);
        self.memory.open(opening)
    }
    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match *self.state.borrow() {
            State::Up => self.memory.claim(claim),
            State::Down => away(),
            State::Forgot | State::ForgotAndDown => {
                Reply::now(Err(Error::new(ErrorKind::Lost, "the session has ended")))
            }
        }
    }
    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        if *self.state.borrow() == State::Up { self.memory.renew(session, claims) } else { away() }
    }
    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        if *self.state.borrow() == State::Up { self.memory.withdraw(claim, exit) } else { away() }
    }
    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        self.memory.ask(claim)
    }
    fn close(&self, session: SessionId) -> Reply<()> {
        self.memory.close(session)
    }
    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        self.memory.survey(scope, look)
    }
    fn lifelines(&self, session: SessionId) -> Vec<std::os::fd::OwnedFd> {
        self.memory.lifelines(session)
    }
}

async fn opened() -> (Arc<Store>, Session, Keeper) {
    let clock = Clock::runtime();
    let store = Arc::new(Store {
        memory: Memory::with_clock(clock.clone()),
        state: watch::channel(State::Up).0,
        asked: AtomicU32::new(0),
    });
    let (keeper, driver) = Keeper::driven(clock);
    tokio::spawn(driver);
    let engine: Arc<dyn Engine> = store.clone();
    let session = Session::builder(engine).keeper(keeper.clone()).open().await.unwrap();
    (store, session, keeper)
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn an_endless_wait_outlasts_any_outage_and_asks_about_once_a_second() {
    let (store, session, _) = opened().await;
    for state in [State::Down, State::ForgotAndDown] {
        store.state.send_replace(state);
        store.asked.store(0, Ordering::Relaxed);
        let mutex = session.mutex("a").unwrap();
        let waiter = tokio::spawn(async move { mutex.lock().await });
        tokio::time::sleep(10 * MINUTE).await;
        assert!(!waiter.is_finished());
        let asked = store.asked.load(Ordering::Relaxed);
        assert!((500..1500).contains(&asked), "{state:?}: asked {asked} times in ten minutes");
        let why = session.hindrance().unwrap();
        assert_eq!((why.kind(), why.to_string().as_str()), (ErrorKind::Unavailable, "connection refused"));
        store.state.send_replace(if state == State::Down { State::Up } else { State::Forgot });
        let guard = tokio::time::timeout(Duration::from_secs(2), waiter).await.unwrap().unwrap().unwrap();
        assert!(guard.is_held() && session.hindrance().is_none());
        guard.release().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_with_a_limit_ends_with_it_and_says_why() {
    let (store, session, _) = opened().await;
    let (clock, mutex) = (Clock::runtime(), session.mutex("a").unwrap());
    for state in [State::Down, State::ForgotAndDown] {
        store.state.send_replace(state);
        // Far more and far less than a third of the ttl.
        for wait in [2 * MINUTE, Duration::from_millis(1500)] {
            let began = clock.now();
            let error = mutex.lock_within(wait).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{state:?}: {error}");
            let took = clock.now().since(began);
            assert!(took >= wait && took < wait + Duration::from_millis(50), "{state:?}: {took:?}");
        }
        let began = clock.now();
        assert_eq!(mutex.try_lock().await.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(mutex.lock_within(Duration::ZERO).await.unwrap_err().kind(), ErrorKind::Unavailable);
        assert!(clock.now().since(began) < Duration::from_millis(50), "a try does not wait");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_session_the_store_forgets_again_and_again_stays_in_line() {
    let (store, session, keeper) = opened().await;
    let other = Session::builder(store.memory.clone()).keeper(keeper).open().await.unwrap();
    let held = other.mutex("a").unwrap().lock().await.unwrap();
    let mutex = session.mutex("a").unwrap();
    let waiter = tokio::spawn(async move { mutex.lock().await });
    for _ in 0..10 {
        tokio::time::sleep(MINUTE).await;
        store.state.send_replace(State::Forgot);
        let mut state = store.state.subscribe();
        tokio::time::timeout(MINUTE, state.wait_for(|state| *state == State::Up)).await.unwrap().unwrap();
    }
    assert!(!waiter.is_finished());
    held.release().await;
    drop(tokio::time::timeout(MINUTE, waiter).await.unwrap().unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn closing_the_session_ends_a_wait_for_a_store_that_is_down() {
    let (store, session, _) = opened().await;
    store.state.send_replace(State::Down);
    let mutex = session.mutex("a").unwrap();
    let waiter = tokio::spawn(async move { mutex.lock().await });
    tokio::time::sleep(MINUTE).await;
    let closing = tokio::spawn(async move { session.close(Duration::from_secs(1)).await });
    let error = tokio::time::timeout(Duration::from_secs(2), waiter).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    let _ = closing.await.unwrap();
}

/// A store that refuses is there: what it refused before is no outage any more.
#[tokio::test(start_paused = true)]
async fn a_refusal_ends_an_outage() {
    let (store, session, _) = opened().await;
    let held = session.semaphore("a", 3).unwrap().permits(1).lock().await.unwrap();
    store.state.send_replace(State::Down);
    let mutex = session.mutex("a").unwrap();
    let waiter = tokio::spawn(async move { mutex.lock().await });
    while session.hindrance().is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    store.state.send_replace(State::Up);
    let error = waiter.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(session.hindrance().is_none(), "it is still said to be out of reach");
    held.release().await;
}
