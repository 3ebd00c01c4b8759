//! What a store promises.

/// What an engine promises, in a few small words. What it does not promise is refused by name when a face is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Which weights the line takes.
    pub modes: Modes,
    /// Who says how many permits a line has.
    pub capacity: Capacities,
    /// In which order waiters are served.
    pub order: Order,
    /// What a fence survives.
    pub fence: Fencing,
    /// What keeps a claim alive.
    pub liveness: Liveness,
    /// How a waiter learns that it may ask again.
    pub wake: Waking,
    /// How many claims one session can have on one name.
    pub seats: Seats,
    /// Who ends a fixed lease.
    pub lease: Leasing,
    /// Whether `renew` finds claims that the process does not know of.
    pub strays: Strays,
    /// Whether a holder can be asked to let go.
    pub asking: Asking,
}

/// Which kinds of claim a store takes; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Modes {
    /// One holder at a time.
    Exclusive,
    /// And readers beside each other.
    Shared,
    /// And weighted permits of any capacity.
    Permits,
}

/// Who says how many permits a line has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacities {
    /// The claims in it: a free line takes any capacity.
    Claimed,
    /// The store, from the first claim on.
    Stored,
}

/// The order of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// First come, first served.
    Fifo,
    /// Whoever asks at the right moment.
    Unordered,
}

/// What a fence survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// Whatever the store survives.
    Durable,
    /// Also a store that forgets, while its clock is not behind by more than the outage.
    Clocked,
    /// Nothing: it restarts when the store forgets.
    Volatile,
    /// There is none.
    None,
}

/// What keeps a claim alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Each claim has an expiry of its own that renewal moves.
    Lease,
    /// One object in the store carries all claims of a session, and expires.
    Session,
    /// A connection, or a process that the store can see; a frozen holder keeps its claims.
    Connection,
}

/// How a waiter is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waking {
    /// The store tells it; a timer stands behind.
    Pushed,
    /// It asks from time to time.
    Polled,
}

/// Claims of one session on one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seats {
    /// As many as there are waiters: the order is global.
    Many,
    /// One; the tasks of a process queue in front of it.
    One,
    /// One for a mutex (capacity 1), as with `One`; as many as there are waiters for every other capacity.
    OneMutex,
}

impl Seats {
    /// Whether one session can have several claims on a name of this capacity.
    pub fn is_many(self, capacity: u32) -> bool {
        match self {
            Self::Many => true,
            Self::One => false,
            Self::OneMutex => capacity > 1,
        }
    }
}

/// Who ends a fixed lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leasing {
    /// The store; it ends on time even when its process is frozen or gone.
    Stored,
    /// The process; a frozen holder keeps it until its session ends.
    Kept,
}

/// Whether a session's claims can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strays {
    /// Yes: a ghost lives for one renewal at the most.
    Listed,
    /// No: a ghost lives for its ttl at the most.
    Unlisted,
}

/// Whether a holder can be asked to let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// Yes, and the store keeps it until the claim ends: a holder that missed the message is told by a renewal.
    Kept,
    /// Yes: the store passes it on to a holder that listens.
    Passed,
    /// No: its hold can be broken, and that is all.
    Never,
}
