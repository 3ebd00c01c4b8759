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
    /// How long a server must have run to grant a claim: the longest ttl of the fleet. What the server has forgotten was
    /// granted to somebody else, so the ttl of the claim that asks says nothing about it.
    pub(crate) fn age(&self) -> Option<Duration> {
        match self.restart {
            Restart::Trusted => None,
            Restart::Waits(longest) => Some(longest.unwrap_or(Restart::DEFAULT_MAX_TTL)),
        }
    }

    /// Refuses a ttl that outlives the quarantine of a restarted server.
    pub(crate) fn check_ttl(&self, ttl: Duration) -> Result<()> {
        self.check("a ttl", ttl)
    }

    /// The same for what a claim asks to be kept for.
    pub(crate) fn check_claim(&self, claim: &Claim) -> Result<()> {
        self.check(&format!("{}: a ttl", claim.name), claim.ttl)?;
        claim.lease.map_or(Ok(()), |lease| self.check(&format!("{}: a lease", claim.name), lease))
    }

    fn check(&self, what: &str, span: Duration) -> Result<()> {
        match self.age() {
            Some(longest) if span > longest => {
                let text = format!(
                    "{what} of {span:?} is longer than {longest:?}, for which a server that was restarted does not \
                     vote; make it shorter, or have all clients set max_ttl to the longest of the fleet"
                );
                Err(Error::new(ErrorKind::Invalid, text))
            }
            _ => Ok(()),
        }
    }
}
