//! Who in this process waits to be told.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bramah_core::{Alarm, Bell, ClaimId, SessionId, Wake, Woken};

/// Who listens: a claim that waits, or a survey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ear {
    Claim(ClaimId),
    Survey(u64),
}

/// A session of this process, to whom news of its claims is told.
#[derive(Debug)]
pub(crate) struct Recipient {
    pub(crate) session: SessionId,
    /// How core hears of a claim that nobody waits by.
    pub(crate) alarm: Alarm,
}

impl Recipient {
    /// Tells whoever waits by the claim. A question that reaches no waiter is for its holder: somebody may have broken
    /// its hold.
    pub(crate) fn tell(&self, seq: u64, woken: Woken, bells: &Bells) {
        let id = ClaimId { session: self.session, seq };
        if !bells.ring(Ear::Claim(id), woken) && woken == Woken::Ask {
            self.alarm.ring(id);
        }
    }
}

impl Recipient {
    /// Tells the holder of a claim that somebody asks it to let go.
    pub(crate) fn ask(&self, seq: u64) {
        self.alarm.ask(ClaimId { session: self.session, seq });
    }
}

/// The bells of all that wait in this process.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    hung: Mutex<Hung>,
    surveys: AtomicU64,
}

#[derive(Debug, Default)]
struct Hung {
    bells: HashMap<Ear, Bell>,
    /// How many there were after the last time that the deaf ones were taken down.
    kept: usize,
}

impl Bells {
    /// Hangs a bell for `ear` and gives the wake to it. One that hung there before is dropped, which says "ask".
    pub(crate) fn hang(&self, ear: Ear) -> Wake {
        let (bell, wake) = Wake::pair();
        let mut hung = self.hung();
        if hung.bells.len() > 64 + 2 * hung.kept {
            hung.bells.retain(|_, bell| !bell.is_deaf());
            hung.kept = hung.bells.len();
        }
        hung.bells.insert(ear, bell);
        wake
    }

    /// An ear for a survey.
    pub(crate) fn survey(&self) -> Ear {
        Ear::Survey(self.surveys.fetch_add(1, Ordering::Relaxed))
    }

    /// Rings once and takes the bell down. Whether anyone heard it.
    pub(crate) fn ring(&self, ear: Ear, woken: Woken) -> bool {
        let bell = self.hung().bells.remove(&ear);
        bell.is_some_and(|bell| bell.ring(woken))
    }

    /// Tells everyone to ask.
    pub(crate) fn ring_all(&self) {
        let bells = std::mem::take(&mut self.hung().bells);
        for bell in bells.into_values() {
            bell.ring(Woken::Ask);
        }
    }

    /// Whether anyone listens there.
    pub(crate) fn hears(&self, ear: Ear) -> bool {
        self.hung().bells.get(&ear).is_some_and(|bell| !bell.is_deaf())
    }

    fn hung(&self) -> MutexGuard<'_, Hung> {
        self.hung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_bell_rings_once_and_a_replaced_one_says_ask() {
        let bells = Bells::default();
        let ear = bells.survey();
        let (first, second) = (bells.hang(ear), bells.hang(ear));
        assert_eq!(first.await, Woken::Ask);
        assert!(bells.ring(ear, Woken::Held(None)));
        assert!(!bells.ring(ear, Woken::Ask));
        assert_eq!(second.await, Woken::Held(None));
    }

    #[test]
    fn bells_that_nobody_hears_are_taken_down() {
        let bells = Bells::default();
        for _ in 0..10_000 {
            drop(bells.hang(bells.survey()));
        }
        assert!(bells.hung().bells.len() < 200);
    }
}
