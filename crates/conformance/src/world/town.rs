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
    by: By,
}

/// What somebody's belief rests on.
#[derive(Debug)]
enum By {
    /// A guard that says that it is held.
    Guard(std::sync::Weak<Guard>),
    /// The time for which it was left.
    Time(Moment),
}

impl Believer {
    fn is_sure(&self, now: Moment) -> bool {
        match &self.by {
            By::Guard(guard) => guard.upgrade().is_some_and(|guard| guard.is_held()),
            By::Time(until) => now < *until,
        }
    }

    fn is_over(&self, now: Moment) -> bool {
        match &self.by {
            By::Guard(guard) => guard.strong_count() == 0,
            By::Time(until) => now >= *until,
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

    /// Someone has left a mutex until then, for the first time or again: until then nobody else may be granted it.
    pub fn left(&self, who: &str, name: &str, until: Moment) {
        self.say(format!("{who} has left {name} until {until:?}"));
        self.let_go(who, name);
        let believer = Believer { who: who.to_owned(), weight: 1, by: By::Time(until) };
        lock(&self.held).entry(name.to_owned()).or_default().push(believer);
    }

    /// What was left is about to be released, or is left anew.
    pub fn let_go(&self, who: &str, name: &str) {
        if let Some(believers) = lock(&self.held).get_mut(name) {
            believers.retain(|b| b.who != who || matches!(b.by, By::Guard(_)));
        }
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
            by: By::Guard(Arc::downgrade(guard)),
        });
        let now = self.clock.now();
        let sure: Vec<&Believer> = believers.iter().filter(|b| b.is_sure(now)).collect();
        let used: u64 = sure.iter().map(|b| b.weight).sum();
        if used > u64::from(capacity) {
            let names: Vec<&str> = sure.iter().map(|b| b.who.as_str()).collect();
            self.accuse(format!("{name} (capacity {capacity}) is held by {} at once", names.join(" and ")));
        }
        believers.retain(|b| !b.is_over(now));
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
