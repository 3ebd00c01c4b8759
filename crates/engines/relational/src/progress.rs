//! Whether a database still answers those who are served before us.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bramah_core::{Clock, Moment};
use tokio::time::timeout;

/// When the last answer came. A caller that queues for a connection gives up when the database has answered nobody for as long as the
/// caller's own timeout: a queue that moves is a busy database, one that does not is a silent one.
#[derive(Debug)]
pub(crate) struct Progress {
    clock: Clock,
    answered_ns: AtomicU64,
}

impl Default for Progress {
    fn default() -> Self {
        let clock = Clock::boot();
        Self { answered_ns: AtomicU64::new(clock.now().ns()), clock }
    }
}

impl Progress {
    /// An answer has come, whatever it says.
    pub(crate) fn answered(&self) {
        self.answered_ns.fetch_max(self.clock.now().ns(), Ordering::Relaxed);
    }

    /// Waits for `turn` while others are answered. `None` when nobody was for `limit`.
    pub(crate) async fn wait<T>(&self, limit: Duration, turn: impl Future<Output = T>) -> Option<T> {
        let began = self.clock.now();
        let mut turn = std::pin::pin!(turn);
        loop {
            let answered = Moment::from_ns(self.answered_ns.load(Ordering::Relaxed)).max(began);
            let left = (answered + limit).since(self.clock.now());
            match timeout(left, turn.as_mut()).await {
                Ok(done) => return Some(done),
                Err(_) if left.is_zero() => return None,
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::Arc};

    use tokio::sync::oneshot;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(100);

    #[tokio::test]
    async fn a_caller_waits_while_others_are_answered() {
        let progress = Arc::new(Progress::default());
        let (serve, turn) = oneshot::channel();
        let waiting = tokio::spawn({
            let progress = progress.clone();
            async move { progress.wait(LIMIT, turn).await.is_some() }
        });
        let clock = Clock::boot();
        let until = clock.now() + LIMIT * 5;
        while clock.now() < until {
            progress.answered();
            tokio::task::yield_now().await;
        }
        assert!(!waiting.is_finished(), "it gave up although others were answered");
        serve.send(()).unwrap();
        assert!(waiting.await.unwrap());
    }

    #[tokio::test]
    async fn a_caller_gives_up_when_nobody_is_answered() {
        assert!(Progress::default().wait(LIMIT, pending::<()>()).await.is_none());
    }
}
