//! Holders that are asked to let go: a key beside the line for each claim that somebody asks for, which hangs from the claim's lease and
//! says what the claim's key is. A session watches its own, and reads them with every renewal. See decision 0015.

use std::{sync::Arc, time::Duration};

use bramah_core::{Claim, ClaimId, Result, SessionId};
use tracing::debug;

use crate::{
    engine::Inner,
    error::Trouble,
    layout::Span,
    ops,
    proto::{etcdserverpb::TxnRequest, mvccpb::KeyValue},
    queue::Queue,
    room::Room,
};

/// A wish as it is stored.
pub(crate) struct Wish {
    pub(crate) id: ClaimId,
    kv: KeyValue,
}

impl Inner {
    /// Notes a wish for a claim.
    pub(crate) async fn ask_for(&self, claim: &Claim) -> Result<()> {
        let patience = self.net.patience(claim.ttl);
        let explain = |trouble: Trouble| self.net.explain(&trouble);
        let span = self.layout.line(&claim.name);
        let mut done = self.net.reads(std::slice::from_ref(&span), patience).await.map_err(explain)?;
        let queue = Queue::of(&span.from, done.take(0), done.revision);
        let Some(place) = queue.places.iter().find(|place| place.id() == claim.id) else { return Ok(()) };
        if place.value.is_none() {
            return Err(claim.unaskable("its holder on etcd is another program, which hears no wishes"));
        }
        let compare = vec![ops::created(&Span::one(&place.kv.key), place.kv.create_revision)];
        let wish = ops::put(&self.layout.wish(claim.id), place.kv.key.clone(), place.kv.lease);
        let txn = TxnRequest { compare, success: vec![wish], failure: Vec::new() };
        match self.net.txn(txn, patience).await {
            // The claim goes with it.
            Err(trouble) if trouble.is_lease_gone() => Ok(()),
            noted => noted.map(drop).map_err(explain),
        }
    }

    /// What a read of a session's wishes found.
    pub(crate) fn wishes_of(&self, session: SessionId, found: Vec<KeyValue>) -> Vec<Wish> {
        let wish = |kv: KeyValue| Some(Wish { id: self.layout.wished(session, &kv.key)?, kv });
        found.into_iter().filter_map(wish).collect()
    }

    /// Removes a wish for a claim that is gone, one with each renewal, which waits for it; what fails is done another time, or goes with
    /// the lease.
    pub(crate) async fn tidy_wishes(
        &self,
        room: &Room,
        wishes: &[Wish],
        claims: &[Arc<Claim>],
        patience: Duration,
    ) {
        let is_known =
            |wish: &&Wish| room.known(wish.id).is_some() || claims.iter().any(|claim| claim.id == wish.id);
        let past: Vec<&Wish> = wishes.iter().filter(|wish| !is_known(wish)).collect();
        // By turns, as one that cannot be removed yet is not to keep the others.
        let turn = usize::try_from(self.clock.now().ns() / 1_000).unwrap_or(0);
        let Some(wish) = past.get(turn % past.len().max(1)) else { return };
        // A claim whose entry is being answered is in the store, and not known here yet. The key of a mutex is the session's: it may be
        // that of a later claim.
        let (key, delete) = (Span::one(&wish.kv.value), ops::delete(&wish.kv.key));
        let later = ops::none_before(&key, wish.kv.create_revision.saturating_add(1));
        for compare in [ops::created(&key, 0), later] {
            let txn =
                TxnRequest { compare: vec![compare], success: vec![delete.clone()], failure: Vec::new() };
            match self.net.txn(txn, patience).await {
                Ok(done) if !done.succeeded => {}
                Ok(_) => return,
                Err(trouble) => {
                    debug!(?trouble, "a wish for a claim that is gone stays for now");
                    return;
                }
            }
        }
    }
}
