//! Which locks are thought to have a line.

use std::{
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    sync::atomic::{AtomicU64, Ordering},
};

/// How many are remembered. Two locks may share a place: then the later one has it.
const PLACES: usize = 256;

/// Keys that were found with others waiting there. Who releases one of them has the script look for a line first. A wrong
/// hint costs the server a look and changes nothing.
#[derive(Debug)]
pub(crate) struct Hints(Box<[AtomicU64]>);

impl Default for Hints {
    fn default() -> Self {
        Self((0..PLACES).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Hints {
    /// The place of a key, and what stands there if it is remembered. Never 0.
    fn place(&self, key: &str) -> (Option<&AtomicU64>, u64) {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key) | 1;
        // The low bit is always set.
        let place = usize::try_from(hash >> 1).map_or(0, |number| number % PLACES);
        (self.0.get(place), hash)
    }

    /// Somebody waits there.
    pub(crate) fn note(&self, key: &str) {
        if let (Some(place), hash) = self.place(key) {
            place.store(hash, Ordering::Relaxed);
        }
    }

    /// Nobody does.
    pub(crate) fn clear(&self, key: &str) {
        if let (Some(place), hash) = self.place(key)
            && place.load(Ordering::Relaxed) == hash
        {
            place.store(0, Ordering::Relaxed);
        }
    }

    /// Whether somebody is thought to wait there.
    pub(crate) fn has(&self, key: &str) -> bool {
        matches!(self.place(key), (Some(place), hash) if place.load(Ordering::Relaxed) == hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_known_until_it_is_cleared() {
        let hints = Hints::default();
        assert!(!hints.has("a"));
        hints.note("a");
        assert!(hints.has("a") && !hints.has("b"));
        hints.clear("b");
        assert!(hints.has("a"));
        hints.clear("a");
        assert!(!hints.has("a"));
    }

    #[test]
    fn any_number_of_keys_can_be_noted() {
        let hints = Hints::default();
        let keys: Vec<String> = (0..10 * PLACES).map(|number| format!("bramah:{{{number}}}")).collect();
        for key in &keys {
            hints.note(key);
            assert!(hints.has(key));
        }
        assert!(keys.iter().filter(|key| hints.has(key)).count() > PLACES / 2);
    }
}
