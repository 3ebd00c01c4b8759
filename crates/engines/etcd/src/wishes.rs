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

/// How many wishes for past claims a renewal removes at the most.
const TIDIED: usize = 8;

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

    /// Removes wishes for claims that are gone, some at a time; what fails is done the next time, or goes with the lease.
    pub(crate) async fn tidy_wishes(
        &self,
        room: &Room,
        wishes: &[Wish],
        claims: &[Arc<Claim>],
        patience: Duration,
    ) {
        let is_known =
            |wish: &&Wish| room.known(wish.id).is_some() || claims.iter().any(|claim| claim.id == wish.id);
        for wish in wishes.iter().filter(|wish| !is_known(wish)).take(TIDIED) {
            // A claim whose entry is being answered is in the store, and not known here yet.
            let compare = vec![ops::created(&Span::one(&wish.kv.value), 0)];
            let txn = TxnRequest { compare, success: vec![ops::delete(&wish.kv.key)], failure: Vec::new() };
            if let Err(trouble) = self.net.txn(txn, patience).await {
                debug!(?trouble, "a wish for a claim that is gone stays for now");
            }
        }
    }
}
