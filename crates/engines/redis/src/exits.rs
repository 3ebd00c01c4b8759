//! How many claims leave at once.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::net::within;

/// How many withdrawals are under way at once: enough to fill a connection. A process that lets go of a hundred thousand locks
/// at a time does not need the memory of as many requests.
const ABREAST: usize = 1024;

/// How long one waits for its turn at the most, whatever its patience: others may have theirs and be blocked.
const LONGEST: Duration = Duration::from_secs(10);

/// The limit on withdrawals that are under way.
#[derive(Debug)]
pub(crate) struct Exits(Semaphore);

impl Default for Exits {
    fn default() -> Self {
        Self(Semaphore::new(ABREAST))
    }
}

impl Exits {
    /// A turn, kept until it is dropped. None: it took too long, `longest` at the most, and the caller goes on without.
    pub(crate) async fn turn(&self, longest: Duration) -> Option<SemaphorePermit<'_>> {
        let longest = longest.min(LONGEST);
        match self.0.try_acquire() {
            Ok(turn) => Some(turn),
            Err(_) => Box::pin(within(longest, Box::pin(self.0.acquire()).as_mut())).await.ok()?.ok(),
        }
    }
}
