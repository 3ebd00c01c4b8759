//! The life that claims hang from.

use std::{
    collections::HashSet,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use slab::Slab;
use tokio::sync::Notify;

use crate::{
    About, Claim, ClaimId, Clock, Engine, Error, ErrorKind, Exit, Keep, Keeper, Moment, Name, Opening,
    Profile, Reply, Result, SessionId, Standing, Wait,
    gate::{Gate, Pass},
    keeper::{Order, Parting},
    seat::Seat,
};

/// How long the last handle of a session waits for what is being withdrawn when it is dropped.
const LAST_HANDLE_WAITS: Duration = Duration::from_secs(1);

/// One process's standing with one store: claims are made, kept alive and withdrawn through it.
///
/// A session is cheap to clone; all clones, faces and guards are handles of the same one. Its [`Keeper`] renews every
/// held and waiting claim every third of the ttl, on a thread of its own.
///
/// # Guarantees
/// - A guard says that it is lost *before* the store may hand the lock on: its deadline is counted from the moment
///   the last confirming call was *sent*, plus the ttl, minus an allowance for drift, on a clock that runs through
///   suspend. No word from the store is needed for that.
/// - Dropping the last handle, also at the end of `main`, withdraws everything and waits for that for a second at the
///   most: a program that ends normally leaves no lock behind. (`std::process::exit` runs no destructors: then the
///   claims live until their ttl.)
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
    /// What the engine says; `Unavailable` when the store cannot be reached.
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

    /// What the store is called: the URL without secrets, if it was opened by one.
    pub fn store(&self) -> &str {
        &self.0.core.store
    }

    /// Who this session says it is.
    pub fn about(&self) -> &About {
        &self.0.core.opening.about
    }

    /// How many claims of this session are held, waiting or being withdrawn.
    pub fn claims(&self) -> usize {
        self.0.core.seats().len()
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

    /// What the store is called, in messages and when several locks are sorted.
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
        if !(Session::MIN_TTL..=Session::MAX_TTL).contains(&self.ttl) {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("a ttl of {:?} is out of range; use 100ms to 30 days", self.ttl),
            ));
        }
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
        let opening = Arc::new(Opening { session, ttl: self.ttl, keep: self.keep, about: self.about });
        let ttl = self.engine.open(opening.clone()).await?;
        let store = self.store.unwrap_or_else(|| format!("{:p}", Arc::as_ptr(&self.engine)).into());
        let core = Arc::new(Core::new(self.engine, keeper, opening, ttl, store));
        core.keeper.send(Order::Attend(core.clone()));
        Ok(Session(Arc::new(Handle { core })))
    }
}

/// What user code holds; the keeper and departing claims hold the [`Core`] only, so that the last handle is noticed.
pub(crate) struct Handle {
    pub(crate) core: Arc<Core>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let core = &self.core;
        if core.opening.keep == Keep::Nobody {
            core.keeper.send(Order::Forget(core.id()));
            return;
        }
        let done = core.begin_close();
        if core.keeper.is_own_thread() {
            done.wait_blocking(LAST_HANDLE_WAITS);
        }
    }
}

/// The session itself.
pub(crate) struct Core {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) profile: Profile,
    pub(crate) clock: Clock,
    pub(crate) keeper: Keeper,
    pub(crate) opening: Arc<Opening>,
    pub(crate) store: Arc<str>,
    pub(crate) gate: Gate,
    ttl_ns: AtomicU64,
    seq: AtomicU64,
    seats: Mutex<Slab<Arc<Seat>>>,
    /// Whether the keeper knows that there is something to renew.
    armed: AtomicBool,
    /// Whether a claim may have reached the store without our knowing: one more renewal will list it.
    pub(crate) doubt: AtomicBool,
    closing: Mutex<Option<Arc<Gone>>>,
}

impl Core {
    fn new(
        engine: Arc<dyn Engine>,
        keeper: Keeper,
        opening: Arc<Opening>,
        ttl: Duration,
        store: Arc<str>,
    ) -> Self {
        let core = Self {
            profile: engine.profile(),
            engine,
            clock: keeper.clock().clone(),
            keeper,
            opening,
            store,
            gate: Gate::default(),
            ttl_ns: AtomicU64::new(0),
            seq: AtomicU64::new(0),
            seats: Mutex::new(Slab::new()),
            armed: AtomicBool::new(false),
            doubt: AtomicBool::new(false),
            closing: Mutex::new(None),
        };
        core.set_ttl(ttl);
        core
    }

    pub(crate) fn id(&self) -> SessionId {
        self.opening.session
    }

    fn set_ttl(&self, ttl: Duration) {
        self.ttl_ns.store(u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// As granted; `MAX` where claims do not expire by time.
    pub(crate) fn ttl(&self) -> Duration {
        match self.ttl_ns.load(Ordering::Relaxed) {
            u64::MAX => Duration::MAX,
            ns => Duration::from_nanos(ns),
        }
    }

    /// The ttl to pace renewals and repeats by, also where claims do not expire by time.
    pub(crate) fn pace(&self) -> Duration {
        self.ttl().min(self.opening.ttl)
    }

    /// Until when a claim is good that the store confirmed in a call sent at `sent`.
    pub(crate) fn good_until(&self, sent: Moment, lease: Option<Duration>) -> Moment {
        let span = lease.unwrap_or_else(|| self.ttl());
        sent + span - drift(span)
    }

    /// Opens the session again after the store has dropped it.
    pub(crate) async fn reopen(&self) -> Result<()> {
        let ttl = self.engine.open(self.opening.clone()).await?;
        self.set_ttl(ttl);
        Ok(())
    }

    pub(crate) fn seats(&self) -> std::sync::MutexGuard<'_, Slab<Arc<Seat>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a claim with an id of its own and takes a seat for it, before anything is sent.
    pub(crate) fn sit(self: &Arc<Self>, want: &Want, wait: Wait, pass: Option<Pass>) -> Arc<Seat> {
        let claim = Arc::new(Claim {
            id: ClaimId { session: self.id(), seq: self.seq.fetch_add(1, Ordering::Relaxed) + 1 },
            name: want.name.clone(),
            capacity: want.capacity,
            weight: want.weight,
            wait,
            again: false,
            floor: None,
            ttl: self.ttl(),
            lease: want.lease,
            note: want.note.clone(),
        });
        let seat = {
            let mut seats = self.seats();
            let entry = seats.vacant_entry();
            let seat = Arc::new(Seat::new(entry.key(), claim, pass));
            entry.insert(seat.clone());
            seat
        };
        self.arm();
        seat
    }

    /// Tells the keeper that there is something to renew, if it does not know.
    pub(crate) fn arm(self: &Arc<Self>) {
        if !self.armed.load(Ordering::Relaxed) && !self.armed.swap(true, Ordering::AcqRel) {
            self.keeper.send(Order::Arm(self.id()));
        }
    }

    /// One more renewal, so that the store lists what it may have without our knowing.
    pub(crate) fn arm_for_doubt(self: &Arc<Self>) {
        if self.doubt.load(Ordering::Acquire) {
            self.arm();
        }
    }

    /// Those of the claims found in the store that nobody here knows of.
    pub(crate) fn strays(&self, found: Vec<Arc<Claim>>) -> Vec<Arc<Claim>> {
        if found.is_empty() {
            return found;
        }
        let known: HashSet<u64> = self.seats().iter().map(|(_, seat)| seat.id.seq).collect();
        found.into_iter().filter(|claim| !known.contains(&claim.id.seq)).collect()
    }

    /// Called by the keeper when a round found nothing to do. Whether it may stop.
    pub(crate) fn disarm(&self) -> bool {
        self.armed.store(false, Ordering::Release);
        let idle = self.seats().is_empty();
        if !idle {
            self.armed.store(true, Ordering::Release);
        }
        idle
    }

    /// The claim has left the store for good, or was never in it.
    pub(crate) fn forget(&self, seat: &Arc<Seat>) {
        seat.leave();
        seat.give_back_pass();
        let empty = {
            let mut seats = self.seats();
            if seats.get(seat.key).is_some_and(|other| Arc::ptr_eq(other, seat)) {
                seats.remove(seat.key);
            }
            seats.is_empty()
        };
        if empty && let Some(gone) = &*self.closing.lock().unwrap_or_else(PoisonError::into_inner) {
            gone.emptied.notify_one();
        }
    }

    /// Withdraws a claim: at once where the engine can, else by the keeper, behind whatever is still in flight.
    pub(crate) fn depart(self: &Arc<Self>, seat: Arc<Seat>, flight: Flight, doubt: bool) {
        if !seat.leave() {
            return;
        }
        let flight = match flight {
            Flight::Landed if !doubt => {
                // This runs in drops: also in a panic, after the runtime's end, outside of one.
                let asked = AssertUnwindSafe(|| self.engine.withdraw(seat.claim(), Exit::Own).into_now());
                match catch_unwind(asked) {
                    Ok(Ok(Ok(()))) => return self.forget(&seat),
                    Ok(Err(reply)) => Flight::Withdraw(reply),
                    Ok(Ok(Err(_))) | Err(_) => Flight::Landed,
                }
            }
            flight => flight,
        };
        self.hand_over(seat, flight, doubt);
    }

    /// Gives a claim that is on its way out to the keeper.
    pub(crate) fn hand_over(self: &Arc<Self>, seat: Arc<Seat>, flight: Flight, doubt: bool) {
        self.keeper.send(Order::Part(Parting { core: self.clone(), seat, flight, doubt }));
    }

    pub(crate) fn closed_error(&self) -> Error {
        Error::new(ErrorKind::Lost, "the session is closed; open a new one")
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Begins to close, once. Claims that are held or waiting are withdrawn, then the engine forgets the session.
    fn begin_close(self: &Arc<Self>) -> Arc<Gone> {
        let gone = {
            let mut closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(gone) = &*closing {
                return gone.clone();
            }
            closing.insert(Arc::default()).clone()
        };
        if self.seats().is_empty() {
            let asked = AssertUnwindSafe(|| self.engine.close(self.id()).into_now());
            if let Ok(Ok(_)) = catch_unwind(asked) {
                self.keeper.send(Order::Forget(self.id()));
                gone.tell();
                return gone;
            }
        }
        self.keeper.send(Order::Close(self.clone(), gone.clone()));
        gone
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// What a claim still has on its way when it is given up.
#[derive(Debug)]
pub(crate) enum Flight {
    /// Nothing.
    Landed,
    Claim(Reply<Standing>),
    Withdraw(Reply<()>),
}

/// What a face asks for.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) name: Name,
    pub(crate) capacity: u32,
    pub(crate) weight: u32,
    pub(crate) lease: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) note: Arc<str>,
}

/// What clocks may differ by over `span`: one per cent and two milliseconds, as Redlock has it.
pub(crate) fn drift(span: Duration) -> Duration {
    if span == Duration::MAX { Duration::ZERO } else { span / 100 + Duration::from_millis(2) }
}

/// The end of a session, awaited from async code and from destructors.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    pub(crate) emptied: Notify,
    done: Mutex<bool>,
    condition: std::sync::Condvar,
    told: Notify,
}

impl Gone {
    pub(crate) fn tell(&self) {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.condition.notify_all();
        self.told.notify_waiters();
    }

    async fn wait(&self) {
        loop {
            let told = self.told.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if *self.done.lock().unwrap_or_else(PoisonError::into_inner) {
                return;
            }
            told.await;
        }
    }

    fn wait_blocking(&self, most: Duration) {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.condition.wait_timeout_while(done, most, |done| !*done));
    }
}
