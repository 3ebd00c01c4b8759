//! What a face asks for, and what is refused before anything is sent.

use std::{sync::Arc, time::Duration};

use crate::{Claim, Error, ErrorKind, Name, Result, Session};

/// What a face asks for.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) name: Name,
    pub(crate) capacity: u32,
    pub(crate) weight: u32,
    pub(crate) lease: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) note: Arc<str>,
}

impl Want {
    pub(crate) fn is_exclusive(&self) -> bool {
        self.weight == self.capacity
    }

    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |why: String| Err(Error::new(ErrorKind::Invalid, format!("{}: {why}", self.name)));
        if self.weight == 0 || self.weight > self.capacity {
            return refuse(format!(
                "{} permits asked of a semaphore of {}; ask for 1 to {}",
                self.weight, self.capacity, self.capacity
            ));
        }
        if self.note.len() > Claim::MAX_NOTE_BYTES {
            return refuse(format!(
                "a note of {} bytes; the most is {}",
                self.note.len(),
                Claim::MAX_NOTE_BYTES
            ));
        }
        for (what, span) in [("lease", self.lease), ("max_hold", self.max_hold)] {
            if span.is_some_and(|span| span < Duration::from_millis(10) || span > Session::MAX_TTL) {
                return refuse(format!(
                    "a {what} of {:?} is out of range; use 10ms to 30 days",
                    span.unwrap_or_default()
                ));
            }
        }
        Ok(())
    }
}
