//! How a session proves that it lives, and finds out what it has.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use bramah_core::{Claim, ClaimId, ErrorKind, Keep, Renewal, Result, SessionId};

use crate::{
    engine::Inner, error::Trouble, layout::Span, proto::mvccpb::KeyValue, queue::Place, room::Room,
    wishes::Wish,
};

impl Inner {
    /// Keeps the lease alive, and looks whether the claims are there: a server that renews a lease which it has revoked, and one that
    /// was deposed, both say that all is well.
    pub(crate) async fn renew(&self, session: SessionId, claims: &[Arc<Claim>]) -> Result<Renewal> {
        match self.room(session) {
            Ok(room) => self.renew_own(&room, claims).await,
            Err(_) => self.renew_left(session, claims).await,
        }
    }

    async fn renew_own(&self, room: &Arc<Room>, claims: &[Arc<Claim>]) -> Result<Renewal> {
        let patience = self.net.patience(room.terms().ttl);
        if room.keep == Keep::Nobody && room.has_lapsed() {
            return self.refuse_late(room, claims, patience).await;
        }
        let explain = |trouble: Trouble| self.net.explain(&trouble);
        let lease = room.terms().lease;
        let (kept, listed) = tokio::join!(self.keep(room, patience), self.net.lease(lease, true, patience));
        match kept {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Lost => return Ok(all_gone(claims)),
            Err(error) => return Err(error),
        }
        // What it has besides is not worth a renewal: strays that are not listed now are listed the next time.
        let listed = listed.ok().flatten().map(|told| told.keys).unwrap_or_default();
        let seen = self.see(room.session, claims, listed, patience).await.map_err(explain)?;
        let mut renewal = seen.renewal;
        for id in &renewal.gone {
            if let Some(entry) = room.forget(*id) {
                entry.ring();
            }
        }
        let terms = room.terms();
        for (id, kv) in &seen.there {
            let is_kept = kv.lease == terms.lease || kv.lease == terms.former;
            match room.known(*id) {
                // What hangs from another lease will go with that, whatever we renew.
                _ if !is_kept => {
                    room.forget(*id);
                    renewal.gone.push(*id);
                }
                Some(entry) if entry.create == kv.create_revision => {
                    self.watch_own(room, &entry, &kv.key, seen.revision);
                }
                Some(_) => {
                    room.forget(*id);
                    renewal.gone.push(*id);
                }
                None => {}
            }
        }
        self.tidy_wishes(room, &seen.wishes, claims, patience).await;
        room.watch_wishes(&self.watches, seen.revision + 1);
        if seen.there.values().any(|kv| kv.lease != terms.lease) {
            // Entered while the session moved to another lease: its former one is not kept alive any more.
            self.move_keys(room.session, &terms, patience).await.map_err(explain)?;
        }
        Ok(renewal)
    }

    /// A renewal that comes when the ttl is over, in a session that nobody keeps. The lease may be there still, for it is longer than
    /// that: but the margin is not ours to live on, and core has given up what was held.
    async fn refuse_late(
        &self,
        room: &Arc<Room>,
        claims: &[Arc<Claim>],
        patience: Duration,
    ) -> Result<Renewal> {
        for claim in claims {
            self.leave(claim, patience).await.map_err(|trouble| self.net.explain(&trouble))?;
        }
        match self.keep(room, patience).await {
            Err(error) if error.kind() != ErrorKind::Lost => Err(error),
            _ => Ok(all_gone(claims)),
        }
    }

    /// Renews what another process has left: its keys tell what lease they hang from.
    async fn renew_left(&self, session: SessionId, claims: &[Arc<Claim>]) -> Result<Renewal> {
        let ttl = claims.iter().map(|claim| claim.ttl).min().unwrap_or(Duration::MAX);
        let patience = self.net.patience(ttl);
        let explain = |trouble: Trouble| self.net.explain(&trouble);
        let before = self.see(session, claims, Vec::new(), patience).await.map_err(explain)?;
        for lease in before.leases {
            self.net.keep_alive(lease, patience).await.map_err(explain)?;
        }
        let after = self.see(session, claims, Vec::new(), patience).await.map_err(explain)?;
        Ok(after.renewal)
    }

    /// Reads the keys of these claims and these others, as everybody agrees on them.
    async fn see(
        &self,
        session: SessionId,
        claims: &[Arc<Claim>],
        others: Vec<Vec<u8>>,
        patience: Duration,
    ) -> Result<Seen, Trouble> {
        let is_open_here = self.rooms().contains_key(&session);
        let own = |claim: &Arc<Claim>| match is_open_here {
            true => vec![self.layout.claim(claim)],
            // Another process entered it, perhaps of an earlier version.
            false => self.layout.candidates(claim),
        };
        let mut keys: Vec<Vec<u8>> = claims.iter().flat_map(own).chain(others).collect();
        keys.sort_unstable();
        keys.dedup();
        let asked: HashSet<ClaimId> = claims.iter().map(|claim| claim.id).collect();
        let wishes = std::iter::once(self.layout.wishes(session));
        let spans: Vec<Span> = wishes.chain(keys.iter().map(|key| Span::one(key))).collect();
        let mut done = self.net.read_spans(&spans, patience).await?;
        let wishes = self.wishes_of(session, done.take(0));
        let mut seen = Seen { revision: done.revision, wishes, ..Seen::default() };
        seen.renewal.asked = seen.wishes.iter().map(|wish| wish.id).collect();
        for place in done.reads.into_iter().flatten().map(Place::of) {
            let Some(value) = place.value.as_ref().filter(|value| value.id.session == session) else {
                continue;
            };
            seen.leases.insert(place.kv.lease);
            if asked.contains(&value.id) {
                seen.there.insert(value.id, place.kv);
            } else if let Some((name, _)) = self.layout.name_of(&place.kv.key) {
                seen.renewal.stray.push(Arc::new(value.claim(&name)));
            }
        }
        let is_gone = |claim: &&Arc<Claim>| !seen.there.contains_key(&claim.id);
        seen.renewal.gone = claims.iter().filter(is_gone).map(|claim| claim.id).collect();
        Ok(seen)
    }
}

/// What the keys of a session said.
#[derive(Default)]
struct Seen {
    renewal: Renewal,
    there: HashMap<ClaimId, KeyValue>,
    leases: HashSet<i64>,
    wishes: Vec<Wish>,
    revision: i64,
}

fn all_gone(claims: &[Arc<Claim>]) -> Renewal {
    Renewal { gone: claims.iter().map(|claim| claim.id).collect(), ..Renewal::default() }
}
