//! One claim.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use bramah_core::{Bell, Claim, Wake, Woken};
use tokio::sync::Notify;

use super::{dialect::Dialect, link::Link};

/// A claim that this process has, or is about to have.
pub(crate) struct Entry<D: Dialect> {
    pub(crate) claim: Arc<Claim>,
    pub(crate) key: D::Key,
    /// Whoever changes it keeps it for as long as the server takes.
    pub(crate) state: tokio::sync::Mutex<State<D>>,
    /// Told when a wait has come to its end.
    pub(crate) settled: Notify,
    bells: Mutex<Vec<Bell>>,
}

/// Where a claim stands, as far as is known here.
pub(crate) enum State<D: Dialect> {
    /// The server knows nothing of it.
    New,
    /// This connection may have it.
    Doubt(Arc<Link<D>>),
    /// This connection waits for it, or one that is being made will; nobody wants it any more if it is `leaving`.
    Waiting { link: Option<Arc<Link<D>>>, leaving: bool },
    /// This connection has it.
    Held(Arc<Link<D>>),
    /// It is over.
    Gone,
}

impl<D: Dialect> Entry<D> {
    pub(crate) fn new(claim: Arc<Claim>, key: D::Key) -> Self {
        let state = tokio::sync::Mutex::new(State::New);
        Self { claim, key, state, settled: Notify::new(), bells: Mutex::default() }
    }

    /// A wake for who waits.
    pub(crate) fn wake(&self) -> Wake {
        let (bell, wake) = Wake::pair();
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        bells.retain(|bell| !bell.is_deaf());
        bells.push(bell);
        wake
    }

    /// Tells who waits, and who waits for the end of the wait.
    pub(crate) fn tell(&self, woken: Woken) {
        let bells = std::mem::take(&mut *self.bells.lock().unwrap_or_else(PoisonError::into_inner));
        for bell in bells {
            bell.ring(woken);
        }
        self.settled.notify_waiters();
    }
}

impl<D: Dialect> State<D> {
    /// The connection that has it, may have it, or waits for it.
    pub(crate) fn link(&self) -> Option<&Arc<Link<D>>> {
        match self {
            Self::Doubt(link) | Self::Held(link) => Some(link),
            Self::Waiting { link, .. } => link.as_ref(),
            Self::New | Self::Gone => None,
        }
    }
}

impl<D: Dialect> fmt::Debug for Entry<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("claim", &self.claim.id).field("key", &self.key).finish_non_exhaustive()
    }
}
