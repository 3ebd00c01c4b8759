//! What happens to holds at a set time.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Arc, Weak},
};

use crate::{Moment, core::Core, seat::Seat};

/// What happens to a hold whose time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// It is declared lost.
    Lose,
    /// It is withdrawn: the margin for drift has passed too.
    Leave,
}

/// The timers of holds. One whose hold is over is dropped before its time, at the latest when as many are in force: so they take
/// no more memory than twice as many holds do, however long their leases are.
#[derive(Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<Timer>>,
    made: u64,
    purge_at: usize,
}

/// Fewer than these are not looked through.
const FEW: usize = 64;

struct Timer {
    at: Moment,
    number: u64,
    seat: Weak<Seat>,
    core: Weak<Core>,
    what: Due,
}

impl Timers {
    pub(super) fn push(&mut self, at: Moment, seat: Weak<Seat>, core: Weak<Core>, what: Due) {
        if self.heap.len() >= self.purge_at.max(FEW) {
            self.heap.retain(|Reverse(timer)| timer.seat.strong_count() > 0);
            self.purge_at = self.heap.len() * 2;
        }
        self.made += 1;
        self.heap.push(Reverse(Timer { at, number: self.made, seat, core, what }));
    }

    /// When the next is due.
    pub(super) fn next(&self) -> Moment {
        self.heap.peek().map_or(Moment::NEVER, |Reverse(timer)| timer.at)
    }

    /// The next that is due by `now` and whose hold is there.
    pub(super) fn due(&mut self, now: Moment) -> Option<(Arc<Seat>, Arc<Core>, Due)> {
        while self.next() <= now {
            let Reverse(timer) = self.heap.pop()?;
            if let (Some(seat), Some(core)) = (timer.seat.upgrade(), timer.core.upgrade()) {
                return Some((seat, core, timer.what));
            }
        }
        None
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_of_holds_that_are_over_are_dropped_before_their_time() {
        let mut timers = Timers::default();
        let kept: Vec<Arc<Seat>> = (0..100).map(|_| Arc::new(Seat::for_tests(None))).collect();
        for seat in &kept {
            timers.push(Moment::from_ns(1), Arc::downgrade(seat), Weak::new(), Due::Leave);
        }
        for n in 0..100_000 {
            let seat = Arc::new(Seat::for_tests(None));
            timers.push(Moment::from_ns(10 + n), Arc::downgrade(&seat), Weak::new(), Due::Lose);
            assert!(timers.heap.len() <= 2 * kept.len() + FEW, "{} timers", timers.heap.len());
        }
        let in_force = timers.heap.iter().filter(|Reverse(timer)| timer.seat.strong_count() > 0).count();
        assert_eq!(in_force, kept.len(), "a timer in force was dropped");
    }
}
