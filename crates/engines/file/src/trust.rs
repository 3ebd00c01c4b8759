//! How long somebody who waits relies on being told.

use std::time::Duration;

/// Behind every wake stands a question, for the letter that its sender did not live to send. Who is next asks so
/// often, the others by their place. (A renewal finds it too, see there.)
const FRONT: Duration = Duration::from_secs(3);
const A_PLACE: Duration = Duration::from_secs(1);
const BEHIND: Duration = Duration::from_secs(30);

/// The same where nobody tells: who is next asks so often, and the others by their place, so that a long line costs
/// little and nobody sleeps over its turn.
const UNTOLD_FRONT: Duration = Duration::from_millis(25);
const UNTOLD_A_PLACE: Duration = Duration::from_millis(2);
const UNTOLD_BEHIND: Duration = Duration::from_secs(2);

/// What a waiter will be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trust {
    /// Whether the kernel tells of its turn, and of the ends that it has to know of.
    told: bool,
    /// By then it should ask anyhow.
    within: Duration,
}

impl Trust {
    /// Everything is told.
    pub(crate) const FULL: Self = Self { told: true, within: Duration::MAX };
    /// Nobody tells.
    pub(crate) const NONE: Self = Self { told: false, within: Duration::MAX };

    /// All but what happens in so long, by the clock alone.
    pub(crate) fn within(span: Duration) -> Self {
        Self { told: true, within: span }
    }

    /// As far as both go.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { told: self.told && other.told, within: self.within.min(other.within) }
    }

    /// How long to sleep with so many waiting ahead. Not all the same: those who ask at one time meet at the ledger.
    pub(crate) fn sleep(self, waiting_ahead: usize) -> Duration {
        let places = u32::try_from(waiting_ahead).unwrap_or(u32::MAX);
        let span = if self.told {
            FRONT.saturating_add(A_PLACE.saturating_mul(places)).min(BEHIND)
        } else {
            UNTOLD_A_PLACE.saturating_mul(places).clamp(UNTOLD_FRONT, UNTOLD_BEHIND)
        };
        span.mul_f64(0.8 + 0.4 * fastrand::f64()).min(self.within)
    }
}

impl From<bool> for Trust {
    fn from(told: bool) -> Self {
        if told { Self::FULL } else { Self::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_net_is_wide_where_the_kernel_tells_and_for_those_far_behind() {
        let about = |span: Duration| span.mul_f64(0.79)..span.mul_f64(1.21);
        for (trust, ahead, span) in [
            (Trust::FULL, 0, FRONT),
            (Trust::FULL, 1, FRONT + A_PLACE),
            (Trust::FULL, usize::MAX, BEHIND),
            (Trust::NONE, 0, UNTOLD_FRONT),
            (Trust::NONE, 5, UNTOLD_FRONT),
            (Trust::NONE, 200, Duration::from_millis(400)),
            (Trust::NONE, usize::MAX, UNTOLD_BEHIND),
        ] {
            assert!(about(span).contains(&trust.sleep(ahead)), "{trust:?} {ahead}");
        }
    }

    #[test]
    fn the_weakest_counts() {
        let soon = Trust::within(Duration::from_millis(3));
        assert_eq!(Trust::FULL.and(soon).sleep(0), Duration::from_millis(3));
        assert_eq!(Trust::FULL.and(Trust::from(false)), Trust::NONE);
        assert!(Trust::NONE.and(Trust::within(Duration::from_secs(9))).sleep(0) < UNTOLD_FRONT * 2);
        assert_eq!(Trust::from(true).and(Trust::FULL), Trust::FULL);
    }
}
