//! How a claim is left, by its own process or by force, and what becomes of a lease that has lost its last claim.

use std::time::Duration;

use bramah_core::{Claim, Exit, Keep, Result};
use tracing::debug;

use crate::{
    engine::Inner,
    error::Trouble,
    layout::{self, Span},
    ops,
    proto::etcdserverpb::TxnRequest,
    queue::{Place, Queue},
    value::Record,
};

impl Inner {
    /// Leaves, or has somebody leave.
    pub(crate) async fn withdraw(&self, claim: &Claim, exit: &Exit) -> Result<()> {
        let patience = self.net.patience(claim.ttl);
        let left = match exit {
            Exit::Own => self.leave(claim, patience).await,
            Exit::Broken(cause) => {
                let record = Record { id: claim.id, at_us: self.clock.wall_us(), cause: cause.clone() };
                self.evict(claim, &record, patience).await
            }
        };
        left.map_err(|trouble| self.net.explain(&trouble))
    }

    pub(crate) async fn leave(&self, claim: &Claim, patience: Duration) -> Result<(), Trouble> {
        let known = self.rooms().get(&claim.id.session).cloned().and_then(|room| room.forget(claim.id));
        let (key, create, place) = match known {
            Some(entry) => (entry.key.clone(), entry.create, None),
            None => {
                let done = self.net.read_keys(&self.layout.candidates(claim), patience).await?;
                let mut places = done.reads.into_iter().flatten().map(Place::of);
                // If another claim of the session has the key, it is not ours to delete.
                match places.find(|place| place.id() == claim.id) {
                    Some(place) => (place.kv.key.clone(), place.kv.create_revision, Some(place)),
                    None => return Ok(()),
                }
            }
        };
        let compare = vec![ops::created(&Span::one(&key), create)];
        let txn = TxnRequest { compare, success: vec![ops::delete(&key)], failure: Vec::new() };
        self.net.txn(txn, patience).await?;
        if let Some(place) = place {
            self.end_unkept(&place, patience).await;
        }
        Ok(())
    }

    async fn evict(&self, claim: &Claim, record: &Record, patience: Duration) -> Result<(), Trouble> {
        let span = self.layout.line(&claim.name);
        let mut done = self.net.reads(std::slice::from_ref(&span), patience).await?;
        let queue = Queue::of(&span.from, done.take(0), done.revision);
        let Some(place) = queue.places.iter().find(|place| place.id() == claim.id) else { return Ok(()) };
        let compare = vec![ops::created(&Span::one(&place.kv.key), place.kv.create_revision)];
        let kept = ops::put(&self.layout.broken(&claim.name), record.encode(), 0);
        let success = vec![ops::delete(&place.kv.key), kept];
        self.net.txn(TxnRequest { compare, success, failure: Vec::new() }, patience).await?;
        self.end_unkept(place, patience).await;
        Ok(())
    }

    /// Ends the leases of a session of which this claim was the last, if no process keeps it: they would live on for hours. One that is
    /// open here ends with its own close. A lease that cannot be ended runs out.
    async fn end_unkept(&self, place: &Place, patience: Duration) {
        let Some(value) = place.value.as_ref().filter(|value| value.keep == Keep::Nobody) else { return };
        let session = value.id.session;
        if self.room(session).is_ok() {
            return;
        }
        let mut leases = vec![place.kv.lease, layout::lease(session)];
        leases.dedup();
        for lease in leases {
            if let Err(trouble) = self.end_if_bare(lease, patience).await {
                debug!(?trouble, "a lease that nobody keeps could not be ended; it runs out");
            }
        }
    }

    /// Ends a lease that nothing hangs from: no claim, and no key of another program.
    pub(crate) async fn end_if_bare(&self, lease: i64, patience: Duration) -> Result<(), Trouble> {
        match self.net.lease(lease, true, patience).await? {
            Some(told) if told.keys.is_empty() => self.net.revoke(lease, patience).await,
            _ => Ok(()),
        }
    }
}
