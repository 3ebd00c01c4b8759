//! What a ledger says: the line of one lock, and what happens in it. No files here.

use std::{sync::Arc, time::Duration};

use bramah_core::{Claim, ClaimId, Fence, Name, Result, Woken, line::Line};

/// The content of a ledger.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) name: Name,
    pub(crate) line: Line<Entry>,
    /// The largest fence this lock has seen.
    pub(crate) last: Option<Fence>,
    pub(crate) scar: Option<Scar>,
}

/// One claim in line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: ClaimId,
    /// Which life of its session it belongs to: a session that was lost and opened anew does not revive it.
    pub(crate) incarnation: u64,
    pub(crate) weight: u32,
    /// When it entered and was granted, on the boot clock.
    pub(crate) entered_ns: u64,
    pub(crate) granted_ns: u64,
    pub(crate) fence: Option<Fence>,
    pub(crate) ttl: Duration,
    pub(crate) lease: Option<Duration>,
    pub(crate) note: Arc<str>,
}

/// The last hold that was ended by force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scar {
    pub(crate) id: ClaimId,
    pub(crate) by: Arc<str>,
    pub(crate) reason: Arc<str>,
    pub(crate) at_ns: u64,
    /// The boot that `at_ns` counts from.
    pub(crate) boot: u64,
}

/// The time of one operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) now_ns: u64,
    pub(crate) wall_us: u64,
}

/// Something a waiter should hear of once the ledger is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) id: ClaimId,
    pub(crate) incarnation: u64,
    pub(crate) woken: Woken,
}

impl State {
    /// The ledger of a lock that nobody has used yet.
    pub(crate) fn new(name: Name, capacity: u32) -> Self {
        Self { name, line: Line::new(capacity), last: None, scar: None }
    }

    /// Where a claim stands.
    pub(crate) fn find(&self, id: ClaimId) -> Option<usize> {
        self.line.find(|entry| entry.id == id)
    }

    /// The first that waits.
    pub(crate) fn front(&self) -> Option<ClaimId> {
        self.line.get(self.line.held()).map(|entry| entry.id)
    }

    /// The fence for an exclusive grant.
    pub(crate) fn mint(&mut self, wall_us: u64) -> Fence {
        let fence = Fence::after(self.last, wall_us);
        self.last = Some(fence);
        fence
    }

    /// Raises the mark to at least `floor`.
    pub(crate) fn raise(&mut self, floor: Fence) {
        self.last = self.last.max(Some(floor));
    }

    /// Enters a claim at the end of the line. Its fence, if it is held at once: `Some(None)` for one without.
    pub(crate) fn enter(&mut self, claim: &Claim, incarnation: u64, stamp: Stamp) -> Option<Option<Fence>> {
        let held = self.line.would_hold(claim.weight);
        let fence = (held && claim.is_exclusive()).then(|| self.mint(stamp.wall_us));
        let entry = Entry {
            id: claim.id,
            incarnation,
            weight: claim.weight,
            entered_ns: stamp.now_ns,
            granted_ns: if held { stamp.now_ns } else { 0 },
            fence,
            ttl: claim.ttl,
            lease: claim.lease,
            note: claim.note.clone(),
        };
        self.line.enter(claim.weight, entry);
        held.then_some(fence)
    }

    /// Takes out every holder that is not `alive`. Whether there was one.
    pub(crate) fn drop_dead_holders(
        &mut self,
        alive: &mut impl FnMut(&Entry) -> Result<bool>,
    ) -> Result<bool> {
        let before = self.line.len();
        let mut at = 0;
        while at < self.line.held() {
            match self.line.get(at) {
                Some(entry) if !alive(entry)? => drop(self.line.remove(at)),
                _ => at += 1,
            }
        }
        Ok(self.line.len() < before)
    }

    /// Takes out everyone who is not `alive`. Whether there was one.
    pub(crate) fn drop_dead(&mut self, alive: &mut impl FnMut(&Entry) -> Result<bool>) -> Result<bool> {
        let mut dropped = self.drop_dead_holders(alive)?;
        let mut at = self.line.held();
        while let Some(entry) = self.line.get(at) {
            if alive(entry)? {
                at += 1;
            } else {
                self.line.remove(at);
                dropped = true;
            }
        }
        Ok(dropped)
    }

    /// Takes out those who wait directly ahead of `at` and are not `alive`, up to the first that is. Whether there was
    /// one.
    pub(crate) fn drop_dead_ahead(
        &mut self,
        mut at: usize,
        alive: &mut impl FnMut(&Entry) -> Result<bool>,
    ) -> Result<bool> {
        let before = self.line.len();
        while at > self.line.held() {
            match self.line.get(at - 1) {
                Some(entry) if !alive(entry)? => drop(self.line.remove(at - 1)),
                _ => break,
            }
            at -= 1;
        }
        Ok(self.line.len() < before)
    }

    /// Takes a claim out of the line. Who waited behind it has another one ahead now, and is told to listen for its
    /// end; who is first is told when the line [advances](Self::advance).
    pub(crate) fn take_out(&mut self, at: usize, notices: &mut Vec<Notice>) -> Option<Entry> {
        let ahead = at.checked_sub(1).filter(|ahead| *ahead >= self.line.held());
        let removed = self.line.remove(at)?;
        if let (Some(ahead), Some(behind)) = (ahead.and_then(|ahead| self.line.get(ahead)), self.line.get(at))
            && (ahead.id.session, ahead.incarnation) != (behind.id.session, behind.incarnation)
        {
            let (id, incarnation) = (behind.id, behind.incarnation);
            notices.push(Notice { id, incarnation, woken: Woken::Ask });
        }
        Some(removed)
    }

    /// After a departure: grants whoever fits now, passes over the dead, and tells a new front waiter to look after
    /// the new holders. `front` is who was the first to wait before.
    pub(crate) fn advance(
        &mut self,
        front: Option<ClaimId>,
        stamp: Stamp,
        alive: &mut impl FnMut(&Entry) -> Result<bool>,
        notices: &mut Vec<Notice>,
    ) -> Result<()> {
        while let Some(next) = self.line.get(self.line.held()) {
            let fits = self.line.next_fitting().is_some();
            if !fits && Some(next.id) == front {
                return Ok(());
            }
            if !alive(next)? {
                self.line.remove(self.line.held());
                continue;
            }
            if !fits {
                notices.push(Notice { id: next.id, incarnation: next.incarnation, woken: Woken::Ask });
                return Ok(());
            }
            let fence = (next.weight == self.line.capacity()).then(|| Fence::after(self.last, stamp.wall_us));
            self.last = fence.or(self.last);
            if let Some(entry) = self.line.grant_next() {
                entry.fence = fence;
                entry.granted_ns = stamp.now_ns;
                notices.push(Notice {
                    id: entry.id,
                    incarnation: entry.incarnation,
                    woken: Woken::Held(fence),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bramah_core::SessionId;

    use super::*;
    use crate::samples::claim;

    const STAMP: Stamp = Stamp { now_ns: 5, wall_us: 1_000 };

    fn entered(capacity: u32, weights: &[u32]) -> State {
        let mut state = State::new(Name::new("a").unwrap(), capacity);
        for (seq, weight) in (0u64..).zip(weights) {
            state.enter(&claim("a", seq, capacity, *weight), seq, STAMP);
        }
        state
    }

    fn leave(state: &mut State, at: usize, dead: &[u64]) -> Vec<(u64, Woken)> {
        let (front, mut notices) = (state.front(), Vec::new());
        state.line.remove(at);
        state.advance(front, STAMP, &mut |entry| Ok(!dead.contains(&entry.id.seq)), &mut notices).unwrap();
        notices.into_iter().map(|notice| (notice.id.seq, notice.woken)).collect()
    }

    #[test]
    fn a_departure_grants_the_next_and_asks_the_one_after() {
        let mut state = entered(1, &[1, 1, 1]);
        let told = leave(&mut state, 0, &[]);
        assert_eq!(told, [(1, Woken::Held(Some(Fence::new(1_001)))), (2, Woken::Ask)]);
        assert_eq!(leave(&mut state, 1, &[]), []);
    }

    #[test]
    fn a_waiter_that_died_is_passed_over() {
        let mut state = entered(1, &[1, 1, 1, 1, 1]);
        let told = leave(&mut state, 0, &[1, 3]);
        assert_eq!(told, [(2, Woken::Held(Some(Fence::new(1_001)))), (4, Woken::Ask)]);
        assert_eq!(state.line.len(), 2);
    }

    #[test]
    fn who_waits_behind_a_departure_from_the_middle_is_told_if_another_session_is_ahead_of_it_now() {
        let mut state = State::new(Name::new("a").unwrap(), 1);
        for seq in 0..4 {
            state.enter(&claim("a", seq, 1, 1), 1, STAMP);
        }
        let mut notices = Vec::new();
        state.take_out(2, &mut notices);
        assert_eq!(notices, [], "the ones ahead and behind are of one session");
        let mut other = claim("a", 9, 1, 1);
        other.id.session = SessionId::from_bits(2);
        state.enter(&other, 1, STAMP);
        state.take_out(2, &mut notices);
        let told: Vec<_> = notices.drain(..).map(|notice| (notice.id, notice.woken)).collect();
        assert_eq!(told, [(other.id, Woken::Ask)]);
        state.take_out(1, &mut notices);
        assert_eq!(notices, [], "the first one hears when the line advances");
        state.take_out(1, &mut notices);
        assert_eq!((notices.len(), state.line.len()), (0, 1), "nobody is behind the last");
        state.take_out(0, &mut notices);
        assert_eq!((notices.len(), state.line.len()), (0, 0), "nor ahead of the holder");
    }

    #[test]
    fn the_dead_directly_ahead_are_dropped_up_to_the_first_that_lives() {
        let mut state = entered(1, &[1; 7]);
        let mut alive = |entry: &Entry| Ok(![1, 4, 5].contains(&entry.id.seq));
        assert!(state.drop_dead_ahead(6, &mut alive).unwrap());
        let left: Vec<_> = state.line.iter().map(|entry| entry.id.seq).collect();
        assert_eq!(left, [0, 1, 2, 3, 6]);
        assert!(!state.drop_dead_ahead(4, &mut alive).unwrap());
        assert!(state.drop_dead_ahead(2, &mut alive).unwrap());
        assert!(!state.drop_dead_ahead(1, &mut |_| Ok(false)).unwrap(), "holders are not its business");
        assert_eq!(state.line.len(), 4);
    }

    #[test]
    fn a_dead_writer_at_the_front_lets_the_readers_behind_it_in() {
        let mut state = entered(9, &[1, 1, 9, 1, 1]);
        let told = leave(&mut state, 0, &[]);
        assert_eq!(told, [], "the writer still waits for the second reader");
        state.line.remove(1);
        let mut notices = Vec::new();
        state.advance(None, STAMP, &mut |_| Ok(true), &mut notices).unwrap();
        assert!(notices.iter().all(|notice| notice.woken == Woken::Held(None)), "{notices:?}");
        assert_eq!(state.line.held(), 3);
    }

    #[test]
    fn dead_holders_and_waiters_are_dropped() {
        let mut state = entered(2, &[1, 1, 1, 1]);
        let mut alive = |entry: &Entry| Ok(entry.id.seq % 2 == 1);
        assert!(state.drop_dead_holders(&mut alive).unwrap());
        assert_eq!(state.line.len(), 3);
        assert!(state.drop_dead(&mut alive).unwrap());
        assert!(!state.drop_dead(&mut alive).unwrap());
        assert_eq!(state.find(ClaimId { session: SessionId::from_bits(1), seq: 3 }), Some(1));
    }
}
