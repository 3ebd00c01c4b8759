//! How a crowd comes to stand in line.
//!
//! To enter a long line has etcd look at all of it, one entry after the other. A thousand that enter at once would wait for each other
//! there until nobody waits for their answers any more, and ask again: so they wait here.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah_core::Name;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{error::Elapsed, timeout},
};

/// How many claims of a process enter one line at a time.
const ABREAST: usize = 8;

/// The turnstiles of lines that are being entered.
#[derive(Debug, Default)]
pub(crate) struct Turnstiles(Mutex<HashMap<Name, Weak<Turnstile>>>);

#[derive(Debug)]
pub(crate) struct Turnstile {
    places: Semaphore,
    is_long: AtomicBool,
}

impl Turnstiles {
    pub(crate) fn of(&self, name: &Name) -> Arc<Turnstile> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turnstile) = known.get(name).and_then(Weak::upgrade) {
            return turnstile;
        }
        if known.len() >= known.capacity() {
            known.retain(|_, turnstile| turnstile.strong_count() > 0);
        }
        let turnstile = Turnstile { places: Semaphore::new(ABREAST), is_long: AtomicBool::new(false) };
        let turnstile = Arc::new(turnstile);
        known.insert(name.clone(), Arc::downgrade(&turnstile));
        turnstile
    }
}

impl Turnstile {
    /// Waits until there is a place to enter by, which is had until the answer is dropped.
    pub(crate) async fn pass(&self, wait: Duration) -> Result<Option<SemaphorePermit<'_>>, Elapsed> {
        if let Ok(place) = self.places.try_acquire() {
            return Ok(Some(place));
        }
        Ok(timeout(wait, self.places.acquire()).await?.ok())
    }

    /// Whether the line was long when it was last entered: then it need not be asked whether it is free.
    pub(crate) fn is_long(&self) -> bool {
        self.is_long.load(Ordering::Relaxed)
    }

    pub(crate) fn set_long(&self, is_long: bool) {
        self.is_long.store(is_long, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_one_turnstile_while_it_is_entered() {
        let (turnstiles, name) = (Turnstiles::default(), Name::new("x").unwrap());
        let first = turnstiles.of(&name);
        first.set_long(true);
        assert!(turnstiles.of(&name).is_long());
        assert!(!turnstiles.of(&Name::new("y").unwrap()).is_long());
        drop(first);
        assert!(!turnstiles.of(&name).is_long(), "nothing is known of a line that nobody enters");
        for n in 0..1000 {
            turnstiles.of(&Name::new(format!("{n}")).unwrap());
        }
        assert!(turnstiles.0.lock().unwrap().len() < 100, "those of lines that nobody enters go");
    }
}
