//! The claims of a session that are on their way out, by name.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
};

use tokio::sync::Notify;

use crate::Name;

/// Claims that the keeper withdraws: dropped guards, waits that timed out, holds that were lost. Whoever only tries a lock is not to
/// mistake one of them for somebody else's.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    /// How many names there are, so that who finds none takes no lock.
    names: AtomicUsize,
    claims: Mutex<HashMap<Name, usize>>,
    changed: Notify,
}

/// Whether a claim is listed as departing.
#[derive(Debug, Default)]
pub(crate) struct Departure(AtomicU8);

const STAYS: u8 = 0;
const LISTED: u8 = 1;
const LEFT: u8 = 2;

impl Departures {
    fn claims(&self) -> MutexGuard<'_, HashMap<Name, usize>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more claim of `name` is on its way out; once, and not if it has left already.
    pub(crate) fn begin(&self, name: &Name, departure: &Departure) {
        let mut claims = self.claims();
        if departure.0.compare_exchange(STAYS, LISTED, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return;
        }
        *claims.entry(name.clone()).or_default() += 1;
        self.names.store(claims.len(), Ordering::Release);
    }

    /// It has left, for good.
    pub(crate) fn end(&self, name: impl FnOnce() -> Name, departure: &Departure) {
        // It is listed under the lock, so whoever finds it listed finds its count.
        if departure.0.swap(LEFT, Ordering::AcqRel) != LISTED {
            return;
        }
        let (mut claims, name) = (self.claims(), name());
        if let Some(count) = claims.get_mut(&name) {
            *count -= 1;
            if *count == 0 {
                claims.remove(&name);
            }
        }
        self.names.store(claims.len(), Ordering::Release);
        drop(claims);
        self.changed.notify_waiters();
    }

    /// Whether a claim of `name` is on its way out.
    pub(crate) fn has(&self, name: &Name) -> bool {
        self.names.load(Ordering::Acquire) > 0 && self.claims().contains_key(name)
    }

    /// Waits until none is.
    ///
    /// # Cancel safety
    /// Nothing is lost when it is dropped.
    pub(crate) async fn done(&self, name: &Name) {
        loop {
            let told = self.changed.notified();
            tokio::pin!(told);
            // Registered before the check, so that a change in between is not missed.
            told.as_mut().enable();
            if !self.has(name) {
                return;
            }
            told.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_is_departing_until_its_last_claim_has_left() {
        let departures = Departures::default();
        let (name, other) = (Name::new("a").unwrap(), Name::new("b").unwrap());
        let (first, second) = (Departure::default(), Departure::default());
        assert!(!departures.has(&name));
        departures.begin(&name, &first);
        departures.begin(&name, &first);
        departures.begin(&name, &second);
        assert!(departures.has(&name) && !departures.has(&other));
        departures.end(|| name.clone(), &first);
        departures.end(|| name.clone(), &first);
        assert!(departures.has(&name));
        let last = async { departures.end(|| name.clone(), &second) };
        let ((), ()) = tokio::join!(departures.done(&name), last);
        assert!(!departures.has(&name) && departures.claims().is_empty());
    }

    #[test]
    fn a_claim_that_has_left_is_not_listed_afterwards() {
        let departures = Departures::default();
        let (name, gone) = (Name::new("a").unwrap(), Departure::default());
        departures.end(|| name.clone(), &gone);
        departures.begin(&name, &gone);
        assert!(!departures.has(&name));
    }
}
