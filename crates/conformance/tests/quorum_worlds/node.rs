//! A master of its own, as a quorum knows it.

use std::{
    collections::HashSet,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bramah_core::{
    Claim, Clock, Engine, Error, ErrorKind, Exit, Look, Memory, Moment, Opening, Profile, Renewal, Reply,
    Result, Scope, SessionId, Standing, Survey,
};

/// What a node does after it has forgotten everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restart {
    /// It enters no claim until the longest hold that it may have forgotten is over.
    Waits,
    /// It enters none until the ttl of the one that asks is over: not that of those whom it may have forgotten.
    GoesByTheAsker,
    /// It votes at once.
    Votes,
}

/// What a node does with a fence that it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Floors {
    /// It mints none below it any more.
    Kept,
    /// It says so, and does not.
    Ignored,
}

/// Whether a node knows its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sessions {
    /// One that it has not been told of, or has forgotten, has to be opened first.
    Known,
    /// It takes a claim from anybody, as Redis does.
    Ignored,
}

/// What a node is like.
#[derive(Clone, Debug)]
pub(crate) struct Nature {
    /// How fast its clock runs; 1 is right.
    pub(crate) rate: f64,
    /// The longest hold there is.
    pub(crate) longest: Duration,
    pub(crate) sessions: Sessions,
    pub(crate) restart: Restart,
    pub(crate) floors: Floors,
}

/// A store with a clock of its own that can go down, and forget. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Node(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The right time, and when the world began.
    time: (Clock, Moment),
    nature: Nature,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    store: Memory,
    /// What the store goes by: ahead by as much as the node's wall clock is.
    clock: Clock,
    sessions: HashSet<SessionId>,
    born: Moment,
    down_until: Moment,
}

impl Node {
    /// A node that has run for long, with its wall clock ahead by `ahead`.
    pub(crate) fn new(time: Clock, nature: Nature, ahead: Duration) -> Self {
        let began = time.now();
        let (store, clock) = empty_store(ahead);
        let state = State {
            store,
            clock,
            sessions: HashSet::new(),
            born: began - nature.longest * 2,
            down_until: began,
        };
        Self(Arc::new(Inner { time: (time, began), nature, state: Mutex::new(state) }))
    }

    /// It is away for a while, and then as it was.
    pub(crate) fn go_down(&self, span: Duration) {
        let until = self.now() + span;
        let mut state = self.state();
        state.down_until = state.down_until.max(until);
    }

    /// It is away for a while, and then knows nothing: no claim, no fence, and its wall clock is set anew.
    pub(crate) fn forget(&self, span: Duration, ahead: Duration) {
        let (now, began) = (self.now(), self.0.time.1);
        let (store, clock) = empty_store(now.since(began) + ahead);
        *self.state() =
            State { store, clock, sessions: HashSet::new(), born: now + span, down_until: now + span };
    }

    /// Its clock jumps ahead.
    pub(crate) fn jump(&self, span: Duration) {
        self.state().clock.suspend(span);
    }

    /// It is there again, if it was away.
    pub(crate) fn come_back(&self) {
        let now = self.now();
        let mut state = self.state();
        (state.born, state.down_until) = (state.born.min(now), now);
    }

    fn now(&self) -> Moment {
        self.0.time.0.now()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask<T>(&self, call: impl FnOnce(&mut State) -> Reply<T>) -> Reply<T> {
        let now = self.now();
        let mut state = self.state();
        if state.down_until > now {
            return Reply::now(Err(Error::new(ErrorKind::Unavailable, "it is down")));
        }
        call(&mut state)
    }

    /// The same, for a session that it has to know.
    fn ask_for<T>(&self, session: SessionId, call: impl FnOnce(&mut State) -> Reply<T>) -> Reply<T> {
        let sessions = self.0.nature.sessions;
        self.ask(|state| {
            if sessions == Sessions::Known && !state.sessions.contains(&session) {
                return Reply::now(Err(Error::new(ErrorKind::Lost, "it does not know the session")));
            }
            call(state)
        })
    }

    /// The error if it may have forgotten a hold that still counts.
    fn is_too_young(&self, claim: &Claim) -> Option<Error> {
        let longest = match self.0.nature.restart {
            Restart::Waits => self.0.nature.longest,
            Restart::GoesByTheAsker => claim.ttl.max(claim.lease.unwrap_or_default()),
            Restart::Votes => return None,
        };
        let left = (self.state().born + self.real(longest)).since(self.now());
        let text = "it was started a moment ago and may have forgotten a hold";
        (!left.is_zero()).then(|| Error::new(ErrorKind::Unavailable, text).until_after(left))
    }

    /// How long it takes until its clock has run for `span`.
    fn real(&self, span: Duration) -> Duration {
        span.div_f64(self.0.nature.rate)
    }

    /// What its clock shows of `span`.
    fn shown(&self, span: Duration) -> Duration {
        span.mul_f64(self.0.nature.rate)
    }

    /// A claim that lives by its clock.
    fn timed(&self, claim: &Claim) -> Claim {
        let lease = claim.lease.map(|lease| self.real(lease));
        Claim { ttl: self.real(claim.ttl), lease, ..claim.clone() }
    }

    /// When it is worth to try again: a Redis tells how long a key lives.
    fn busy_for(&self, claim: &Claim) -> Duration {
        let survey = self.state().store.survey(&Scope::Exact(claim.name.clone()), Look::Once).into_now();
        let lines = survey.ok().and_then(Result::ok).map(|survey| survey.lines).unwrap_or_default();
        let left = lines.iter().flat_map(|line| line.holders()).filter_map(|holder| holder.left).min();
        left.map_or(claim.ttl, |left| left + Duration::from_millis(1))
    }

    /// What the store says, as the node says it.
    fn told(&self, standing: Standing, claim: &Claim) -> Standing {
        match standing {
            Standing::Held { fence, left } => {
                let fence =
                    if self.0.nature.floors == Floors::Ignored { fence.max(claim.floor) } else { fence };
                Standing::Held { fence, left: left.map(|left| self.shown(left)) }
            }
            Standing::Queued { ahead, wake, .. } => {
                Standing::Queued { ahead, wake, sleep: self.shown(self.busy_for(claim)) }
            }
            other => other,
        }
    }
}

/// A store in memory answers at once.
const NOT_NOW: &str = "the store took a while";

fn empty_store(ahead: Duration) -> (Memory, Clock) {
    let clock = Clock::runtime();
    clock.suspend(ahead);
    (Memory::with_clock(clock.clone()), clock)
}

impl Engine for Node {
    fn profile(&self) -> Profile {
        self.state().store.profile()
    }

    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        self.ask(|state| {
            state.sessions.insert(opening.session);
            state.store.open(opening)
        })
    }

    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
        let mut timed = self.timed(&claim);
        if self.0.nature.floors == Floors::Ignored {
            timed.floor = None;
        }
        let young = if claim.again { None } else { self.is_too_young(&claim) };
        let reply = self.ask_for(claim.id.session, |state| match young {
            Some(error) => Reply::now(Err(error)),
            None => state.store.claim(Arc::new(timed)),
        });
        let reply = reply.into_now().unwrap_or_else(|_| Err(Error::new(ErrorKind::Invalid, NOT_NOW)));
        Reply::now(reply.map(|standing| self.told(standing, &claim)))
    }

    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        let timed = claims.iter().map(|claim| Arc::new(self.timed(claim))).collect();
        self.ask_for(session, |state| state.store.renew(session, timed))
    }

    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        self.ask(|state| state.store.withdraw(claim, exit))
    }

    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        self.ask(|state| state.store.ask(claim))
    }

    fn close(&self, session: SessionId) -> Reply<()> {
        self.ask(|state| state.store.close(session))
    }

    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        self.ask(|state| state.store.survey(scope, look))
    }

    fn lifelines(&self, _: SessionId) -> Vec<OwnedFd> {
        Vec::new()
    }
}

/// How many claims stand there.
pub(crate) async fn claims_at(node: &Node) -> Result<usize> {
    let survey = node.survey(&Scope::All, Look::Once).await?;
    Ok(survey.lines.iter().map(|line| line.places.len()).sum())
}
