//! Grants that count only once enough replicas have them.

use std::{fmt, sync::atomic::Ordering, time::Duration};

use bramah_core::{Error, ErrorKind, Result};
use redis::Value;

use crate::{
    config::Replicas,
    driver::Driver,
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
    /// Waits until enough replicas have the grant. A new one that too few have is withdrawn; one that was asked about is
    /// not, for it may be a hold that somebody believes in: core withdraws what a caller does not get.
    pub(crate) async fn replicate(&self, item: Item<'_>, patience: Duration) -> Result<()> {
        let Item { place, claim, .. } = item;
        let error = match self.reach(place, patience).await {
            Ok((reached, needed)) if reached >= needed => return Ok(()),
            Ok(_) if self.replicas_seen.load(Ordering::Relaxed) == 0 && self.counts_replicas() => Error::new(
                ErrorKind::Unavailable,
                format!(
                    "{}: replicas={} asks for a replica at least, and this server never had one; so it does not count",
                    claim.name, self.terms.replicas
                ),
            ),
            Ok((reached, needed)) => Error::new(
                ErrorKind::Unavailable,
                format!(
                    "{}: {reached} of the {needed} replicas that replicas={} asks for had it in time, so it does not \
                     count; look at the replicas",
                    claim.name, self.terms.replicas
                ),
            ),
            Err(error) => error,
        };
        if !claim.again {
            self.driver.send(self.scheme.leave(item, Way::Alone, patience)).await?;
        }
        Err(error)
    }

    /// Whether the policy goes by how many there are.
    fn counts_replicas(&self) -> bool {
        matches!(self.terms.replicas, Replicas::Majority | Replicas::All)
    }

    /// How many replicas have what was written before, and how many have to.
    async fn reach(&self, place: &Place, patience: Duration) -> Result<(u64, u64)> {
        let needed = self.needed(place, patience).await?;
        let mut cmd = redis::cmd("WAIT");
        cmd.arg(needed).arg(text::millis(patience / 2));
        let reached = match self.driver.send(self.scheme.plainly(place, cmd, patience)).await? {
            Value::Int(reached) => u64::try_from(reached).unwrap_or(0),
            _ => 0,
        };
        Ok((reached, needed))
    }

    /// How many replicas the policy asks for.
    async fn needed(&self, place: &Place, patience: Duration) -> Result<u64> {
        let share = match self.terms.replicas {
            Replicas::None => return Ok(0),
            Replicas::Any => return Ok(1),
            Replicas::Count(count) => return Ok(count.into()),
            Replicas::Majority | Replicas::All => self.terms.replicas,
        };
        let role = self.driver.send(self.scheme.plainly(place, redis::cmd("ROLE"), patience)).await?;
        let now = match &role {
            Value::Array(parts) => match parts.get(2) {
                Some(Value::Array(replicas)) => replicas.len() as u64,
                _ => 0,
            },
            _ => 0,
        };
        // One that has gone away still counts, or a master that was cut off from all of them would be content.
        let all = self.replicas_seen.fetch_max(now, Ordering::Relaxed).max(now).max(1);
        Ok(if share == Replicas::All { all } else { all.div_ceil(2) })
    }
}
