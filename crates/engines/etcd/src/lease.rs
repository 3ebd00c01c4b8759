//! How sessions begin, go on and end: each is a lease.

use std::{sync::Arc, time::Duration};

use bramah_core::{Error, ErrorKind, Keep, Opening, Result, SessionId};
use tracing::debug;

use crate::{
    engine::Inner,
    error::Trouble,
    layout::{self, Span},
    ops,
    proto::etcdserverpb::TxnRequest,
    queue::Place,
    room::{Room, Terms},
    value::{Told, Value},
};

/// How often a lease is asked for that comes and goes.
const TRIES: usize = 5;

/// A pause for a lease that has run out to be taken away.
const PAUSE: Duration = Duration::from_millis(100);

impl Inner {
    /// The room of an open session.
    pub(crate) fn room(&self, session: SessionId) -> Result<Arc<Room>> {
        let room = self.rooms().get(&session).cloned();
        room.filter(|room| !room.is_over()).ok_or_else(|| self.over())
    }

    pub(crate) fn over(&self) -> Error {
        let members = self.net.config().address();
        Error::new(
            ErrorKind::Lost,
            format!("etcd at {members}: the session's lease has ended, and its locks with it"),
        )
    }

    /// How many seconds are asked for, so that the lease outlives what core counts on by the margin.
    fn seconds(&self, ttl: Duration) -> i64 {
        let whole = ttl.saturating_add(Terms::slack(ttl)).saturating_add(self.net.config().margin);
        i64::try_from(whole.as_millis().div_ceil(1000)).unwrap_or(i64::MAX >> 32).max(1)
    }

    /// What core is told of a lease of so many seconds.
    fn terms(&self, lease: i64, seconds: i64, wanted: Duration, proven: bramah_core::Moment) -> Terms {
        let granted = Duration::from_secs(seconds.unsigned_abs());
        let most = granted.saturating_sub(self.net.config().margin).saturating_sub(Terms::slack(wanted));
        Terms { lease, former: lease, seconds, ttl: wanted.min(most), proven }
    }

    pub(crate) async fn open(&self, opening: &Opening) -> Result<Duration> {
        let patience = self.net.config().timeout;
        let wanted = self.seconds(opening.ttl);
        for _ in 0..TRIES {
            match self.try_open(opening, wanted, patience).await {
                Ok(Some(ttl)) => return Ok(ttl),
                // It was there and is not any more.
                Ok(None) => tokio::time::sleep(PAUSE).await,
                Err(trouble) => return Err(self.net.explain(&trouble)),
            }
        }
        Err(self.over())
    }

    async fn try_open(
        &self,
        opening: &Opening,
        wanted: i64,
        patience: Duration,
    ) -> Result<Option<Duration>, Trouble> {
        let session = opening.session;
        let known = self.rooms().get(&session).cloned();
        let sent = self.clock.now();
        let lease = known.as_ref().map_or_else(|| layout::lease(session), |_| layout::new_lease(session));
        if let Some(room) = known.filter(|room| !room.is_over()) {
            let terms = room.terms();
            if self.end_lapsed(&room, patience).await? {
                return Ok(None);
            }
            if !self.net.keep_alive(terms.lease, patience).await? {
                room.end();
                return Ok(None);
            }
            room.prove(sent);
            if (terms.seconds, terms.ttl) == (wanted, opening.ttl) {
                return Ok(Some(terms.ttl));
            }
            let terms = self.move_to(session, terms.lease, wanted, opening.ttl, patience).await?;
            // Both leases count before the first claim hangs from the new one: a renewal that runs meanwhile finds all of them.
            room.set_terms(terms);
            self.move_keys(session, &terms, patience).await?;
            return Ok(Some(terms.ttl));
        }
        let terms = match self.net.grant(lease, wanted, patience).await {
            Ok(seconds) => self.terms(lease, seconds, opening.ttl, sent),
            // Nobody else has our id: it is our own, from a call whose answer was lost.
            Err(trouble) if trouble.is_lease_there() => {
                let Some(told) = self.net.lease(lease, false, patience).await? else { return Ok(None) };
                if !self.net.keep_alive(lease, patience).await? {
                    return Ok(None);
                }
                if told.granted_ttl >= wanted {
                    self.terms(lease, told.granted_ttl, opening.ttl, sent)
                } else {
                    let terms = self.move_to(session, lease, wanted, opening.ttl, patience).await?;
                    self.move_keys(session, &terms, patience).await?;
                    terms
                }
            }
            Err(trouble) => return Err(trouble),
        };
        let is_first = {
            let mut rooms = self.rooms();
            let is_first = rooms.get(&session).is_none_or(|room| room.is_over());
            if is_first {
                let wishes = self.layout.wishes(session);
                rooms.insert(session, Arc::new(Room::new(opening, terms, wishes)));
            }
            is_first
        };
        if is_first {
            return Ok(Some(terms.ttl));
        }
        // Another task has opened it meanwhile: a session has one lease. Ours runs out by itself if it cannot be ended.
        if self.room(session).is_ok_and(|room| room.terms().lease != terms.lease) {
            let _ = self.net.revoke(terms.lease, patience).await;
        }
        Ok(None)
    }

    /// Another lease for the session's claims to hang from: the ttl of one cannot be changed.
    async fn move_to(
        &self,
        session: SessionId,
        from: i64,
        wanted: i64,
        ttl: Duration,
        patience: Duration,
    ) -> Result<Terms, Trouble> {
        let lease = layout::other_lease(session, from, wanted);
        let sent = self.clock.now();
        let seconds = match self.net.grant(lease, wanted, patience).await {
            Err(trouble) if trouble.is_lease_there() => {
                self.net.keep_alive(lease, patience).await?;
                wanted
            }
            granted => granted?,
        };
        Ok(Terms { former: from, ..self.terms(lease, seconds, ttl, sent) })
    }

    /// Hangs the session's claims from its lease that hang from its former one.
    pub(crate) async fn move_keys(
        &self,
        session: SessionId,
        terms: &Terms,
        patience: Duration,
    ) -> Result<(), Trouble> {
        let told = self.net.lease(terms.former, true, patience).await?;
        let keys = told.map(|told| told.keys).unwrap_or_default();
        for key in keys.into_iter().filter(|_| terms.former != terms.lease) {
            // Again if it was written meanwhile.
            for _ in 0..TRIES {
                let mut done = self.net.reads(&[Span::one(&key)], patience).await?;
                let Some(kv) = done.take(0).pop() else { break };
                let place = Place::of(kv);
                let Some(value) = place.value.as_ref().filter(|value| value.id.session == session) else {
                    break;
                };
                let fence = place.fence().map_or(Told::Nothing, Told::This);
                let value = Value { ttl: terms.ttl, fence, ..value.clone() };
                let txn = TxnRequest {
                    compare: vec![ops::written(&key, place.kv.mod_revision)],
                    success: vec![ops::put(&key, value.encode(), terms.lease)],
                    ..TxnRequest::default()
                };
                let moved = self.net.txn(txn, patience).await?.succeeded;
                debug!(moved, "a claim hangs from another lease");
                if moved {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Has the lease live for its time from now on.
    pub(crate) async fn keep(&self, room: &Arc<Room>, patience: Duration) -> Result<()> {
        let explain = |trouble: Trouble| self.net.explain(&trouble);
        if self.end_lapsed(room, patience).await.map_err(explain)? {
            return Err(self.over());
        }
        let sent = self.clock.now();
        match self.net.keep_alive(room.terms().lease, patience).await {
            Ok(true) => {
                room.prove(sent);
                Ok(())
            }
            Ok(false) => {
                room.end();
                Err(self.over())
            }
            Err(trouble) => Err(self.net.explain(&trouble)),
        }
    }

    /// Ends a session that was not proven for its ttl, and tells whether it did. The lease may be there still: it is longer than that,
    /// and without a majority none runs out. But core has given up what was held, and a lease that is kept alive would keep it in its
    /// lines. One that nobody keeps may be renewed elsewhere, and is left alone.
    async fn end_lapsed(&self, room: &Arc<Room>, patience: Duration) -> Result<bool, Trouble> {
        if room.keep == Keep::Nobody || !room.has_lapsed() {
            return Ok(false);
        }
        debug!(session = ?room.session, "a session that was not proven in time is ended");
        self.net.revoke(room.terms().lease, patience).await?;
        room.end();
        Ok(true)
    }

    /// Ends the session's lease, if nothing hangs from it: what was left behind is to stay.
    pub(crate) async fn close(&self, session: SessionId) -> Result<()> {
        let room = self.rooms().remove(&session);
        let mut leases = vec![layout::lease(session)];
        if let Some(room) = room {
            let terms = room.terms();
            leases = vec![terms.lease, terms.former];
            leases.dedup();
            room.end();
        }
        let patience = self.net.config().timeout;
        for lease in leases {
            let ended = self.end_if_bare(lease, patience).await;
            ended.map_err(|trouble| self.net.explain(&trouble))?;
        }
        Ok(())
    }
}
