//! The life that claims hang from.

use std::{fmt, os::fd::OwnedFd, sync::Arc, time::Duration};

use crate::{
    About, Engine, Error, ErrorKind, Keep, Keeper, Name, Opening, Profile, Result, SessionId,
    core::{Core, Handle},
    keeper::Order,
};

/// One process's standing with one store: claims are made, kept alive and withdrawn through it.
///
/// A session is cheap to clone; all clones, faces and guards are handles of the same one. Its [`Keeper`] renews every
/// held and waiting claim every third of the ttl, on a thread of its own.
///
/// # Guarantees
/// - A guard says that it is lost *before* the store may hand the lock on: its deadline is counted from the moment
///   the last confirming call was *sent*, plus the ttl, minus an allowance for drift, on a clock that runs through
///   suspend. No word from the store is needed for that.
/// - Dropping the last handle, also at the end of `main`, withdraws everything. Outside of a runtime it waits for that, for a
///   second at the most. Inside one it blocks no executor: the withdrawal goes on, and the *thread* waits when it ends, the
///   main thread when `main` returns and a runtime's threads when the runtime is dropped. So a program that ends normally leaves no
///   lock behind. (Not by `std::process::abort`, nor after `Runtime::shutdown_background`; and not every system runs the destructors
///   of the main thread's locals, musl does not. Then claims live until their ttl; [`close`](Session::close) waits in any case.)
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bramah_core::Result<()> {
/// use bramah_core::{Memory, Session};
/// let session = Session::open(Memory::new()).await?;
/// let guard = session.mutex("orders/42")?.lock().await?;
/// assert!(guard.is_held());
/// guard.release().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Session(pub(crate) Arc<Handle>);

/// How a session is to be opened.
#[derive(Debug)]
pub struct SessionBuilder {
    engine: Arc<dyn Engine>,
    ttl: Duration,
    keep: Keep,
    about: About,
    id: Option<SessionId>,
    keeper: Option<Keeper>,
    store: Option<Arc<str>>,
}

/// What [`Session::close`] left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Closed {
    /// Locks that could not be withdrawn in the time given. Each is free after its ttl, and sooner if the withdrawal,
    /// which goes on, gets through.
    pub left: Vec<Name>,
}

impl Session {
    /// The ttl unless another is set.
    pub const DEFAULT_TTL: Duration = Duration::from_secs(30);
    /// The shortest ttl.
    pub const MIN_TTL: Duration = Duration::from_millis(100);
    /// The longest ttl.
    pub const MAX_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

    /// Opens a session with the defaults: a ttl of 30 s and a keeper of its own.
    ///
    /// # Errors
    /// What the engine says; `Unavailable` when the store cannot be reached, which is not waited for.
    pub async fn open(engine: impl Into<Arc<dyn Engine>>) -> Result<Self> {
        Self::builder(engine).open().await
    }

    /// A session with settings of your own.
    pub fn builder(engine: impl Into<Arc<dyn Engine>>) -> SessionBuilder {
        SessionBuilder {
            engine: engine.into(),
            ttl: Self::DEFAULT_TTL,
            keep: Keep::Process,
            about: About::this_process(),
            id: None,
            keeper: None,
            store: None,
        }
    }

    /// Its id.
    pub fn id(&self) -> SessionId {
        self.0.core.opening.session
    }

    /// What the store promises.
    pub fn profile(&self) -> Profile {
        self.0.core.profile
    }

    /// The ttl that the store granted; [`Duration::MAX`] where claims do not expire by time.
    pub fn ttl(&self) -> Duration {
        self.0.core.ttl()
    }

    /// Refuses a ttl that this store does not take, for a lock that is to be [left](crate::Guard::leave_for) behind: before
    /// anybody waits for it.
    ///
    /// # Errors
    /// `Invalid` for a ttl out of range, or longer than the store takes.
    pub fn check_ttl(&self, ttl: Duration) -> Result<()> {
        check_ttl(ttl)?;
        self.0.core.engine.check_ttl(ttl)
    }

    /// What the store is called: the URL without secrets, if it was opened by one; `unnamed` if nobody [said](SessionBuilder::store).
    pub fn store(&self) -> &str {
        self.0.core.store.as_deref().unwrap_or("unnamed")
    }

    /// Who this session says it is.
    pub fn about(&self) -> &About {
        &self.0.core.opening.about
    }

    /// Why waiters of this session cannot be granted anything now, whoever holds: the store does not take part yet (then
    /// [`retry_after`](Error::retry_after) says when it will), or it does not answer, and is asked again and again. For telling
    /// them.
    pub fn hindrance(&self) -> Option<Error> {
        self.0.core.hindrance().or_else(|| self.0.core.outage())
    }

    /// How many claims of this session are held, waiting or being withdrawn.
    pub fn claims(&self) -> usize {
        self.0.core.seats().len()
    }

    /// Copies of what the session's life hangs from, where that is a descriptor of this process. A helper process that
    /// inherits one keeps the session's locks after this process has died, until it closes it. Empty where claims
    /// live by time.
    pub fn lifelines(&self) -> Vec<OwnedFd> {
        self.0.core.engine.lifelines(self.id())
    }

    /// Releases everything, waits for it, and says what was left. Guards of this session are lost from here on, and
    /// waiters get an error.
    ///
    /// # Cancel safety
    /// Closing goes on when this is dropped.
    pub async fn close(&self, within: Duration) -> Closed {
        let core = &self.0.core;
        let done = core.begin_close();
        let until = core.clock.now() + within;
        tokio::select! {
            biased;
            () = done.wait() => {}
            () = core.clock.sleep_until(until) => {}
        }
        let left = core.seats().iter().map(|(_, seat)| seat.claim().name.clone()).collect();
        Closed { left }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id())
            .field("store", &self.store())
            .finish_non_exhaustive()
    }
}

impl SessionBuilder {
    /// How long the store keeps claims of a process that it does not hear of. Renewed every third of it.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Who this is, for those who wait: `ana@ci-7:812` unless set.
    #[must_use]
    pub fn owner(mut self, owner: impl AsRef<str>) -> Self {
        self.about.owner = owner.as_ref().into();
        self
    }

    /// One more fact about this process.
    #[must_use]
    pub fn label(mut self, key: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        self.about.labels.push((key.as_ref().into(), value.as_ref().into()));
        self
    }

    /// Whether a process keeps the session; [`Keep::Nobody`] leaves its claims behind for a ttl.
    #[must_use]
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// The id, for seeded tests. Two sessions with one id are one session to the store.
    #[must_use]
    pub fn id(mut self, id: SessionId) -> Self {
        self.id = Some(id);
        self
    }

    /// A keeper to share with other sessions; a new one on its own thread unless set.
    #[must_use]
    pub fn keeper(mut self, keeper: Keeper) -> Self {
        self.keeper = Some(keeper);
        self
    }

    /// What the store is called, in messages and when several locks are sorted: the same in every process.
    #[must_use]
    pub fn store(mut self, store: impl AsRef<str>) -> Self {
        self.store = Some(store.as_ref().into());
        self
    }

    /// Opens it.
    ///
    /// # Errors
    /// `Invalid` for a ttl out of range or a description that is too long; else what the engine says.
    pub async fn open(self) -> Result<Session> {
        check_ttl(self.ttl)?;
        if self.about.encode().len() > About::MAX_BYTES {
            return Err(Error::new(ErrorKind::Invalid, "owner and labels are over 4096 bytes; shorten them"));
        }
        let keeper = match self.keeper {
            Some(keeper) => keeper,
            None => Keeper::spawn()?,
        };
        let session = match self.id {
            Some(id) => id,
            None => SessionId::random()?,
        };
        let alarm = keeper.alarm();
        let opening = Arc::new(Opening { session, ttl: self.ttl, keep: self.keep, about: self.about, alarm });
        let ttl = self.engine.open(opening.clone()).await?;
        let core = Arc::new(Core::new(self.engine, keeper, opening, ttl, self.store));
        core.keeper.send(Order::Attend(core.clone()));
        Ok(Session(Arc::new(Handle { core })))
    }
}

pub(crate) fn check_ttl(ttl: Duration) -> Result<()> {
    if (Session::MIN_TTL..=Session::MAX_TTL).contains(&ttl) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Invalid, format!("a ttl of {ttl:?} is out of range; use 100ms to 30 days")))
}
