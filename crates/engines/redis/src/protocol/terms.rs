//! What an engine was told.

use std::time::Duration;

use bramah_core::{Claim, Error, ErrorKind, Result};

use crate::config::{Eviction, Layout, Replicas, Restart};

/// What an engine of this protocol was told.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) layout: Layout,
    pub(crate) timeout: Duration,
    pub(crate) claim_timeout: Duration,
    pub(crate) replicas: Replicas,
    pub(crate) eviction: Eviction,
    pub(crate) restart: Restart,
    /// Whether a grant has a fence.
    pub(crate) fences: bool,
}

impl Terms {
    /// How long a server must have run to grant this claim.
    pub(super) fn age(&self, claim: &Claim) -> Result<Option<Duration>> {
        let Restart::Waits(longest) = self.restart else { return Ok(None) };
        let age = longest.unwrap_or(claim.ttl);
        match claim.lease.unwrap_or(claim.ttl) {
            lease if lease <= age => Ok(Some(age)),
            lease => Err(too_long(&format!("{}: a lease", claim.name), lease, age)),
        }
    }
}

pub(super) fn too_long(what: &str, span: Duration, longest: Duration) -> Error {
    let text = format!(
        "{what} of {span:?} is longer than {longest:?}, for which a server that was restarted does not vote; \
         make it shorter, or set max_ttl to the longest of the fleet"
    );
    Error::new(ErrorKind::Invalid, text)
}
