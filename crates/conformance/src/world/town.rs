//! Who believes to hold what, and whether that can be.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use bramah_core::{Clock, Guard, Moment};

/// What a world did, for comparing runs and for the failure's story.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tale {
    /// What happened, in order.
    pub events: Vec<String>,
    /// How often a lock was held.
    pub holds: usize,
    /// How many of those were lost.
    pub losses: usize,
    /// What should not have happened.
    pub violation: Option<String>,
}

/// What is being locked in a world, and by whom: sees that no two hold what does not fit, and that fences rise.
#[derive(Debug)]
pub struct Town {
    clock: Clock,
    tale: Mutex<Tale>,
    /// Who believes to hold what: name, weight, capacity.
    held: Mutex<BTreeMap<String, Vec<Believer>>>,
    fences: Mutex<BTreeMap<String, u64>>,
}

#[derive(Debug)]
struct Believer {
    who: String,
    weight: u64,
    belief: Belief,
}

/// Why somebody believes to hold.
#[derive(Debug)]
enum Belief {
    /// Its guard says so.
    Guard(std::sync::Weak<Guard>),
    /// It was left behind until then.
    Left(Moment),
}

impl Belief {
    fn holds(&self, now: Moment) -> bool {
        match self {
            Self::Guard(guard) => guard.upgrade().is_some_and(|guard| guard.is_held()),
            Self::Left(until) => *until > now,
        }
    }

    fn is_over(&self, now: Moment) -> bool {
        match self {
            Self::Guard(guard) => guard.strong_count() == 0,
            Self::Left(until) => *until <= now,
        }
    }
}

impl Town {
    /// A town where nothing has happened yet.
    pub fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self { clock, tale: Mutex::default(), held: Mutex::default(), fences: Mutex::default() })
    }

    /// What happened so far.
    pub fn tale(&self) -> Tale {
        lock(&self.tale).clone()
    }

    /// Somebody was told that a hold is lost.
    pub(super) fn lost(&self) {
        lock(&self.tale).losses += 1;
    }

    /// Writes down what happened.
    pub fn say(&self, what: String) {
        let now = self.clock.now();
        lock(&self.tale).events.push(format!("{now:?} {what}"));
    }

    /// Writes down what should not have happened.
    pub fn accuse(&self, what: String) {
        self.say(format!("VIOLATION {what}"));
        lock(&self.tale).violation.get_or_insert(what);
    }

    /// Someone has left an exclusive lock behind, which nobody else may be granted until then.
    pub fn left(&self, who: &str, name: &str, until: Moment) {
        self.say(format!("{who} left {name} behind until {until:?}"));
        let believer = Believer { who: who.to_owned(), weight: 1, belief: Belief::Left(until) };
        lock(&self.held).entry(name.to_owned()).or_default().push(believer);
    }

    /// It is about to release what it left.
    pub fn takes_back(&self, who: &str, name: &str) {
        self.say(format!("{who} takes {name} back"));
        let is_it = |b: &Believer| b.who == who && matches!(b.belief, Belief::Left(_));
        lock(&self.held).entry(name.to_owned()).or_default().retain(|b| !is_it(b));
    }

    /// Someone was granted a lock: nobody else may believe to hold what does not fit beside it, at this very moment.
    pub fn granted(&self, who: &str, name: &str, capacity: u32, weight: u32, guard: &Arc<Guard>) {
        self.say(format!("{who} holds {name} ({weight} of {capacity}) fence {:?}", guard.fence()));
        lock(&self.tale).holds += 1;
        let mut held = lock(&self.held);
        let believers = held.entry(name.to_owned()).or_default();
        believers.push(Believer {
            who: who.to_owned(),
            weight: u64::from(weight),
            belief: Belief::Guard(Arc::downgrade(guard)),
        });
        let now = self.clock.now();
        let sure: Vec<&Believer> = believers.iter().filter(|b| b.belief.holds(now)).collect();
        let used: u64 = sure.iter().map(|b| b.weight).sum();
        if used > u64::from(capacity) {
            let names: Vec<&str> = sure.iter().map(|b| b.who.as_str()).collect();
            self.accuse(format!("{name} (capacity {capacity}) is held by {} at once", names.join(" and ")));
        }
        believers.retain(|b| !b.belief.is_over(now));
        if let Some(fence) = guard.fence().filter(|_| guard.is_held()) {
            let last = lock(&self.fences).insert(name.to_owned(), fence.get());
            if last.is_some_and(|last| last >= fence.get()) {
                self.accuse(format!("{name}: fence {fence} after {last:?}"));
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
