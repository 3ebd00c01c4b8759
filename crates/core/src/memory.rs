//! The reference engine: lines in this process's memory.
//!
//! It is what the trait means, made runnable: every rustdoc example and every seeded world uses it, and the other
//! engines are held against it. Claims have leases, expiry is judged by its own clock, and a line that nobody stands
//! in takes no memory.

mod lane;

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, DefaultHasher, RandomState},
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{
    About, Alarm, Asking, Bell, Capacities, Claim, Clock, Engine, Exit, Fencing, Leasing, LineView, Liveness,
    Look, Modes, Moment, Name, Opening, Order, Profile, Renewal, Reply, Scope, Seats, SessionId, Standing,
    Strays, Survey, Wake, Waking, Woken, fence::Mint,
};
use lane::{Lane, Terms};

/// Locks in the memory of this process. Clones share one store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bramah_core::Result<()> {
/// use bramah_core::{Memory, Session};
/// let store = Memory::new();
/// let (a, b) = (Session::open(store.clone()).await?, Session::open(store).await?);
/// let guard = a.mutex("x")?.lock().await?;
/// assert!(b.mutex("x")?.try_lock().await?.is_none());
/// # drop(guard); Ok(()) }
/// ```
#[derive(Clone)]
pub struct Memory(Arc<Store>);

const SHARDS: usize = 16;

/// How long a survey may trust its wake: leases run out without a sound.
const SURVEY_SLEEP: Duration = Duration::from_secs(1);

type Shard = HashMap<Name, Lane, Hashing>;

/// By chance; or always the same, on a clock of a test, where a seed has to replay: a store that is dropped wakes its waiters
/// in the order of its maps.
#[derive(Clone, Debug)]
struct Hashing(Option<RandomState>);

impl BuildHasher for Hashing {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        self.0.as_ref().map_or_else(DefaultHasher::new, BuildHasher::build_hasher)
    }
}

struct Store {
    clock: Clock,
    /// A moment and the wall time then. Fences follow from these two, so a wall clock that is set later moves none.
    began: (Moment, u64),
    mint: Mint,
    hashing: Hashing,
    shards: [Mutex<Shard>; SHARDS],
    sessions: Mutex<HashMap<SessionId, (Arc<About>, Alarm)>>,
    observers: Mutex<Vec<(Scope, Bell)>>,
    observed: AtomicUsize,
}

impl Memory {
    /// An empty store on the machine's clock.
    pub fn new() -> Self {
        Self::with_clock(Clock::boot())
    }

    /// An empty store on a clock of your own.
    pub fn with_clock(clock: Clock) -> Self {
        let hashing = Hashing(clock.is_boot().then(RandomState::new));
        Self(Arc::new(Store {
            began: (clock.now(), clock.wall_us()),
            clock,
            mint: Mint::default(),
            shards: std::array::from_fn(|_| Mutex::new(Shard::with_hasher(hashing.clone()))),
            hashing,
            sessions: Mutex::default(),
            observers: Mutex::default(),
            observed: AtomicUsize::new(0),
        }))
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}

impl From<Memory> for Arc<dyn Engine> {
    fn from(memory: Memory) -> Self {
        Arc::new(memory)
    }
}

impl Engine for Memory {
    fn profile(&self) -> Profile {
        Profile {
            modes: Modes::Permits,
            order: Order::Fifo,
            fence: Fencing::Clocked,
            liveness: Liveness::Lease,
            wake: Waking::Pushed,
            seats: Seats::Many,
            lease: Leasing::Stored,
            capacity: Capacities::Claimed,
            strays: Strays::Listed,
            asking: Asking::Kept,
        }
    }

    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        let member = (Arc::new(opening.about.clone()), opening.alarm.clone());
        lock(&self.0.sessions).insert(opening.session, member);
        Reply::now(Ok(opening.ttl))
    }

    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
        let store = &*self.0;
        let name = claim.name.clone();
        let standing = {
            let mut shard = store.shard(&name);
            let terms = store.terms();
            if claim.again && !shard.contains_key(&name) {
                Ok(Standing::Gone)
            } else {
                let lane = shard.entry(name.clone()).or_insert_with(|| Lane::new(claim.capacity));
                let standing = lane.claim(claim, &terms);
                if lane.is_idle() {
                    shard.remove(&name);
                }
                standing
            }
        };
        store.changed(&name);
        Reply::now(standing)
    }

    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        let store = &*self.0;
        let mut renewal = Renewal::default();
        for claim in claims.iter() {
            let terms = store.terms();
            if let Some(lane) = store.shard(&claim.name).get_mut(&claim.name)
                && lane.renew(claim, &terms)
            {
                if lane.is_asked(claim.id) {
                    renewal.asked.push(claim.id);
                }
                continue;
            }
            renewal.gone.push(claim.id);
        }
        let asked: std::collections::HashSet<u64> = claims.iter().map(|claim| claim.id.seq).collect();
        let now = store.clock.now();
        for shard in &store.shards {
            let shard = lock(shard);
            let ours =
                shard.values().flat_map(|lane| lane.living(now)).filter(|claim| claim.id.session == session);
            renewal.stray.extend(ours.filter(|claim| !asked.contains(&claim.id.seq)).cloned());
        }
        // The map's order is chance, and a seed has to replay.
        renewal.stray.sort_by_key(|claim| claim.id);
        Reply::now(Ok(renewal))
    }

    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        let store = &*self.0;
        {
            let mut shard = store.shard(&claim.name);
            if let Some(lane) = shard.get_mut(&claim.name) {
                lane.withdraw(claim.id, &exit, &store.terms());
                if lane.is_idle() {
                    shard.remove(&claim.name);
                }
            }
        }
        store.changed(&claim.name);
        if let Exit::Broken(_) = exit {
            store.alarm(claim.id.session).ring(claim.id);
        }
        Reply::now(Ok(()))
    }

    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        if let Some(lane) = self.0.shard(&claim.name).get_mut(&claim.name) {
            lane.wish(claim.id);
        }
        self.0.alarm(claim.id.session).ask(claim.id);
        Reply::now(Ok(()))
    }

    fn close(&self, session: SessionId) -> Reply<()> {
        lock(&self.0.sessions).remove(&session);
        Reply::now(Ok(()))
    }

    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        let store = &*self.0;
        let wake = match look {
            Look::Once | Look::Glance => Wake::never(),
            Look::Watching => store.observe(scope),
        };
        let about: HashMap<SessionId, Arc<About>> =
            lock(&store.sessions).iter().map(|(id, (about, _))| (*id, about.clone())).collect();
        let now = store.clock.now();
        let mut lines: Vec<LineView> = Vec::new();
        for shard in &store.shards {
            let shard = lock(shard);
            let inside = shard.iter().filter(|(name, _)| scope.covers(name));
            lines.extend(inside.filter_map(|(name, lane)| lane.view(name, &about, now)));
        }
        lines.sort_by(|a, b| a.name.cmp(&b.name));
        Reply::now(Ok(Survey { lines, unreadable: Vec::new(), wake, sleep: SURVEY_SLEEP }))
    }

    fn lifelines(&self, _: SessionId) -> Vec<OwnedFd> {
        Vec::new()
    }
}

impl Store {
    fn shard(&self, name: &Name) -> MutexGuard<'_, Shard> {
        // Which shard a name is in has no meaning: the remainder of a 64-bit hash.
        let index = self.hashing.hash_one(name) % SHARDS as u64;
        lock(&self.shards[usize::try_from(index).unwrap_or(0)])
    }

    fn alarm(&self, session: SessionId) -> Alarm {
        lock(&self.sessions).get(&session).map(|(_, alarm)| alarm.clone()).unwrap_or_default()
    }

    fn terms(&self) -> Terms<'_> {
        let (began, wall_us) = self.began;
        let now = self.clock.now();
        let passed = u64::try_from(now.since(began).as_micros()).unwrap_or(u64::MAX);
        Terms { now, wall_us: wall_us.saturating_add(passed), mint: &self.mint }
    }

    fn observe(&self, scope: &Scope) -> Wake {
        let (bell, wake) = Wake::pair();
        let mut observers = lock(&self.observers);
        observers.retain(|(_, bell)| !bell.is_deaf());
        observers.push((scope.clone(), bell));
        self.observed.store(observers.len(), Ordering::Release);
        wake
    }

    /// Wakes those who watch `name`.
    fn changed(&self, name: &Name) {
        if self.observed.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut observers = lock(&self.observers);
        let (woken, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *observers).into_iter().partition(|(scope, _)| scope.covers(name));
        *observers = rest;
        self.observed.store(observers.len(), Ordering::Release);
        drop(observers);
        for (_, bell) in woken {
            bell.ring(Woken::Ask);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
