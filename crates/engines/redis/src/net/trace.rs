//! What a request has met on its way, for when its patience ends.

use std::{sync::Arc, time::Duration};

use bramah_core::{Error, ErrorKind, Moment};

use super::wire::Wire;

/// What a request has met so far.
#[derive(Default)]
pub(super) struct Trace {
    /// The last reason to try again.
    pub(super) last: Option<Error>,
    /// Where an answer is awaited.
    pub(super) awaited: Option<Awaited>,
    /// The connection that the last answer came over; 0 before there was one.
    pub(super) answered: u64,
    /// The server does not know the script.
    pub(super) load: bool,
}

/// An answer that has not come yet.
pub(super) struct Awaited {
    pub(super) wire: Arc<Wire>,
    /// How much had been read when it was asked for.
    reads: u64,
    /// When that was.
    since: Moment,
}

impl Awaited {
    pub(super) fn on(wire: Arc<Wire>) -> Self {
        Self { reads: wire.traffic().reads(), since: wire.now(), wire }
    }
}

impl Trace {
    /// Patience has ended.
    pub(super) fn give_up(self, whom: &str, patience: Duration) -> Error {
        // Nobody wants to read the third of a second to the nanosecond.
        let patience = Duration::from_millis(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX));
        if let Some(Awaited { wire, reads, since }) = self.awaited {
            wire.suspect(reads, wire.now().since(since));
            return Error::new(
                ErrorKind::Unavailable,
                format!(
                    "redis at {} did not answer within {patience:?}; is it frozen, or the way to it?",
                    wire.address()
                ),
            );
        }
        match self.last {
            Some(error) => {
                let text = format!("{error} (tried for {patience:?})");
                Error::caused(ErrorKind::Unavailable, text, error)
            }
            None => Error::new(
                ErrorKind::Unavailable,
                format!(
                    "redis at {whom} could not be connected to within {patience:?}; is it up, the way to it open, and is tls \
                     (rediss://) spoken by both or by none?"
                ),
            ),
        }
    }
}
