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
            if let Err(trouble) = self.end_unused(lease, patience).await {
                debug!(?trouble, "a lease that nobody keeps could not be ended; it runs out");
            }
        }
    }

    /// Ends the lease of a session that another process may be using. A claim that enters between a look and the end would be lost
    /// with it. So the end is announced before the look: either the look sees the claim, or whoever entered it sees the
    /// announcement, or that it is gone ([`check_unended`](Inner::check_unended)), before it believes in its hold.
    async fn end_unused(&self, lease: i64, patience: Duration) -> Result<(), Trouble> {
        let mark = self.layout.ending(lease, fastrand::u64(..));
        let announce =
            TxnRequest { success: vec![ops::put(&mark, Vec::new(), lease)], ..TxnRequest::default() };
        match self.net.txn(announce, patience).await {
            Err(trouble) if trouble.is_lease_gone() => return Ok(()),
            announced => announced?,
        };
        let marks = self.layout.endings(lease).from;
        let told = self.net.lease(lease, true, patience).await?;
        if told.is_some_and(|told| {
            told.keys.iter().all(|key| key.starts_with(&marks) || self.layout.is_wish(key))
        }) {
            return self.net.revoke(lease, patience).await;
        }
        let stay = TxnRequest { success: vec![ops::delete(&mark)], ..TxnRequest::default() };
        self.net.txn(stay, patience).await.map(drop)
    }

    /// Whether a hold of a session that nobody keeps is sure not to be ended by somebody who saw its lease without a claim.
    pub(crate) async fn check_unended(
        &self,
        claim: &Claim,
        leases: [i64; 2],
        patience: Duration,
    ) -> Result<bool, Trouble> {
        let mut spans: Vec<Span> = leases.iter().map(|lease| self.layout.endings(*lease)).collect();
        spans.push(Span::one(&self.layout.claim(claim)));
        let done = self.net.reads(&spans, patience).await?;
        let is_there = |at: usize| done.reads.get(at).is_some_and(|found| !found.is_empty());
        if !is_there(0) && !is_there(1) && is_there(2) {
            return Ok(true);
        }
        self.leave(claim, patience).await?;
        Ok(false)
    }

    /// Ends a lease that nothing hangs from: no claim, and no key of another program.
    pub(crate) async fn end_if_bare(&self, lease: i64, patience: Duration) -> Result<(), Trouble> {
        match self.net.lease(lease, true, patience).await? {
            Some(told) if told.keys.iter().all(|key| self.layout.is_wish(key)) => {
                self.net.revoke(lease, patience).await
            }
            _ => Ok(()),
        }
    }
}
