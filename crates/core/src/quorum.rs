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
//!   member is asked with [`Wait::Watch`]; who is not granted takes its votes back, waits for a change or for a random
//!   while, and tries again under a new id.
//! - **Doubt is core's.** Where too few answer, votes stay where they are: the same claim is sent again under the same id, or
//!   withdrawn by core. So a vote is taken back under an id only if that id is never used again.
//! - **A renewal gives back.** A member that has lost a claim which most others confirm gets it again. One that fails never
//!   releases anything.
//! - **Fences.** Every member mints one with its vote. The largest is written back to the members that voted, while their
//!   votes stand, and a majority has to have it before the grant counts: any later majority has one of them in it, and
//!   votes there after it. With [`fences(false)`](Builder::fences) that round trip is saved, and there is no fence.
//!
//! # What a member must be
//! One that forgets its claims and is asked again at once breaks exclusion: the vote that it forgot can be given twice. A
//! member has to refuse to vote until the longest ttl is over after it came back; that is for its engine to know.

mod builder;
mod flights;
mod round;
mod sight;

use std::{
    collections::HashMap,
    fmt,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    Claim, Clock, Engine, Error, ErrorKind, Exit, Fence, LineView, Look, Opening, Profile, Renewal, Reply,
    Result, Scope, SessionId, Standing, Survey, Wait,
};
pub use builder::Builder;
use flights::Flights;
use round::{Answers, Stop};

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
    clock: Clock,
    profile: Profile,
    sessions: Mutex<HashMap<SessionId, Arc<Joined>>>,
    flights: Flights,
}

/// A session, and at which members it is open.
struct Joined {
    opening: Arc<Opening>,
    open: Mutex<Box<[bool]>>,
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
        match self.share {
            Share::Majority => self.members.len() / 2 + 1,
            Share::All => self.members.len(),
        }
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
        round::gather(&self.clock, self.members.len(), asked, patience, stop).await
    }

    async fn open(&self, opening: Arc<Opening>) -> Result<Duration> {
        // A member that is not there now costs its connection's time once, and not with every claim.
        let patience = opening.ttl / 3;
        let answers = self.ask_all(patience, |_| Stop::No, |engine| engine.open(opening.clone())).await;
        let open: Box<[bool]> = (0..self.members.len()).map(|at| answers.good(at).is_some()).collect();
        if open.iter().filter(|open| **open).count() < self.need() {
            return Err(self.too_few("open a session", &answers));
        }
        let ttl = answers.all_good().map(|(_, ttl)| *ttl).min().unwrap_or(opening.ttl);
        let session = opening.session;
        self.sessions().insert(session, Arc::new(Joined { opening, open: Mutex::new(open) }));
        Ok(ttl)
    }

    /// Opens a session where it is not open yet. What comes of it shows with the next claim.
    async fn reopen(&self, session: SessionId) {
        let Some(joined) = self.sessions().get(&session).cloned() else { return };
        let closed: Vec<usize> = {
            let open = joined.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.iter().enumerate().filter(|(_, open)| !**open).map(|(at, _)| at).collect()
        };
        for at in closed {
            let Some(member) = self.members.get(at) else { continue };
            if member.engine.open(joined.opening.clone()).await.is_ok() {
                joined.set(at, true);
            }
        }
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

    async fn enter(self: Arc<Self>, claim: Arc<Claim>) -> Result<Standing> {
        let wait = if claim.wait == Wait::No { Wait::No } else { Wait::Watch };
        let asked = Arc::new(Claim { wait, ..(*claim).clone() });
        let (need, spare, patience) = (self.need(), self.spare(), self.patience(claim.ttl));
        let stop = |answers: &Answers<Standing>| {
            let (votes, others) = (answers.count(is_held), answers.count(is_taken));
            Stop::when(votes >= need || others > spare)
        };
        let sent = self.members.iter().enumerate();
        let sent = sent.map(|(at, member)| {
            (at, self.flights.take_off(claim.id, at, member.engine.claim(asked.clone())))
        });
        let mut answers = round::gather(&self.clock, self.members.len(), sent, patience, stop).await;
        self.note_dropped(claim.id.session, &answers);
        let votes = answers.count(is_held);
        if votes >= need {
            return self.confirm(&claim, answers, patience).await;
        }
        if let Some(error) = answers.refusal() {
            self.take_back(&claim, self.may_stand(&answers), patience).await;
            return Err(error);
        }
        if answers.count(is_taken) <= spare {
            // Nobody else has it for sure: core asks again under this id, or withdraws it.
            return Err(self.too_few("vote", &answers));
        }
        self.take_back(&claim, self.may_stand(&answers), patience).await;
        if claim.wait == Wait::No {
            return Ok(Standing::Refused);
        }
        let (mut wakes, mut sleep) = (Vec::new(), Duration::from_secs(1));
        for standing in answers.take_good() {
            if let Standing::Queued { wake, sleep: longest, .. } = standing {
                wakes.push(wake);
                sleep = sleep.min(longest);
            }
        }
        if votes > 0 {
            // Several want it at once, and each has a part: whoever comes back first has them all.
            sleep = sleep.min(patience.mul_f64(fastrand::f64()));
        }
        Ok(Standing::Queued { ahead: None, wake: round::first_of(wakes), sleep })
    }

    /// Enough have voted: the largest fence is written back to them.
    async fn confirm(
        &self,
        claim: &Arc<Claim>,
        answers: Answers<Standing>,
        patience: Duration,
    ) -> Result<Standing> {
        let (mut fence, mut left, mut voters) = (None, None, Vec::new());
        for (at, standing) in answers.all_good() {
            if let Standing::Held { fence: minted, left: lease } = standing {
                voters.push(at);
                fence = fence.max(*minted);
                left = [left, *lease].into_iter().flatten().min();
            }
        }
        let Some(fence) = fence.filter(|_| self.fenced && claim.is_exclusive()) else {
            return Ok(Standing::Held { fence: None, left });
        };
        let question = Arc::new(Claim { floor: Some(fence), ..claim.asking() });
        let asked =
            voters.iter().filter_map(|&at| Some((at, self.members.get(at)?.engine.claim(question.clone()))));
        let need = self.need();
        let has = |standing: &Standing| matches!(standing, Standing::Held { fence: Some(known), .. } if *known >= fence);
        let stop = |answers: &Answers<Standing>| Stop::when(answers.count(has) >= need);
        let known = round::gather(&self.clock, self.members.len(), asked, patience, stop).await;
        if known.count(has) < need {
            return Err(self.too_few("confirm the fence", &known));
        }
        let raised = known.all_good().filter_map(|(_, standing)| held_fence(standing)).max();
        Ok(Standing::Held { fence: raised.max(Some(fence)), left })
    }

    async fn question(&self, claim: Arc<Claim>) -> Result<Standing> {
        let (need, spare, patience) = (self.need(), self.spare(), self.patience(claim.ttl));
        let gone = |standing: &Standing| !is_held(standing);
        let stop = |answers: &Answers<Standing>| {
            Stop::when(answers.count(is_held) >= need || answers.count(gone) > spare)
        };
        let answers = self.ask_all(patience, stop, |engine| engine.claim(claim.clone())).await;
        if answers.count(is_held) >= need {
            let fence = answers.all_good().filter_map(|(_, standing)| held_fence(standing)).max();
            let lefts = answers.all_good().filter_map(|(_, standing)| match standing {
                Standing::Held { left, .. } => *left,
                _ => None,
            });
            let left = lefts.min();
            return Ok(Standing::Held { fence: fence.filter(|_| self.fenced && claim.is_exclusive()), left });
        }
        if answers.count(gone) > spare {
            self.take_back(&claim, self.may_stand(&answers), patience).await;
            return Ok(Standing::Gone);
        }
        Err(self.too_few("say whether it is held", &answers))
    }

    /// Where a claim may stand: not where it was refused. Taking it out there would only wake those who wait, ourselves
    /// included.
    fn may_stand(&self, answers: &Answers<Standing>) -> Vec<usize> {
        (0..self.members.len()).filter(|&at| answers.good(at).is_none_or(is_held)).collect()
    }

    /// Takes a claim out of these members, as far as they answer. Its id is not used again.
    async fn take_back(&self, claim: &Arc<Claim>, from: Vec<usize>, patience: Duration) {
        let asked = from.into_iter().filter_map(|at| Some((at, self.withdraw_at(at, claim, Exit::Own)?)));
        round::gather(&self.clock, self.members.len(), asked, patience, |_| Stop::No).await;
    }

    /// Behind whatever of the claim is still on its way there.
    fn withdraw_at(&self, at: usize, claim: &Arc<Claim>, exit: Exit) -> Option<Reply<()>> {
        let (engine, claim) = (self.members.get(at)?.engine.clone(), claim.clone());
        Some(match self.flights.landing(claim.id, at) {
            Some(landing) => Reply::later(async move {
                landing.await;
                engine.withdraw(claim, exit).await
            }),
            None => engine.withdraw(claim, exit),
        })
    }

    async fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Result<()> {
        let asked =
            (0..self.members.len()).filter_map(|at| Some((at, self.withdraw_at(at, &claim, exit.clone())?)));
        let patience = self.patience(claim.ttl);
        let answers = round::gather(&self.clock, self.members.len(), asked, patience, |_| Stop::No).await;
        if answers.all_good().count() < self.need() {
            return Err(self.too_few("release it", &answers));
        }
        Ok(())
    }

    async fn renew(self: Arc<Self>, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Result<Renewal> {
        let shortest = claims.iter().map(|claim| claim.ttl).min().unwrap_or(Duration::from_secs(1));
        self.reopen(session).await;
        // Not the time of one node: a renewal may be long, and has a third of the ttl.
        let patience = shortest / 4;
        let answers =
            self.ask_all(patience, |_| Stop::No, |engine| engine.renew(session, claims.clone())).await;
        self.note_dropped(session, &answers);
        let mut renewal = Renewal::default();
        for claim in claims.iter() {
            let gone = |found: &Renewal| found.gone.contains(&claim.id) || found.waiting.contains(&claim.id);
            let lost: Vec<usize> =
                answers.all_good().filter(|(_, found)| gone(found)).map(|(at, _)| at).collect();
            let confirmed = answers.count(|found| !gone(found) && !found.unknown.contains(&claim.id));
            if confirmed >= self.need() {
                self.give_back(claim, lost);
            } else if lost.len() > self.spare() {
                renewal.gone.push(claim.id);
            } else {
                renewal.unknown.push(claim.id);
            }
        }
        Ok(renewal)
    }

    /// Enters a claim again where it was lost. Without a lease only: that has begun elsewhere. One that was broken there is
    /// broken everywhere: whoever does that comes to the members one by one, and we may be in between.
    fn give_back(self: &Arc<Self>, claim: &Arc<Claim>, lost: Vec<usize>) {
        if claim.lease.is_some() {
            return;
        }
        let again = Arc::new(Claim { again: false, wait: Wait::No, floor: None, ..(**claim).clone() });
        for (at, member) in lost.into_iter().filter_map(|at| Some((at, self.members.get(at)?.clone()))) {
            let again = again.clone();
            let entered = self.flights.take_off(
                claim.id,
                at,
                Reply::later(async move {
                    let seen = member.engine.survey(&Scope::Exact(again.name.clone()), Look::Once).await?;
                    let is_broken =
                        |line: &LineView| line.broken.as_ref().is_some_and(|broken| broken.id == again.id);
                    if seen.lines.iter().any(is_broken) {
                        return Ok(Given::Broken);
                    }
                    member.engine.claim(again).await.map(|_| Given::Back)
                }),
            );
            let (inner, claim) = (self.clone(), claim.clone());
            tokio::spawn(async move {
                // What else comes of it shows with the next renewal.
                if let Ok(Given::Broken) = entered.await {
                    let everywhere = (0..inner.members.len()).collect();
                    inner.take_back(&claim, everywhere, inner.patience(claim.ttl)).await;
                }
            });
        }
    }

    /// The error when too few members did what they were asked.
    fn too_few<T>(&self, what: &str, answers: &Answers<T>) -> Error {
        let whys: Vec<String> = self
            .members
            .iter()
            .enumerate()
            .filter_map(|(at, member)| match answers.of(at) {
                Some(Ok(_)) => None,
                Some(Err(error)) => Some(format!("{}: {error}", member.name)),
                None => Some(format!("{}: no answer in time", member.name)),
            })
            .collect();
        let (all, need) = (self.members.len(), self.need());
        let text = format!("fewer than {need} of {all} stores {what}: {}", whys.join("; "));
        Error::new(ErrorKind::Unavailable, text)
    }
}

impl Joined {
    fn set(&self, at: usize, is_open: bool) {
        if let Some(open) = self.open.lock().unwrap_or_else(PoisonError::into_inner).get_mut(at) {
            *open = is_open;
        }
    }
}

/// What became of a claim that a member had lost.
enum Given {
    Back,
    Broken,
}

fn is_held(standing: &Standing) -> bool {
    matches!(standing, Standing::Held { .. })
}

/// Whether somebody else has it there.
fn is_taken(standing: &Standing) -> bool {
    matches!(standing, Standing::Queued { .. } | Standing::Refused)
}

fn held_fence(standing: &Standing) -> Option<Fence> {
    match standing {
        Standing::Held { fence, .. } => *fence,
        _ => None,
    }
}

impl Engine for Quorum {
    fn profile(&self) -> Profile {
        self.0.profile
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
        Reply::later(self.0.clone().renew(session, claims))
    }

    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        let inner = self.0.clone();
        Reply::later(async move { inner.withdraw(claim, exit).await })
    }

    fn close(&self, session: SessionId) -> Reply<()> {
        let inner = self.0.clone();
        Reply::later(async move {
            let joined = inner.sessions().remove(&session);
            let patience = joined.map_or(Duration::from_secs(1), |joined| joined.opening.ttl / 3);
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
