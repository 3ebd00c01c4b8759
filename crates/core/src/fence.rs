//! The number a resource can check.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

/// A fencing token: of two exclusive grants of one name the later has the larger one.
///
/// Hand it to the resource with every write and let the resource refuse a smaller one than it has seen: then a
/// holder that was paused past its lease cannot do harm. It fits 53 bits on every engine, so JSON carries it whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// A fence with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The fence to mint after `last` at this wall time: the hybrid clock `max(last + 1, now)`.
    ///
    /// A bare counter goes backwards when its store forgets it. This one survives that as long as the clock is not
    /// behind by more than the outage, and needs nothing to be synced to disk.
    #[must_use]
    pub fn after(last: Option<Fence>, wall_us: u64) -> Self {
        Self(last.map_or(0, |last| last.0.saturating_add(1)).max(wall_us))
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fence({})", self.0)
    }
}

/// The last fence of one store in this process: [`Fence::after`] without a lock.
#[derive(Debug, Default)]
pub(crate) struct Mint(AtomicU64);

impl Mint {
    pub(crate) fn next(&self, wall_us: u64) -> Fence {
        let step = |last: u64| Some(Fence::after(Some(Fence(last)), wall_us).0);
        let last = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        Fence::after(Some(Fence(last.unwrap_or_else(|last| last))), wall_us)
    }

    pub(crate) fn raise(&self, floor: Fence) {
        self.0.fetch_max(floor.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_rise_when_the_clock_stands_still_goes_back_or_jumps_ahead() {
        let mint = Mint::default();
        let seen: Vec<u64> = [100, 100, 40, 500, 499, 501].iter().map(|&now| mint.next(now).get()).collect();
        assert_eq!(seen, [100, 101, 102, 500, 501, 502]);
        mint.raise(Fence::new(9_000));
        assert_eq!(mint.next(1).get(), 9_001);
    }
}
