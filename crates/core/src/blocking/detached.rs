//! A lock without a process, for code without async.

use std::{fmt, sync::Arc, time::Duration};

use super::Worker;
use crate::{ClaimId, Engine, Name, Result};

/// As [`crate::Detached`].
#[derive(Clone)]
pub struct Detached {
    pub(super) detached: crate::Detached,
    pub(super) worker: Arc<Worker>,
}

impl Detached {
    /// As [`crate::Detached::new`].
    ///
    /// # Errors
    /// `Unavailable` when there is no thread for it.
    pub fn new(engine: impl Into<Arc<dyn Engine>>, name: Name, id: ClaimId) -> Result<Self> {
        Ok(Self { detached: crate::Detached::new(engine, name, id), worker: Worker::start()? })
    }

    /// As [`crate::Detached::id`].
    pub fn id(&self) -> ClaimId {
        self.detached.id()
    }

    /// As [`crate::Detached::name`].
    pub fn name(&self) -> &Name {
        self.detached.name()
    }

    /// As [`crate::Detached::renew`].
    ///
    /// # Errors
    /// As there.
    pub fn renew(&self) -> Result<Duration> {
        self.worker.run(self.detached.renew())
    }

    /// As [`crate::Detached::is_asked`].
    pub fn is_asked(&self) -> bool {
        self.detached.is_asked()
    }

    /// As [`crate::Detached::release`].
    ///
    /// # Errors
    /// As there.
    pub fn release(&self) -> Result<bool> {
        self.worker.run(self.detached.release())
    }
}

impl fmt::Debug for Detached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.detached.fmt(f)
    }
}
