//! A lock on several stores at once: held by so many of them that no other claim can be.
//!
//! [`Quorum`] is an engine made of engines. Each of its members is a store of its own that knows nothing of the others; a
//! claim is sent to all of them at once, and is held when most of them hold it. What is Redlock when the members are
//! independent Redis masters is the same with any stores.
//!
//! # The rules
//! - **A majority of all.** More than half of the members there are, not of those that answered; or every one of them, with
//!   [`Share::All`]. It is the same for a grant, a question and a renewal.
//! - **One time for all.** Members are asked at once and each has [`node_timeout`](Builder::node_timeout) to answer, far less
//!   than the ttl. A hold counts from the moment before the first of them was asked: that is core's rule, and what is left of
//!   the ttl after the round and the drift is what the guard has.
//! - **Never in line.** A place in the lines of several stores could be the first in one and the last in another, for ever. A
//!   member is asked without waiting, and if it is taken with [`Wait::Watch`](crate::Wait::Watch); who is not granted takes its votes back, waits
//!   until so many members have changed that it could be, and tries again under a new id. Where several have a part of the
//!   votes each, a random while comes first. The tasks of one session ask one after
//!   another, as on every store without an order, or they would split the votes among themselves.
//! - **Doubt is core's.** Where too few answer, votes stay where they are: the same claim is sent again under the same id, or
//!   withdrawn by core. So a vote is taken back under an id only if that id is never used again.
//! - **A renewal gives back.** A member that has lost a claim which most others confirm gets it again. One that fails never
//!   releases anything.
//! - **Fences.** Every member mints one with its vote. The largest is written back to the members that voted, while their
//!   votes stand, and a majority has to have it before the grant counts: any later majority has one of them in it, and
//!   votes there after it. So that this is seldom needed, all are asked to mint the same one, if it is larger than theirs. With [`fences(false)`](Builder::fences) that round trip is saved, and there is no fence.
//!
//! # What a member must be
//! One that forgets its claims and is asked again at once breaks exclusion: the vote that it forgot can be given twice. A
//! member has to refuse to vote until the longest ttl is over after it came back; that is for its engine to know.

mod builder;
mod flights;
mod renewal;
mod round;
mod sight;
mod silence;
mod vote;

use std::{
    collections::HashMap,
    fmt,
    os::fd::OwnedFd,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};

use crate::{
    Asking, Claim, Clock, Engine, ErrorKind, Exit, Look, Opening, Profile, Renewal, Reply, Result, Scope,
    SessionId, Standing, Survey,
};
pub use builder::Builder;
use flights::Flights;
use round::{Answers, Late, Stop};
use silence::Silence;

/// A store that takes part, and what it is called in errors.
#[derive(Clone, Debug)]
pub struct Member {
    name: Arc<str>,
    engine: Arc<dyn Engine>,
}

impl Member {
    /// A member. Its name must be told apart from the others': an address, say.
    pub fn new(name: impl Into<Arc<str>>, engine: impl Into<Arc<dyn Engine>>) -> Self {
        Self { name: name.into(), engine: engine.into() }
    }
}

/// How many members must agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// More than half of all.
    #[default]
    Majority,
    /// Every one: a lock that is taken in several places at once.
    All,
}

impl Share {
    /// How many of so many that is.
    pub fn of(self, members: usize) -> usize {
        match self {
            Self::Majority => members / 2 + 1,
            Self::All => members,
        }
    }
}

/// An engine made of engines. Clones share their members.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bramah_core::Result<()> {
/// use bramah_core::{Memory, Session, quorum::{Member, Quorum}};
/// let stores = [Memory::new(), Memory::new(), Memory::new()];
/// let members = stores.iter().enumerate().map(|(n, store)| Member::new(format!("store {n}"), store.clone()));
/// let quorum = Quorum::builder(members).build()?;
/// let session = Session::open(quorum).await?;
/// let guard = session.mutex("x")?.lock().await?;
/// assert!(guard.fence().is_some());
/// # drop(guard); Ok(()) }
/// ```
#[derive(Clone)]
pub struct Quorum(Arc<Inner>);

struct Inner {
    members: Box<[Member]>,
    share: Share,
    node_timeout: Duration,
    fenced: bool,
    profile: Profile,
    sessions: Mutex<HashMap<SessionId, Arc<Joined>>>,
    flights: Flights,
    silent: Silence,
    /// The last fence that was asked for, or given out.
    hints: AtomicU64,
    /// Held while a claim is sent to all members.
    order: Mutex<()>,
    clock: Clock,
}

/// A session, and at which members it is open.
struct Joined {
    opening: Arc<Opening>,
    open: Mutex<Box<[bool]>>,
    reopening: AtomicBool,
}

impl Quorum {
    /// A quorum of these members.
    pub fn builder(members: impl IntoIterator<Item = Member>) -> Builder {
        Builder::new(members.into_iter().collect())
    }
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quorum")
            .field("members", &self.0.members)
            .field("share", &self.0.share)
            .finish_non_exhaustive()
    }
}

impl From<Quorum> for Arc<dyn Engine> {
    fn from(quorum: Quorum) -> Self {
        Arc::new(quorum)
    }
}

impl Inner {
    /// How many have to agree.
    fn need(&self) -> usize {
        self.share.of(self.members.len())
    }

    /// How many may not, at the most.
    fn spare(&self) -> usize {
        self.members.len() - self.need()
    }

    fn patience(&self, ttl: Duration) -> Duration {
        self.node_timeout.min(ttl / 10).max(Duration::from_millis(1))
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Joined>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks every member, until `stop` says that it is enough or time is over.
    async fn ask_all<T: Send + 'static>(
        &self,
        patience: Duration,
        stop: impl FnMut(&Answers<T>) -> Stop,
        ask: impl Fn(&dyn Engine) -> Reply<T>,
    ) -> Answers<T> {
        let asked = self.members.iter().enumerate().map(|(at, member)| (at, ask(&*member.engine)));
        let mut answers = Answers::none(self.members.len());
        let late = self.gather(&mut answers, asked, patience, stop).await;
        self.flights.follow(late);
        answers
    }

    /// Asks some of them until `stop` says that it is enough and everybody has answered who did the last time, or time is
    /// over. What a slow member says later is followed to its end by the caller.
    ///
    /// Those who answer are waited for although the others may be enough: the lock is then everywhere, or nowhere, and
    /// nobody meets a part of it. It costs the time of the slowest, once it is silent no more.
    async fn gather<T>(
        &self,
        answers: &mut Answers<T>,
        asked: impl Iterator<Item = Late<T>>,
        patience: Duration,
        mut stop: impl FnMut(&Answers<T>) -> Stop,
    ) -> Vec<Late<T>> {
        let asked: Vec<Late<T>> = asked.collect();
        let whom: Vec<usize> = asked.iter().map(|(at, _)| *at).collect();
        let enough = |answers: &Answers<T>| {
            let heard = whom.iter().all(|&at| answers.of(at).is_some() || self.silent.is(at));
            if heard { stop(answers) } else { Stop::No }
        };
        let late = round::gather(&self.clock, answers, asked.into_iter(), patience, enough).await;
        for at in whom {
            self.silent.set(at, !answers.of(at).is_some_and(is_word));
        }
        late
    }

    async fn open(&self, opening: Arc<Opening>) -> Result<Duration> {
        // A member that is not there now costs its connection's time once, and not with every claim.
        let patience = opening.ttl / 3;
        let answers = self.ask_all(patience, |_| Stop::No, |engine| engine.open(opening.clone())).await;
        // A mistake in how the quorum was put together is not made good by the others.
        if let Some(error) = answers.refusal().filter(|error| error.kind() == ErrorKind::Invalid) {
            return Err(error);
        }
        let open: Box<[bool]> = (0..self.members.len()).map(|at| answers.good(at).is_some()).collect();
        if open.iter().filter(|open| **open).count() < self.need() {
            return Err(answers.refusal().unwrap_or_else(|| self.too_few("open a session", &answers)));
        }
        let ttl = answers.all_good().map(|(_, ttl)| *ttl).min().unwrap_or(opening.ttl);
        let session = opening.session;
        self.sessions().insert(
            session,
            Arc::new(Joined { opening, open: Mutex::new(open), reopening: AtomicBool::new(false) }),
        );
        Ok(ttl)
    }

    /// Which members have dropped the session.
    fn note_dropped<T>(&self, session: SessionId, answers: &Answers<T>) {
        if let Some(joined) = self.sessions().get(&session).cloned() {
            for (at, error) in answers.all_bad() {
                if error.kind() == ErrorKind::Lost {
                    joined.set(at, false);
                }
            }
        }
    }
}

impl Joined {
    fn set(&self, at: usize, is_open: bool) {
        if let Some(open) = self.open.lock().unwrap_or_else(PoisonError::into_inner).get_mut(at) {
            *open = is_open;
        }
    }
}

/// Whether a member answered, also if it refused.
fn is_word<T>(answer: &Result<T>) -> bool {
    answer
        .as_ref()
        .err()
        .is_none_or(|error| error.kind() != ErrorKind::Unavailable || error.retry_after().is_some())
}

fn is_held(standing: &Standing) -> bool {
    matches!(standing, Standing::Held { .. })
}

/// Whether somebody else has it there.
fn is_taken(standing: &Standing) -> bool {
    matches!(standing, Standing::Queued { .. } | Standing::Refused)
}

impl Engine for Quorum {
    fn profile(&self) -> Profile {
        self.0.profile
    }

    fn check_ttl(&self, ttl: Duration) -> Result<()> {
        self.0.members.iter().try_for_each(|member| member.engine.check_ttl(ttl))
    }

    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        let inner = self.0.clone();
        Reply::later(async move { inner.open(opening).await })
    }

    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
        let inner = self.0.clone();
        if claim.again {
            return Reply::later(async move { inner.question(claim).await });
        }
        Reply::later(inner.enter(claim))
    }

    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        // Before anything is sent: what leaves from here on is not given back.
        let renewing = Arc::new(self.0.flights.renewing());
        Reply::later(self.0.clone().renew(session, claims, renewing))
    }

    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        let inner = self.0.clone();
        Reply::later(async move { inner.withdraw(claim, exit).await })
    }

    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        // The member says why.
        let takes_none = |member: &&Member| member.engine.profile().asking == Asking::Never;
        if let Some(member) = self.0.members.iter().find(takes_none) {
            return member.engine.ask(claim);
        }
        let inner = self.0.clone();
        Reply::later(async move { sight::pass_on(&inner, &claim).await })
    }

    fn close(&self, session: SessionId) -> Reply<()> {
        let inner = self.0.clone();
        Reply::later(async move {
            let joined = inner.sessions().remove(&session);
            let patience = joined.map_or(Duration::from_secs(1), |joined| joined.opening.ttl / 3);
            // What was left behind for a member that was slower than the others is to be sent before we end.
            let landed = pin!(inner.flights.all_landed());
            let _ = tokio::time::timeout(inner.patience(patience * 3), landed).await;
            inner.ask_all(patience, |_| Stop::No, |engine| engine.close(session)).await;
            Ok(())
        })
    }

    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        let (inner, scope) = (self.0.clone(), scope.clone());
        Reply::later(async move { sight::survey(&inner, &scope, look).await })
    }

    fn lifelines(&self, session: SessionId) -> Vec<OwnedFd> {
        self.0.members.iter().flat_map(|member| member.engine.lifelines(session)).collect()
    }
}
