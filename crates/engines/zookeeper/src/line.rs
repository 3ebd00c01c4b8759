//! Who holds and who waits, from the nodes of a line alone.

use bramah_core::Claim;

use crate::names::{Kid, Mark};

/// Which of Curator's recipes a lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `InterProcessMutex`: the claims are children of the lock's folder.
    Mutex,
    /// `LeaderLatch`: the same with another mark, so that neither sees the other.
    Latch,
    /// `InterProcessReadWriteLock`: the same with two marks.
    ReadWrite,
    /// `InterProcessSemaphoreV2`: who waits stands in `locks`, who holds has a node for each permit in `leases`.
    Permits,
}

impl Form {
    /// The form of a lock, where `mutex` is that of one with capacity 1.
    pub(crate) fn of(capacity: u32, mutex: Self) -> Self {
        match capacity {
            1 => mutex,
            bramah_core::line::WHOLE => Self::ReadWrite,
            _ => Self::Permits,
        }
    }

    /// The mark of the node that a claim enters with.
    pub(crate) fn mark(self, claim: &Claim) -> Mark {
        match self {
            Self::ReadWrite if claim.is_exclusive() => Mark::Write,
            Self::ReadWrite => Mark::Read,
            Self::Mutex | Self::Permits => Mark::Lock,
            Self::Latch => Mark::Latch,
        }
    }

    /// Whether a node with this mark stands in such a line.
    pub(crate) fn has(self, mark: Mark) -> bool {
        match self {
            Self::ReadWrite => matches!(mark, Mark::Read | Mark::Write),
            Self::Mutex | Self::Permits => mark == Mark::Lock,
            Self::Latch => mark == Mark::Latch,
        }
    }
}

/// Where a claim stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nobody ahead is in its way.
    First,
    /// So many stand ahead, and this one of them is the last in its way.
    Behind { ahead: usize, last: usize },
}

/// Judges the claim at `index`: one that reads waits for those who write, and every other for everybody.
pub(crate) fn judge(kids: &[Kid], index: usize) -> Verdict {
    let reads = kids.get(index).is_some_and(|kid| kid.mark == Mark::Read);
    let ahead = kids.get(..index).unwrap_or_default();
    match ahead.iter().rposition(|kid| !reads || kid.mark == Mark::Write) {
        Some(last) => Verdict::Behind { ahead: index, last },
        None => Verdict::First,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::kids;

    fn line(marks: &[(Mark, u32)]) -> Vec<String> {
        marks.iter().map(|(mark, number)| format!("x-{}{number:010}", mark.word())).collect()
    }

    #[test]
    fn a_mutex_has_one_holder_and_each_waits_for_the_one_before_it() {
        let line = line(&[(Mark::Lock, 7), (Mark::Lock, 3), (Mark::Lock, 12)]);
        let kids = kids(&line, |_| true);
        assert_eq!(judge(&kids, 0), Verdict::First);
        assert_eq!(judge(&kids, 1), Verdict::Behind { ahead: 1, last: 0 });
        assert_eq!(judge(&kids, 2), Verdict::Behind { ahead: 2, last: 1 });
    }

    #[test]
    fn readers_hold_together_and_a_waiting_writer_holds_back_later_ones() {
        let line =
            line(&[(Mark::Read, 1), (Mark::Read, 2), (Mark::Write, 3), (Mark::Read, 4), (Mark::Write, 5)]);
        let kids = kids(&line, |_| true);
        assert_eq!(judge(&kids, 1), Verdict::First);
        assert_eq!(judge(&kids, 2), Verdict::Behind { ahead: 2, last: 1 });
        assert_eq!(judge(&kids, 3), Verdict::Behind { ahead: 3, last: 2 });
        assert_eq!(judge(&kids, 4), Verdict::Behind { ahead: 4, last: 3 });
    }
}
