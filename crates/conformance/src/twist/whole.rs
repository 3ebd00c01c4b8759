//! Calls that notice when they are not finished.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bramah_core::{Claim, Engine, Exit, Reply, Standing};

use super::Twist;

/// Counts claims and withdrawals that were dropped before their answer: what is on its way must be finished, or the
/// withdrawal behind it may overtake it.
#[derive(Debug, Default)]
pub struct Whole(Arc<AtomicUsize>);

/// Counts unless it is told that all went well.
struct Thread(Option<Arc<AtomicUsize>>);

impl Thread {
    /// All went well.
    fn hold(mut self) {
        self.0 = None;
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if let Some(torn) = &self.0 {
            torn.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl Whole {
    /// How many calls were dropped half-way.
    pub fn torn(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    fn whole<T: Send + 'static>(&self, call: impl FnOnce() -> Reply<T> + Send + 'static) -> Reply<T> {
        let thread = Thread(Some(self.0.clone()));
        Reply::later(async move {
            for _ in 0..2 {
                tokio::task::yield_now().await;
            }
            let answer = call().await;
            for _ in 0..2 {
                tokio::task::yield_now().await;
            }
            thread.hold();
            answer
        })
    }
}

impl Twist for Whole {
    fn claim(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>) -> Reply<Standing> {
        let inner = inner.clone();
        self.whole(move || inner.claim(claim))
    }

    fn withdraw(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        let inner = inner.clone();
        self.whole(move || inner.withdraw(claim, exit))
    }
}
