//! The one trait.
//!
//! An engine carries lines to a store: it enters claims, keeps them alive, takes them out, and tells what it sees.
//! Everything else (deadlines, waiting, cancellation, re-entrancy, faces) is core's and written once.
//!
//! # Three laws
//! Each is a group of the conformance suite.
//! 1. **Order.** Of two exclusive grants of one name, the later one, as the store granted them, has the larger fence.
//!    Repeating a held claim may answer a newer fence, never an older one. Places become visible in order.
//! 2. **Finality.** A claim judged gone never comes back: not by a late renewal, not by a question. Expiry is judged
//!    by the store's own clock.
//! 3. **Doubt is harmless.** Entering and withdrawing are idempotent by id, and a message that arrives late leaves
//!    no orphan. A resent command, a cancelled future, a lost reply: none of them can grant twice, or leave a ghost
//!    for longer than its ttl (one renewal where the store can list a session's claims).

use std::{
    fmt::{self, Debug},
    future::Future,
    os::fd::OwnedFd,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use crate::{About, Alarm, Claim, ClaimId, Error, Fence, Name, Profile, Result, SessionId, Wake};

/// A store that locks can live in. Nine methods are required, so that a wrapper cannot forget one; [`check_ttl`](Engine::check_ttl)
/// only has a refusal come sooner, and [`pending`](Engine::pending) only has an error say more. Object-safe.
///
/// # Futures
/// A [`Reply`] is `'static` and may be polled on another runtime than the one it was made on. Making one must not
/// need a runtime and must not block for longer than a short system call; it may do the work at once and be
/// [ready](Reply::now); one that is not needs a tokio runtime with time to be polled on. Every reply ends by itself: what the store does not answer within about a third of the ttl
/// is `Unavailable` (or [`unknown`](Renewal::unknown)), and no caller has to drop it half-way.
pub trait Engine: Debug + Send + Sync + 'static {
    /// What this store promises.
    fn profile(&self) -> Profile;

    /// Whether the store takes claims that live for so long without a renewal. `open`, `claim` and `renew` refuse a longer ttl
    /// or lease with the same error; this tells before anybody waits.
    ///
    /// # Errors
    /// `Invalid`, with the option to change.
    fn check_ttl(&self, _: Duration) -> Result<()> {
        Ok(())
    }

    /// Opens the session that claims hang from and answers the ttl granted, [`Duration::MAX`] where claims do not
    /// expire by time. Opening an open session again is harmless, sets its ttl where the session carries the claims, and
    /// brings back one that the store has dropped (its claims stay gone).
    fn open(&self, opening: Arc<Opening>) -> Reply<Duration>;

    /// Enters the line; or, with [`again`](Claim::again), asks. `Lost` means that the store no longer knows the
    /// session: core opens it anew.
    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing>;

    /// Why a claim that was sent is not answered yet, if the engine knows: the store has granted it, and something else is
    /// still missing. Asked when the caller's time is up, so that it does not take its own claim for somebody else's hold.
    fn pending(&self, _: ClaimId) -> Option<Error> {
        None
    }

    /// Proves that the session lives, each claim that is held for its `ttl` from now on and each that waits for
    /// [`kept`](Claim::kept), and reconciles both ways. Always called from the keeper's runtime, so an engine
    /// with connections has one there for this alone. One claim that cannot be renewed must not hold up the others:
    /// small batches, and `unknown` for what was not answered in time. It also advances the lines it touches.
    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal>;

    /// Leaves, held or waiting. An absent claim is success. A claim that may still be on its way to the store is
    /// withdrawn behind it on the same connection.
    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()>;

    /// Asks the process behind a claim to let go: it hears of it by its [`Alarm`] or by [`Renewal::asked`], and decides. Nothing changes
    /// in the line. An absent claim is success; where the profile says [`Never`](crate::Asking::Never) it is
    /// [refused](Claim::unaskable).
    fn ask(&self, claim: Arc<Claim>) -> Reply<()>;

    /// Forgets the session. Core has withdrawn everything before.
    fn close(&self, session: SessionId) -> Reply<()>;

    /// Shows lines in order and, for those who go on [`Watching`](Look::Watching), arms a wake for the next change.
    /// Needs no session.
    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey>;

    /// Copies of what the session's life hangs from, where that is a descriptor of this process (a file with a flock,
    /// a connection): while one of them is open, in whatever process, the store keeps the claims. A helper process
    /// that inherits them can finish its work after we are gone. Empty where claims live by time.
    fn lifelines(&self, session: SessionId) -> Vec<OwnedFd>;
}

/// What a session brings when it opens.
#[derive(Clone, Debug)]
pub struct Opening {
    /// Which session.
    pub session: SessionId,
    /// How long the store should keep its claims without hearing of it.
    pub ttl: Duration,
    /// Whether a process will keep it.
    pub keep: Keep,
    /// The process behind it.
    pub about: About,
    /// What to ring when one of its claims was ended by somebody else.
    pub alarm: Alarm,
}

impl Opening {
    /// What a session brings that renews by itself and hears no alarm.
    pub fn new(session: SessionId, ttl: Duration, keep: Keep, about: About) -> Self {
        Self { session, ttl, keep, about, alarm: Alarm::none() }
    }
}

/// Who keeps a session alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The process that opened it, for as long as it lives.
    Process,
    /// Nobody: its claims live for the ttl, also after the process has ended.
    Nobody,
}

/// Where a claim stands.
#[derive(Debug)]
pub enum Standing {
    /// It is held. Like every answer but `Gone` it proves the claim's life: without a fixed lease the store keeps it
    /// for a ttl from here on. (One that was granted to a waiter by push is [kept](Claim::kept) more briefly until its
    /// process renews it or asks.)
    Held {
        /// The fence, if the claim is exclusive and the store mints them.
        fence: Option<Fence>,
        /// How much of a fixed lease is left, where the store ends it. A repeated question may have started it
        /// earlier than we know; `None` where the process ends it, or there is none.
        left: Option<Duration>,
    },
    /// It waits (or, with `Watch`, it does not but has armed a wake). Its place is [kept](Claim::kept) from here on.
    Queued {
        /// How many stand ahead, if known.
        ahead: Option<u32>,
        /// Fires on a grant, or when asking is worth it. Armed before this answer was computed.
        wake: Wake,
        /// The longest time to trust the wake. Only the front waiter times the holder's expiry.
        sleep: Duration,
    },
    /// It would have had to wait and did not want to. Nothing was written.
    Refused,
    /// It was asked about and is not there. Nothing was written.
    Gone,
}

/// What a renewal found. Claims that are in none of the lists were confirmed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    /// Not in line any more.
    pub gone: Vec<ClaimId>,
    /// In line, and not held: kept as a place. Who believed to hold it does not: the store has gone back in time. An
    /// engine whose store cannot need not say so.
    pub waiting: Vec<ClaimId>,
    /// Could not be asked this time.
    pub unknown: Vec<ClaimId>,
    /// In line as ours, and not in what was asked.
    pub stray: Vec<Arc<Claim>>,
    /// Of this session, and somebody [asks](Engine::ask) their holder to let go. On stores that keep wishes each is listed by the next
    /// renewal at least; claims that were not asked about, or have ended, may be in it.
    pub asked: Vec<ClaimId>,
}

/// Why a claim is withdrawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Its own process is done with it.
    Own,
    /// Somebody else ended it. A store that can keeps a record.
    Broken(Arc<Break>),
}

/// A hold ended by force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// Who did it.
    pub by: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
}

/// Which lines to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// This one.
    Exact(Name),
    /// This one and all below it.
    Under(Name),
    /// Every one.
    All,
}

impl Scope {
    /// Whether `name` is in it.
    pub fn covers(&self, name: &Name) -> bool {
        match self {
            Self::Exact(exact) => name == exact,
            Self::Under(prefix) => name.is_under(prefix),
            Self::All => true,
        }
    }
}

/// Whether a survey is the first of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// One look: the wake never fires, and nothing is set up for it.
    Once,
    /// One look at those who hold. Those who wait are listed as they stand in line; a store for which that is cheaper
    /// leaves out who they are, and may list some that have died since.
    Glance,
    /// The wake is armed before the look, so that no change falls between.
    Watching,
}

/// What a survey saw.
#[derive(Debug)]
pub struct Survey {
    /// The lines that are not empty, by name.
    pub lines: Vec<LineView>,
    /// Lines that could not be read, an error each. One that was asked for by name is an error of the survey itself.
    pub unreadable: Vec<Error>,
    /// Fires on the next change in the scope, if it was asked for.
    pub wake: Wake,
    /// The longest time to trust the wake.
    pub sleep: Duration,
}

/// One line as a survey saw it.
#[derive(Clone, Debug)]
pub struct LineView {
    /// The lock.
    pub name: Name,
    /// Its capacity.
    pub capacity: u32,
    /// Everyone in it, in order; holders first.
    pub places: Vec<PlaceView>,
    /// The last hold that was ended by force, where the store keeps a record.
    pub broken: Option<Broken>,
}

/// One claim in a line as a survey saw it.
#[derive(Clone, Debug)]
pub struct PlaceView {
    /// The claim.
    pub claim: Arc<Claim>,
    /// The process behind it, if the store knows.
    pub about: Option<Arc<About>>,
    /// Whether it is held.
    pub state: PlaceState,
    /// How long ago it entered the line; `None` where the store does not know.
    pub age: Option<Duration>,
    /// How long it will live without a renewal; `None` where that does not depend on time, or is not known.
    pub left: Option<Duration>,
    /// How long ago its time was last extended: by a renewal, or else by its entry or its grant. A process that is well
    /// renews every third of its ttl. `None` where the store does not know, and for a fixed lease, which is never renewed.
    pub renewed: Option<Duration>,
    /// What is known of its process.
    pub health: Health,
}

/// Whether a claim in line is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceState {
    /// It is.
    Held {
        /// With this fence, if it is exclusive.
        fence: Option<Fence>,
        /// For so long; `None` where the store does not know.
        since: Option<Duration>,
    },
    /// It waits.
    Waiting,
}

/// What a store can tell of the process behind a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It runs.
    Running,
    /// It is stopped (SIGSTOP, a debugger): it keeps its claims and does nothing.
    Stopped,
    /// The store cannot tell.
    Unknown,
}

/// The record of a [`Break`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which claim.
    pub id: ClaimId,
    /// By whom and why.
    pub cause: Arc<Break>,
    /// How long ago.
    pub ago: Duration,
}

/// An engine's answer: ready at once, or a boxed future.
pub struct Reply<T>(Inner<T>);

enum Inner<T> {
    Now(Option<Result<T>>),
    Later(Pin<Box<dyn Future<Output = Result<T>> + Send>>),
}

// Nothing in it is pinned in place: a value, or a box that is pinned already.
impl<T> Unpin for Reply<T> {}

impl<T> Reply<T> {
    /// The answer is known already.
    pub fn now(answer: Result<T>) -> Self {
        Self(Inner::Now(Some(answer)))
    }

    /// The answer takes a while.
    pub fn later(future: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Self(Inner::Later(Box::pin(future)))
    }

    /// The answer if it is known already, else the reply back.
    pub fn into_now(self) -> std::result::Result<Result<T>, Self> {
        match self.0 {
            Inner::Now(Some(answer)) => Ok(answer),
            inner => Err(Self(inner)),
        }
    }
}

impl<T> Future for Reply<T> {
    type Output = Result<T>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        match &mut self.0 {
            Inner::Now(answer) => answer.take().map_or(Poll::Pending, Poll::Ready),
            Inner::Later(future) => future.as_mut().poll(cx),
        }
    }
}

impl<T> Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}
