//! Which members did not answer the last time.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Members that need not be waited for: they were asked, and did not answer in time or said that they cannot. They are asked
/// all the same, and whoever answers in time counts as any other. A hint, and nothing hangs on it but time.
#[derive(Clone)]
pub(super) struct Silence(Arc<[AtomicBool]>);

impl Silence {
    pub(super) fn of(members: usize) -> Self {
        Self((0..members).map(|_| AtomicBool::new(false)).collect())
    }

    pub(super) fn is(&self, at: usize) -> bool {
        self.0.get(at).is_some_and(|silent| silent.load(Ordering::Relaxed))
    }

    pub(super) fn set(&self, at: usize, silent: bool) {
        if let Some(known) = self.0.get(at) {
            known.store(silent, Ordering::Relaxed);
        }
    }
}
