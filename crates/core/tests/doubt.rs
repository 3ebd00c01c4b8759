//! A claim that arrives after its caller was told that it failed, on a store that cannot list what is ours.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use bramah_core::{
    Claim, ClaimId, Clock, Engine, Error, ErrorKind, Exit, Keeper, Look, Memory, Opening, Profile, Renewal,
    Reply, Scope, Session, SessionId, Standing, Strays, Survey, Wake, Woken,
};

/// How long the network keeps a claim.
const HELD_BACK: Duration = Duration::from_secs(2);

/// A store behind a network that says at once that a claim failed, and delivers it later.
#[derive(Debug)]
struct Late(Memory, Landed);

/// Whether what was held back has arrived and was taken. A look at the store could come after it was withdrawn again.
type Landed = Arc<AtomicBool>;

impl Engine for Late {
    fn profile(&self) -> Profile {
        Profile { strays: Strays::Unlisted, ..self.0.profile() }
    }
    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        self.0.open(opening)
    }
    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
        let (store, landed) = (self.0.clone(), self.1.clone());
        Reply::later(async move {
            tokio::spawn(async move {
                tokio::time::sleep(HELD_BACK).await;
                let taken = matches!(store.claim(claim).await, Ok(Standing::Held { .. }));
                landed.store(taken, Ordering::Relaxed);
            });
            Err(Error::new(ErrorKind::Unavailable, "no answer"))
        })
    }
    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        let reply = self.0.renew(session, claims);
        Reply::later(async { reply.await.map(|renewal| Renewal { stray: Vec::new(), ..renewal }) })
    }
    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        self.0.withdraw(claim, exit)
    }
    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        self.0.ask(claim)
    }
    fn close(&self, session: SessionId) -> Reply<()> {
        self.0.close(session)
    }
    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        self.0.survey(scope, look)
    }
    fn lifelines(&self, session: SessionId) -> Vec<std::os::fd::OwnedFd> {
        self.0.lifelines(session)
    }
}

async fn is_empty(store: &Memory) -> bool {
    let survey = store.survey(&Scope::All, Look::Once).await.expect("memory answers");
    survey.lines.iter().all(|line| line.places.is_empty())
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_lands_late_is_withdrawn_long_before_it_expires() {
    let clock = Clock::runtime();
    let (store, landed) = (Memory::with_clock(clock.clone()), Landed::default());
    let (keeper, driver) = Keeper::driven(clock.clone());
    tokio::spawn(driver);
    let engine: Arc<dyn Engine> = Arc::new(Late(store.clone(), landed.clone()));
    let session = Session::builder(engine).keeper(keeper).open().await.unwrap();
    let error = session.mutex("a").unwrap().try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    tokio::time::sleep(HELD_BACK + Duration::from_millis(1)).await;
    assert!(landed.load(Ordering::Relaxed), "it has landed");
    tokio::time::sleep(Session::DEFAULT_TTL / 3).await;
    assert!(is_empty(&store).await, "and is withdrawn, with two thirds of its ttl to go");
}

/// A store behind a network that keeps the first claim back and lets the repeat through.
#[derive(Debug)]
struct Overtaken(Memory, AtomicBool, Strays, Landed);

impl Engine for Overtaken {
    fn profile(&self) -> Profile {
        Profile { strays: self.2, ..self.0.profile() }
    }
    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        self.0.open(opening)
    }
    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
        if self.1.swap(true, Ordering::Relaxed) {
            return self.0.claim(claim);
        }
        let (store, landed) = (self.0.clone(), self.3.clone());
        Reply::later(async move {
            tokio::spawn(async move {
                // Later than the next renewal.
                tokio::time::sleep(Session::DEFAULT_TTL / 3 + HELD_BACK).await;
                let taken = matches!(store.claim(claim).await, Ok(Standing::Held { .. }));
                landed.store(taken, Ordering::Relaxed);
            });
            Err(Error::new(ErrorKind::Unavailable, "no answer"))
        })
    }
    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        let (reply, lists) = (self.0.renew(session, claims), self.2 == Strays::Listed);
        Reply::later(async move {
            reply.await.map(|mut renewal| {
                renewal.stray.retain(|_| lists);
                renewal
            })
        })
    }
    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        self.0.withdraw(claim, exit)
    }
    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        self.0.ask(claim)
    }
    fn close(&self, session: SessionId) -> Reply<()> {
        self.0.close(session)
    }
    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        self.0.survey(scope, look)
    }
    fn lifelines(&self, session: SessionId) -> Vec<std::os::fd::OwnedFd> {
        self.0.lifelines(session)
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_was_overtaken_by_its_repeat_is_found_by_the_next_renewal_of_an_idle_session() {
    let clock = Clock::runtime();
    let (store, landed) = (Memory::with_clock(clock.clone()), Landed::default());
    let (keeper, driver) = Keeper::driven(clock.clone());
    tokio::spawn(driver);
    let engine: Arc<dyn Engine> =
        Arc::new(Overtaken(store.clone(), AtomicBool::new(false), Strays::Listed, landed.clone()));
    let session = Session::builder(engine).keeper(keeper).open().await.unwrap();
    session.mutex("a").unwrap().lock().await.unwrap().release().await;
    assert!(is_empty(&store).await && session.claims() == 0, "nothing is left to renew");
    tokio::time::sleep(Session::DEFAULT_TTL / 3 + HELD_BACK + Duration::from_millis(1)).await;
    assert!(landed.load(Ordering::Relaxed), "it has landed");
    tokio::time::sleep(Session::DEFAULT_TTL / 3).await;
    assert!(is_empty(&store).await, "and is withdrawn, with two thirds of its ttl to go");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_was_overtaken_by_its_repeat_is_withdrawn_after_the_release_where_nothing_lists_it() {
    let clock = Clock::runtime();
    let (store, landed) = (Memory::with_clock(clock.clone()), Landed::default());
    let (keeper, driver) = Keeper::driven(clock.clone());
    tokio::spawn(driver);
    let engine: Arc<dyn Engine> =
        Arc::new(Overtaken(store.clone(), AtomicBool::new(false), Strays::Unlisted, landed.clone()));
    let session = Session::builder(engine).keeper(keeper).open().await.unwrap();
    session.mutex("a").unwrap().lock().await.unwrap().release().await;
    tokio::time::sleep(Session::DEFAULT_TTL / 3 + HELD_BACK + Duration::from_millis(1)).await;
    assert!(landed.load(Ordering::Relaxed), "it has landed");
    tokio::time::sleep(Session::DEFAULT_TTL / 3).await;
    assert!(is_empty(&store).await, "and is withdrawn, with a third of its ttl to go");
    tokio::time::sleep(Session::DEFAULT_TTL).await;
    assert_eq!(session.claims(), 0, "nothing is left to withdraw");
}

/// A store that does not answer questions, and has those who wait ask.
#[derive(Debug)]
struct Mute(Memory);

impl Engine for Mute {
    fn profile(&self) -> Profile {
        self.0.profile()
    }
    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        self.0.open(opening)
    }
    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
        if claim.again {
            return Reply::later(std::future::pending());
        }
        let reply = self.0.claim(claim);
        Reply::later(async move {
            match reply.await? {
                Standing::Queued { ahead, sleep, .. } => {
                    let wake = Wake::from_future(async { Woken::Ask });
                    Ok(Standing::Queued { ahead, wake, sleep })
                }
                standing => Ok(standing),
            }
        })
    }
    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        self.0.renew(session, claims)
    }
    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        self.0.withdraw(claim, exit)
    }
    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        self.0.ask(claim)
    }
    fn close(&self, session: SessionId) -> Reply<()> {
        self.0.close(session)
    }
    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        self.0.survey(scope, look)
    }
    fn lifelines(&self, session: SessionId) -> Vec<std::os::fd::OwnedFd> {
        self.0.lifelines(session)
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_gives_up_while_it_asks_leaves_its_place_at_once() {
    let clock = Clock::runtime();
    let store = Memory::with_clock(clock.clone());
    let (keeper, driver) = Keeper::driven(clock.clone());
    tokio::spawn(driver);
    let mute: Arc<dyn Engine> = Arc::new(Mute(store.clone()));
    let session = Session::builder(mute).keeper(keeper).open().await.unwrap();
    let _held = session.mutex("a").unwrap().lock().await.unwrap();
    let wait = Duration::from_millis(50);
    assert_eq!(session.mutex("a").unwrap().lock_within(wait).await.unwrap_err().kind(), ErrorKind::Timeout);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let line = store.survey(&Scope::All, Look::Once).await.unwrap().lines.remove(0);
    assert_eq!(line.places.len(), 1, "its question is still not answered");
}

/// A store that grants nothing that counts: it fails a claim at once and says whether anything is left of it, or it never answers
/// and says why.
#[derive(Debug)]
struct Unconfirmed {
    store: Memory,
    had_effect: Option<bool>,
    withdrawals: Arc<AtomicU32>,
}

impl Engine for Unconfirmed {
    fn profile(&self) -> Profile {
        Profile { strays: Strays::Unlisted, ..self.store.profile() }
    }
    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        self.store.open(opening)
    }
    fn claim(&self, _: Arc<Claim>) -> Reply<Standing> {
        let error = Error::new(ErrorKind::Unavailable, "too few replicas");
        match self.had_effect {
            Some(true) => Reply::now(Err(error)),
            Some(false) => Reply::now(Err(error.with_no_effect())),
            None => Reply::later(std::future::pending()),
        }
    }
    fn pending(&self, _: ClaimId) -> Option<Error> {
        Some(Error::new(ErrorKind::Unavailable, "replicas have not confirmed it"))
    }
    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        self.store.renew(session, claims)
    }
    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        self.withdrawals.fetch_add(1, Ordering::Relaxed);
        self.store.withdraw(claim, exit)
    }
    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        self.store.ask(claim)
    }
    fn close(&self, session: SessionId) -> Reply<()> {
        self.store.close(session)
    }
    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        self.store.survey(scope, look)
    }
    fn lifelines(&self, session: SessionId) -> Vec<std::os::fd::OwnedFd> {
        self.store.lifelines(session)
    }
}

/// The session, and how often something was withdrawn.
async fn unconfirmed(had_effect: Option<bool>) -> (Session, Arc<AtomicU32>) {
    let clock = Clock::runtime();
    let (keeper, driver) = Keeper::driven(clock.clone());
    tokio::spawn(driver);
    let withdrawals = Arc::<AtomicU32>::default();
    let store = Memory::with_clock(clock);
    let engine = Unconfirmed { store, had_effect, withdrawals: withdrawals.clone() };
    let engine: Arc<dyn Engine> = Arc::new(engine);
    (Session::builder(engine).keeper(keeper).open().await.expect("memory opens"), withdrawals)
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_left_nothing_is_not_withdrawn_again_and_again() {
    for (had_effect, is_in_doubt) in [(false, false), (true, true)] {
        let (session, withdrawals) = unconfirmed(Some(had_effect)).await;
        let error = session.mutex("a").unwrap().try_lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let closed = session.close(Session::DEFAULT_TTL * 2).await;
        assert!(closed.left.is_empty(), "{closed:?}");
        let withdrawals = withdrawals.load(Ordering::Relaxed);
        assert_eq!(withdrawals > 1, is_in_doubt, "{withdrawals}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_before_the_answer_says_what_the_engine_waits_for() {
    let (session, _) = unconfirmed(None).await;
    let error = session.mutex("a").unwrap().lock_within(Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(
        (error.kind(), &*error.to_string()),
        (ErrorKind::Unavailable, "replicas have not confirmed it")
    );
}
