//! How a crowd comes to stand in line, and who of this process is in one.
//!
//! To enter a long line has etcd look at all of it, one entry after the other. A thousand that enter at once would wait for each other
//! there until nobody waits for their answers any more, and ask again: so they wait here.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
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

/// The turnstiles of lines that claims of this process enter, or stand in.
#[derive(Debug, Default)]
pub(crate) struct Turnstiles(Mutex<HashMap<Name, Weak<Turnstile>>>);

#[derive(Debug)]
pub(crate) struct Turnstile {
    places: Semaphore,
    inside: AtomicUsize,
}

/// One claim of this process in a line, for as long as this is kept.
#[derive(Debug)]
pub(crate) struct Inside(Arc<Turnstile>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::Relaxed);
    }
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
        let (places, inside) = (Semaphore::new(ABREAST), AtomicUsize::new(0));
        let turnstile = Arc::new(Turnstile { places, inside });
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

    /// A claim has entered.
    pub(crate) fn admit(self: Arc<Self>) -> Inside {
        self.inside.fetch_add(1, Ordering::Relaxed);
        Inside(self)
    }

    /// Whether a claim of this process is in the line: then it need not be asked whether it is free.
    pub(crate) fn is_busy(&self) -> bool {
        self.inside.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_one_turnstile_while_somebody_enters_it_or_stands_in_it() {
        let (turnstiles, name) = (Turnstiles::default(), Name::new("x").unwrap());
        let (first, second) = (turnstiles.of(&name).admit(), turnstiles.of(&name).admit());
        assert!(turnstiles.of(&name).is_busy());
        assert!(!turnstiles.of(&Name::new("y").unwrap()).is_busy());
        drop(first);
        assert!(turnstiles.of(&name).is_busy(), "one is inside still");
        drop(second);
        assert!(!turnstiles.of(&name).is_busy());
        for n in 0..1000 {
            turnstiles.of(&Name::new(format!("{n}")).unwrap());
        }
        assert!(turnstiles.0.lock().unwrap().len() < 100, "those that nobody uses go");
    }
}
