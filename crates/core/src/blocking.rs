//! The same faces for code without async.
//!
//! A blocking session owns a small runtime; every call runs on it and waits. Do not use it from inside async code:
//! it would block the executor, and tokio panics at it.
//!
//! ```
//! use bramah_core::{Memory, blocking::Session};
//! # fn main() -> bramah_core::Result<()> {
//! let session = Session::open(Memory::new())?;
//! let guard = session.mutex("orders/42")?.lock()?;
//! assert!(guard.is_held());
//! guard.release();
//! # Ok(()) }
//! ```

mod detached;

use std::{
    fmt,
    sync::{Arc, Mutex as StdMutex, PoisonError},
    time::Duration,
};

use tokio::runtime::Runtime;

pub use detached::Detached;

use crate::{
    Closed, Engine, Error, ErrorKind, Fence, Leader, LineView, Name, Owner, Release, Result, Scope,
    SessionBuilder, Tag,
};

/// A runtime that may be dropped anywhere.
struct Worker(StdMutex<Option<Runtime>>, tokio::runtime::Handle);

impl Worker {
    fn start() -> Result<Arc<Self>> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("bramah-blocking")
            .enable_all()
            .build()
            .map_err(|error| crate::keeper::no_thread("no thread for blocking calls", error))?;
        let handle = runtime.handle().clone();
        Ok(Arc::new(Self(StdMutex::new(Some(runtime)), handle)))
    }

    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.1.block_on(future)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            runtime.shutdown_background();
        }
    }
}

/// As [`crate::Session`].
#[derive(Clone)]
pub struct Session {
    // Before the worker: the last handle withdraws while the runtime still runs.
    session: crate::Session,
    worker: Arc<Worker>,
}

impl Session {
    /// As [`crate::Session::open`].
    ///
    /// # Errors
    /// As there.
    pub fn open(engine: impl Into<Arc<dyn Engine>>) -> Result<Self> {
        Self::build(crate::Session::builder(engine))
    }

    /// Opens what a builder describes.
    ///
    /// # Errors
    /// As [`SessionBuilder::open`].
    pub fn build(builder: SessionBuilder) -> Result<Self> {
        let worker = Worker::start()?;
        Ok(Self { session: worker.run(builder.open())?, worker })
    }

    /// The session underneath, for what does not wait.
    pub fn session(&self) -> &crate::Session {
        &self.session
    }

    /// As [`crate::Session::mutex`].
    ///
    /// # Errors
    /// As there.
    pub fn mutex<N: TryInto<Name, Error = E>, E: Into<Error>>(&self, name: N) -> Result<Mutex> {
        Ok(Mutex { mutex: self.session.mutex(name)?, worker: self.worker.clone() })
    }

    /// As [`crate::Session::rwlock`].
    ///
    /// # Errors
    /// As there.
    pub fn rwlock<N: TryInto<Name, Error = E>, E: Into<Error>>(&self, name: N) -> Result<RwLock> {
        Ok(RwLock { rwlock: self.session.rwlock(name)?, worker: self.worker.clone() })
    }

    /// As [`crate::Session::semaphore`].
    ///
    /// # Errors
    /// As there.
    pub fn semaphore<N: TryInto<Name, Error = E>, E: Into<Error>>(
        &self,
        name: N,
        capacity: u32,
    ) -> Result<Semaphore> {
        Ok(Semaphore { semaphore: self.session.semaphore(name, capacity)?, worker: self.worker.clone() })
    }

    /// As [`crate::Session::election`].
    ///
    /// # Errors
    /// As there.
    pub fn election<N: TryInto<Name, Error = E>, E: Into<Error>>(&self, name: N) -> Result<Election> {
        Ok(Election { election: self.session.election(name)?, worker: self.worker.clone() })
    }

    /// As [`crate::Session::inspect`].
    ///
    /// # Errors
    /// As there.
    pub fn inspect(&self, name: &Name) -> Result<Option<LineView>> {
        self.worker.run(self.session.inspect(name))
    }

    /// All lines in a scope.
    ///
    /// # Errors
    /// What the engine says.
    pub fn survey(&self, scope: &Scope) -> Result<Vec<LineView>> {
        self.worker.run(self.session.survey(scope))
    }

    /// As [`crate::Session::break_hold`].
    ///
    /// # Errors
    /// As there.
    pub fn break_hold(&self, name: &Name, tag: Tag, reason: &str) -> Result<bool> {
        self.worker.run(self.session.break_hold(name, tag, reason))
    }

    /// As [`crate::Session::ask`].
    ///
    /// # Errors
    /// As there.
    pub fn ask(&self, name: &Name, tag: Tag) -> Result<bool> {
        self.worker.run(self.session.ask(name, tag))
    }

    /// As [`crate::Session::close`].
    pub fn close(&self, within: Duration) -> Closed {
        self.worker.run(self.session.close(within))
    }
}

/// As [`crate::Mutex`].
pub struct Mutex {
    mutex: crate::Mutex,
    worker: Arc<Worker>,
}

impl Mutex {
    /// As [`crate::Lock::lock`].
    ///
    /// # Errors
    /// As there.
    pub fn lock(&self) -> Result<Guard> {
        self.as_lock().lock()
    }

    /// As [`crate::Lock::try_lock`].
    ///
    /// # Errors
    /// As there.
    pub fn try_lock(&self) -> Result<Option<Guard>> {
        self.as_lock().try_lock()
    }

    /// As [`crate::Lock::lock_within`].
    ///
    /// # Errors
    /// As there.
    pub fn lock_within(&self, wait: Duration) -> Result<Guard> {
        self.as_lock().lock_within(wait)
    }

    /// The general form, with its settings.
    pub fn as_lock(&self) -> Lock {
        Lock { lock: self.mutex.clone().into(), worker: self.worker.clone() }
    }

    /// Waits for it as `owner`, who may have it already.
    ///
    /// # Errors
    /// As [`crate::Owned::lock`].
    pub fn lock_as(&self, owner: &Owner) -> Result<Guard> {
        let guard = self.worker.run(self.mutex.owned_by(owner).lock())?;
        Ok(Guard { guard, worker: self.worker.clone() })
    }
}

/// As [`crate::RwLock`].
pub struct RwLock {
    rwlock: crate::RwLock,
    worker: Arc<Worker>,
}

impl RwLock {
    /// As [`crate::RwLock::read`].
    pub fn read(&self) -> Lock {
        Lock { lock: self.rwlock.read(), worker: self.worker.clone() }
    }

    /// As [`crate::RwLock::write`].
    pub fn write(&self) -> Lock {
        Lock { lock: self.rwlock.write(), worker: self.worker.clone() }
    }
}

/// As [`crate::Semaphore`].
pub struct Semaphore {
    semaphore: crate::Semaphore,
    worker: Arc<Worker>,
}

impl Semaphore {
    /// As [`crate::Semaphore::permits`].
    pub fn permits(&self, count: u32) -> Lock {
        Lock { lock: self.semaphore.permits(count), worker: self.worker.clone() }
    }
}

/// As [`crate::Election`].
pub struct Election {
    election: crate::Election,
    worker: Arc<Worker>,
}

impl Election {
    /// As [`crate::Election::campaign`]; the leadership is a guard, and releasing it resigns.
    ///
    /// # Errors
    /// As there.
    pub fn campaign(&self, value: impl AsRef<str>) -> Result<Guard> {
        let leadership = self.worker.run(self.election.campaign(value))?;
        Ok(Guard { guard: leadership.into(), worker: self.worker.clone() })
    }

    /// As [`crate::Election::try_campaign`].
    ///
    /// # Errors
    /// As there.
    pub fn try_campaign(&self, value: impl AsRef<str>) -> Result<Option<Guard>> {
        let leadership = self.worker.run(self.election.try_campaign(value))?;
        Ok(leadership.map(|leadership| Guard { guard: leadership.into(), worker: self.worker.clone() }))
    }

    /// As [`crate::Election::campaign_within`].
    ///
    /// # Errors
    /// As there.
    pub fn campaign_within(&self, value: impl AsRef<str>, wait: Duration) -> Result<Guard> {
        let leadership = self.worker.run(self.election.campaign_within(value, wait))?;
        Ok(Guard { guard: leadership.into(), worker: self.worker.clone() })
    }

    /// As [`crate::Election::leader`].
    ///
    /// # Errors
    /// As there.
    pub fn leader(&self) -> Result<Option<Leader>> {
        self.worker.run(self.election.leader())
    }

    /// Everybody who leads from now on, as [`crate::Observer::next`] tells. It does not end by itself.
    pub fn observe(&self) -> impl Iterator<Item = Result<Option<Leader>>> + use<> {
        let (mut observer, worker) = (self.election.observe(), self.worker.clone());
        std::iter::from_fn(move || Some(worker.run(observer.next())))
    }
}

/// As [`crate::all`], on the runtime of the first of them.
///
/// # Errors
/// `Invalid` if there are none, or one twice; else as [`crate::All::lock`], or [`crate::All::lock_within`] with a
/// `wait`.
pub fn lock_all(locks: impl IntoIterator<Item = Lock>, wait: Option<Duration>) -> Result<Guards> {
    let locks: Vec<Lock> = locks.into_iter().collect();
    let Some(worker) = locks.first().map(|lock| lock.worker.clone()) else {
        return Err(Error::new(ErrorKind::Invalid, "no lock was named; name at least one"));
    };
    let all = crate::all(locks.into_iter().map(|lock| lock.lock));
    let guards = worker.run(async {
        match wait {
            Some(wait) => all.lock_within(wait).await,
            None => all.lock().await,
        }
    })?;
    Ok(Guards { guards, worker })
}

/// As [`crate::Guards`].
#[must_use = "the locks are released when their guards are dropped"]
pub struct Guards {
    guards: crate::Guards,
    worker: Arc<Worker>,
}

impl Guards {
    /// The guards underneath, for what does not wait.
    pub fn guards(&self) -> &crate::Guards {
        &self.guards
    }

    /// As [`crate::Guards::release`].
    pub fn release(self) -> Vec<Release> {
        let Self { guards, worker } = self;
        worker.run(guards.release())
    }
}

/// As [`crate::Lock`].
#[derive(Clone)]
pub struct Lock {
    lock: crate::Lock,
    worker: Arc<Worker>,
}

impl Lock {
    /// As [`crate::Lock::lock`].
    ///
    /// # Errors
    /// As there.
    pub fn lock(&self) -> Result<Guard> {
        self.worker.run(self.lock.lock()).map(|guard| self.guard(guard))
    }

    /// As [`crate::Lock::try_lock`].
    ///
    /// # Errors
    /// As there.
    pub fn try_lock(&self) -> Result<Option<Guard>> {
        Ok(self.worker.run(self.lock.try_lock())?.map(|guard| self.guard(guard)))
    }

    /// As [`crate::Lock::lock_within`].
    ///
    /// # Errors
    /// As there.
    pub fn lock_within(&self, wait: Duration) -> Result<Guard> {
        self.worker.run(self.lock.lock_within(wait)).map(|guard| self.guard(guard))
    }

    /// With other settings: `lock.with(|lock| lock.lease(lease).reason("why"))`.
    #[must_use]
    pub fn with(&self, change: impl FnOnce(&crate::Lock) -> crate::Lock) -> Self {
        Self { lock: change(&self.lock), worker: self.worker.clone() }
    }

    fn guard(&self, guard: crate::Guard) -> Guard {
        Guard { guard, worker: self.worker.clone() }
    }
}

/// As [`crate::Guard`].
#[must_use = "the lock is released when its guard is dropped"]
pub struct Guard {
    guard: crate::Guard,
    worker: Arc<Worker>,
}

impl Guard {
    /// As [`crate::Guard::fence`].
    pub fn fence(&self) -> Option<Fence> {
        self.guard.fence()
    }

    /// As [`crate::Guard::name`].
    pub fn name(&self) -> Name {
        self.guard.name()
    }

    /// As [`crate::Guard::tag`].
    pub fn tag(&self) -> Tag {
        self.guard.tag()
    }

    /// As [`crate::Guard::confirm`].
    ///
    /// # Errors
    /// As there.
    pub fn confirm(&self) -> Result<bool> {
        self.worker.run(self.guard.confirm())
    }

    /// Changes the value that everybody reads, as [`crate::Leadership::proclaim`]; of a guard that is no leadership, the reason.
    ///
    /// # Errors
    /// As there.
    pub fn proclaim(&self, value: impl AsRef<str>) -> Result<()> {
        self.worker.run(self.guard.proclaim(value.as_ref()))
    }

    /// As [`crate::Guard::leave`].
    ///
    /// # Errors
    /// As there.
    pub fn leave(self) -> Result<Detached> {
        let Self { guard, worker } = self;
        worker.run(guard.leave()).map(|detached| Detached { detached, worker })
    }

    /// As [`crate::Guard::leave_for`].
    ///
    /// # Errors
    /// As there.
    pub fn leave_for(self, ttl: Duration) -> Result<Detached> {
        let Self { guard, worker } = self;
        worker.run(guard.leave_for(ttl)).map(|detached| Detached { detached, worker })
    }

    /// As [`crate::Guard::is_held`].
    pub fn is_held(&self) -> bool {
        self.guard.is_held()
    }

    /// As [`crate::Guard::remaining`].
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// Waits for `wait` at the most; whether the lock was lost by then.
    pub fn lost_within(&self, wait: Duration) -> bool {
        self.worker.run(async { tokio::time::timeout(wait, self.guard.lost()).await.is_ok() })
    }

    /// As [`crate::Guard::is_asked`].
    pub fn is_asked(&self) -> bool {
        self.guard.is_asked()
    }

    /// As [`crate::Guard::release`].
    pub fn release(self) -> Release {
        let Self { guard, worker } = self;
        worker.run(guard.release())
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.session.fmt(f)
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}

impl fmt::Debug for Guards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guards.fmt(f)
    }
}
