//! The claims of a session that are on their way out, by name.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
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

impl Departures {
    fn claims(&self) -> MutexGuard<'_, HashMap<Name, usize>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more claim of `name` is on its way out.
    pub(crate) fn begin(&self, name: &Name) {
        let mut claims = self.claims();
        *claims.entry(name.clone()).or_default() += 1;
        self.names.store(claims.len(), Ordering::Release);
    }

    /// It has left.
    pub(crate) fn end(&self, name: &Name) {
        let mut claims = self.claims();
        if let Some(count) = claims.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                claims.remove(name);
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
            // Registered before it is looked: a change in between is not missed.
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
        assert!(!departures.has(&name));
        departures.begin(&name);
        departures.begin(&name);
        assert!(departures.has(&name) && !departures.has(&other));
        departures.end(&name);
        assert!(departures.has(&name));
        let (_, ()) = tokio::join!(departures.done(&name), async { departures.end(&name) });
        assert!(!departures.has(&name) && departures.claims().is_empty());
    }
}
