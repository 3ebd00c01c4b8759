//! Ledgers that stay open between operations.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bramah_core::{Name, Result};

use crate::{layout::Layout, ledger::Ledger};

/// How many ledgers stay open.
const CAPACITY: usize = 256;

/// The open ledgers of an engine, the least recently used go first.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    slots: Mutex<HashMap<Name, Arc<Slot>>>,
    clock: AtomicU64,
}

/// One open ledger. A flock belongs to the open description, which all threads share through this: the mutex keeps
/// them apart. Two slots of one name (one was taken off the shelf while in use) are kept apart by the flock.
#[derive(Debug)]
pub(crate) struct Slot {
    ledger: Mutex<Ledger>,
    used: AtomicU64,
}

impl Slot {
    /// Its ledger, for one thread at a time. Held for a few system calls that do not block.
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    /// The ledger of `name`; `None` if it is absent and not to be made.
    pub(crate) fn get(&self, layout: &Layout, name: &Name, make: bool) -> Result<Option<Arc<Slot>>> {
        let tick = self.clock.fetch_add(1, Ordering::Relaxed);
        if let Some(slot) = self.slots().get(name) {
            slot.used.store(tick, Ordering::Relaxed);
            return Ok(Some(Arc::clone(slot)));
        }
        let Some(ledger) = Ledger::open(&layout.ledger(name), make)? else { return Ok(None) };
        let mut slots = self.slots();
        if slots.len() >= CAPACITY {
            let mut ages: Vec<u64> = slots.values().map(|slot| slot.used.load(Ordering::Relaxed)).collect();
            let (_, middle, _) = ages.select_nth_unstable(CAPACITY / 2);
            let middle = *middle;
            slots.retain(|_, slot| slot.used.load(Ordering::Relaxed) >= middle);
        }
        // Another thread may have opened it meanwhile; all use the one that is on the shelf.
        let new = || Arc::new(Slot { ledger: Mutex::new(ledger), used: AtomicU64::new(tick) });
        Ok(Some(Arc::clone(slots.entry(name.clone()).or_insert_with(new))))
    }

    /// Takes a ledger off that is not the one its path leads to any more.
    pub(crate) fn discard(&self, name: &Name, slot: &Arc<Slot>) {
        let mut slots = self.slots();
        if slots.get(name).is_some_and(|found| Arc::ptr_eq(found, slot)) {
            slots.remove(name);
        }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<Name, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Scratch;

    #[test]
    fn the_shelf_keeps_what_is_used_and_no_more_than_its_capacity() {
        let dir = Scratch::new();
        let layout = Layout::open(&dir.0, true).unwrap();
        let shelf = Shelf::default();
        let hot = Name::new("hot").unwrap();
        assert!(shelf.get(&layout, &hot, false).unwrap().is_none());
        let first = shelf.get(&layout, &hot, true).unwrap().unwrap();
        for number in 0..1_000 {
            shelf.get(&layout, &Name::new(format!("n{number}")).unwrap(), true).unwrap().unwrap();
            assert!(Arc::ptr_eq(&shelf.get(&layout, &hot, true).unwrap().unwrap(), &first));
        }
        assert!(shelf.slots().len() <= CAPACITY);
        shelf.discard(&hot, &first);
        assert!(!Arc::ptr_eq(&shelf.get(&layout, &hot, true).unwrap().unwrap(), &first));
    }
}
