//! Waiting for a ledger that another process has locked.

use std::{sync::Arc, time::Duration};

use bramah_core::{Error, ErrorKind, Name, Reply, Result};

use crate::store::Store;

/// One try at a ledger.
#[derive(Debug)]
pub(crate) enum Turn<T> {
    /// It was our turn.
    Done(T),
    /// Another has it. Nothing was done.
    Busy,
}

/// A ledger is locked for microseconds. One that stays locked for this long is of a process that was stopped in the
/// middle of an operation.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
const SHORTEST: Duration = Duration::from_micros(200);
const LONGEST: Duration = Duration::from_millis(20);

/// Sleeps that get longer.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    pub(crate) fn new() -> Self {
        Self(SHORTEST)
    }

    /// Sleeps a little longer than the last time, never twice the same, so that two do not keep meeting.
    pub(crate) async fn sleep(&mut self, store: &Store) {
        let clock = store.boot.clock();
        clock.sleep_until(clock.now() + self.0.mul_f64(0.5 + fastrand::f64())).await;
        self.0 = (self.0 * 2).min(LONGEST);
    }
}

/// Tries at once, so that the answer is usually there without a runtime; else keeps trying in a future.
pub(crate) fn attempt<T: Send + 'static>(
    store: &Arc<Store>,
    name: &Name,
    mut once: impl FnMut(&Store) -> Result<Turn<T>> + Send + 'static,
) -> Reply<T> {
    match once(store) {
        Ok(Turn::Done(answer)) => Reply::now(Ok(answer)),
        Err(error) => Reply::now(Err(error)),
        Ok(Turn::Busy) => {
            let (store, name) = (Arc::clone(store), name.clone());
            Reply::later(async move {
                let deadline = store.boot.clock().now() + PATIENCE;
                let mut backoff = Backoff::new();
                loop {
                    backoff.sleep(&store).await;
                    if let Turn::Done(answer) = once(&store)? {
                        return Ok(answer);
                    }
                    if store.boot.clock().now() >= deadline {
                        return Err(stuck(&store, &name));
                    }
                }
            })
        }
    }
}

fn stuck(store: &Store, name: &Name) -> Error {
    let path = store.layout.ledger(name);
    let why = "another process keeps it locked and seems stopped; let that one go on, or end it";
    Error::new(ErrorKind::Unavailable, format!("cannot use the ledger {}: {why}", path.display()))
}
