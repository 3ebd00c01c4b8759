//! Grants that count only once enough replicas have them.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bramah_core::{Claim, ClaimId, Error, ErrorKind, Result};
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
        let error = match self.reach(place, claim, wire, patience).await {
            Ok(None) => return Ok(()),
            Ok(Some(shortfall)) => shortfall,
            Err(error) if error.kind() == ErrorKind::Denied => error,
            Err(error) => Error::new(
                ErrorKind::Unavailable,
                format!(
                    "{}: whether replicas have it cannot be told, so it does not count: {error}",
                    claim.name
                ),
            ),
        };
        match self.take_back(item, patience).await {
            true => Err(error.with_no_effect()),
            false => {
                self.taken_back.note(claim.id);
                Err(error)
            }
        }
    }

    /// Withdraws a grant that does not count, and returns whether nothing of this call is left for certain. If something may be,
    /// core withdraws it until it is gone. A question entered nothing.
    async fn take_back(&self, item: Item<'_>, patience: Duration) -> bool {
        if item.claim.again {
            return true;
        }
        let left = self.leave(item, Way::Alone, patience).await;
        left.inspect_err(|error| {
            tracing::debug!(%error, "a grant that too few replicas have was not withdrawn at once");
        })
        .is_ok()
    }

    /// Has replicas confirm what was written before. `None` if enough did, else the error that says how many are missing.
    async fn reach(
        &self,
        place: &Place,
        claim: &Claim,
        wire: u64,
        patience: Duration,
    ) -> Result<Option<Error>> {
        let server = self.driver.server(place.slot, wire).unwrap_or_default();
        // A claim that the server knew may have been granted by another connection, and the answer about it may have
        // written nothing. What this one writes now comes after that grant.
        let (role, touched) = tokio::join!(
            self.over(wire, self.scheme.plainly(place, redis::cmd("ROLE"), patience)),
            self.over(wire, self.scheme.touch(place, patience)),
        );
        touched?;
        let connected = replicas_of(&role?)?;
        let needed = self.needed(&server, connected);
        let policy = self.terms.replicas;
        let noun = if connected == 1 { "replica" } else { "replicas" };
        let short = |how: String| {
            let text = format!(
                "{}: redis at {server} has {connected} {noun}{how}, and replicas={policy} asks for {needed} at least, so it \
                 does not count; look at the replicas, or ask for fewer",
                claim.name
            );
            Error::new(ErrorKind::Unavailable, text)
        };
        if connected < needed {
            // Nobody is there to wait for.
            return Ok(Some(short(String::new())));
        }
        let limit = patience / 2;
        let _pending = self.unconfirmed.note(claim.id, short(" that did not confirm it in time".to_owned()));
        let mut wait = redis::cmd("WAIT");
        wait.arg(needed).arg(text::millis(limit));
        let reached = match self.over(wire, self.scheme.plainly(place, wait, patience)).await? {
            Value::Int(reached) => u64::try_from(reached).unwrap_or(0),
            _ => 0,
        };
        Ok((reached < needed).then(|| short(format!(", of which {reached} confirmed it within {limit:?}"))))
    }

    /// How many replicas must have a grant of a server that has so many now.
    fn needed(&self, server: &Arc<str>, connected: u64) -> u64 {
        let most = || self.most_seen(server, connected).max(1);
        match self.terms.replicas {
            Replicas::None => 0,
            Replicas::Any => 1,
            Replicas::Count(count) => count.into(),
            Replicas::Majority => most().div_ceil(2),
            Replicas::All => most(),
        }
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
    fn most_seen(&self, server: &Arc<str>, now: u64) -> u64 {
        let mut seen = self.replicas_seen.lock().unwrap_or_else(PoisonError::into_inner);
        let most = seen.entry(Arc::clone(server)).or_default();
        *most = now.max(*most);
        *most
    }
}

/// Grants that replicas have not confirmed yet, each with the error for a caller whose time is up.
#[derive(Debug, Default)]
pub(crate) struct Unconfirmed(Mutex<HashMap<ClaimId, Error>>);

impl Unconfirmed {
    /// Notes one, until the note is dropped.
    fn note(&self, id: ClaimId, error: Error) -> Note<'_> {
        self.grants().insert(id, error);
        Note(self, id)
    }

    pub(crate) fn error(&self, id: ClaimId) -> Option<Error> {
        self.grants().get(&id).cloned()
    }

    fn grants(&self) -> MutexGuard<'_, HashMap<ClaimId, Error>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Claims whose withdrawal was sent and not answered. It may arrive late, and would end the same claim if that were entered again: their
/// ids are not used any more.
#[derive(Debug, Default)]
pub(crate) struct TakenBack(Mutex<HashSet<ClaimId>>);

impl TakenBack {
    fn note(&self, id: ClaimId) {
        self.ids().insert(id);
    }

    /// Whether the id is one of them. Core withdraws such a claim until it is gone, and then it can be forgotten.
    pub(crate) fn has(&self, id: ClaimId) -> bool {
        self.ids().contains(&id)
    }

    pub(crate) fn forget(&self, id: ClaimId) {
        self.ids().remove(&id);
    }

    fn ids(&self) -> MutexGuard<'_, HashSet<ClaimId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A grant that is not confirmed yet.
struct Note<'a>(&'a Unconfirmed, ClaimId);

impl Drop for Note<'_> {
    fn drop(&mut self) {
        self.0.grants().remove(&self.1);
    }
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
