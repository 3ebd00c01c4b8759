//! Grants that count only once enough replicas have them.

use std::{
    fmt,
    sync::{Arc, PoisonError},
    time::Duration,
};

use bramah_core::{Error, ErrorKind, Result};
use redis::Value;

use crate::{
    config::Replicas,
    driver::{Driver, Request},
    layout::{Item, Place, Way},
    protocol::Protocol,
    text,
};

impl fmt::Display for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Any => f.write_str("any"),
            Self::Majority => f.write_str("majority"),
            Self::All => f.write_str("all"),
            Self::Count(count) => count.fmt(f),
        }
    }
}

impl<D: Driver> Protocol<D> {
    /// Waits until enough replicas have a grant that was answered over the connection `wire`. A new one that too few have is
    /// withdrawn; one that was asked about is not, for it may be a hold that somebody believes in: core withdraws what a
    /// caller does not get.
    ///
    /// Only that connection can be asked. WAIT counts what its own connection wrote, so on another one it waits for nothing;
    /// and behind another one there may be a master that never had the grant.
    pub(crate) async fn replicate(&self, item: Item<'_>, wire: u64, patience: Duration) -> Result<()> {
        let Item { place, claim, .. } = item;
        let name = &claim.name;
        let error = match self.reach(place, wire, patience).await {
            Ok(Reach { reached, needed, .. }) if reached >= needed => return Ok(()),
            Ok(Reach { seen: 0, .. }) if self.counts_replicas() => format!(
                "{name}: replicas={} asks for a replica at least, and this server never had one; so it does not count",
                self.terms.replicas
            ),
            Ok(Reach { reached, needed, .. }) => format!(
                "{name}: {reached} of the {needed} replicas that replicas={} asks for had it in time, so it does not \
                 count; look at the replicas",
                self.terms.replicas
            ),
            Err(error) if error.kind() == ErrorKind::Denied => {
                self.take_back(item, patience).await;
                return Err(error);
            }
            Err(error) => {
                format!("{name}: whether replicas have it cannot be told, so it does not count: {error}")
            }
        };
        self.take_back(item, patience).await;
        Err(Error::new(ErrorKind::Unavailable, error))
    }

    /// Withdraws a grant that does not count. If that fails, core does so until it is certain.
    async fn take_back(&self, item: Item<'_>, patience: Duration) {
        if !item.claim.again
            && let Err(error) = self.leave(item, Way::Alone, patience).await
        {
            tracing::debug!(%error, "a grant that too few replicas have was not withdrawn at once");
        }
    }

    /// Whether the policy goes by how many there are.
    fn counts_replicas(&self) -> bool {
        matches!(self.terms.replicas, Replicas::Majority | Replicas::All)
    }

    /// How many replicas have what was written before, and how many have to.
    async fn reach(&self, place: &Place, wire: u64, patience: Duration) -> Result<Reach> {
        let server = self.driver.server(place.slot, wire);
        let (needed, seen) = match self.terms.replicas {
            Replicas::None => (0, 0),
            Replicas::Any => (1, 0),
            Replicas::Count(count) => (count.into(), 0),
            Replicas::Majority | Replicas::All => {
                let role = self.over(wire, self.scheme.plainly(place, redis::cmd("ROLE"), patience)).await?;
                let seen = self.most_seen(server.unwrap_or_default(), replicas_of(&role)?);
                let all = seen.max(1);
                (if self.terms.replicas == Replicas::All { all } else { all.div_ceil(2) }, seen)
            }
        };
        // A claim that the server knew may have been granted by another connection, and the answer about it may have
        // written nothing. What this one writes now comes after that grant.
        self.over(wire, self.scheme.touch(place, patience)).await?;
        let mut wait = redis::cmd("WAIT");
        wait.arg(needed).arg(text::millis(patience / 2));
        let reached = match self.over(wire, self.scheme.plainly(place, wait, patience)).await? {
            Value::Int(reached) => u64::try_from(reached).unwrap_or(0),
            _ => 0,
        };
        Ok(Reach { reached, needed, seen })
    }

    /// Asks over the granting connection.
    async fn over(&self, wire: u64, request: Request) -> Result<Value> {
        self.driver.send_over(wire, request).await.unwrap_or_else(|| {
            let text = "the connection that it was granted over has ended";
            Err(Error::new(ErrorKind::Unavailable, text))
        })
    }

    /// The most replicas that this server was seen with. One that has gone away still counts, or a master that was cut off
    /// from all of them would be content.
    fn most_seen(&self, server: Arc<str>, now: u64) -> u64 {
        let mut seen = self.replicas_seen.lock().unwrap_or_else(PoisonError::into_inner);
        let most = seen.entry(server).or_default();
        *most = now.max(*most);
        *most
    }
}

/// How many replicas have a grant, how many have to, and the most that the server was seen with where that counts.
struct Reach {
    reached: u64,
    needed: u64,
    seen: u64,
}

/// How many replicas a master says it has.
fn replicas_of(role: &Value) -> Result<u64> {
    match role {
        Value::Array(parts) => match parts.get(2) {
            Some(Value::Array(replicas)) => Ok(replicas.len() as u64),
            _ => Err(Error::new(ErrorKind::Unavailable, "the server is no master any more")),
        },
        _ => Ok(0),
    }
}
