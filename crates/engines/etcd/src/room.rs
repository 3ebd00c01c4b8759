//! What this process knows of one session.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah_core::{Alarm, Bell, ClaimId, Clock, Keep, Moment, Opening, SessionId, Tag, Wake, Woken};

use crate::{
    layout::Span,
    turnstile::Inside,
    value::Value,
    watches::{Armed, Wanted, Watches},
};

/// A session that was opened here.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) session: SessionId,
    pub(crate) who: Arc<str>,
    pub(crate) alarm: Alarm,
    pub(crate) keep: Keep,
    terms: Mutex<Terms>,
    entries: Mutex<HashMap<u64, Arc<Entry>>>,
    /// Where the wishes for its claims are, and what tells of a new one.
    wishes: Span,
    wished: Mutex<Option<Armed>>,
    /// Whether its lease has ended.
    is_over: AtomicBool,
    clock: Clock,
}

/// What a session's claims hang from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) lease: i64,
    /// The one that they hung from before the ttl was changed; the same if it was not.
    pub(crate) former: i64,
    /// As the server granted it.
    pub(crate) seconds: i64,
    /// As core was told.
    pub(crate) ttl: Duration,
    /// When the last call was sent that had the lease live for its seconds.
    pub(crate) proven: Moment,
}

impl Terms {
    /// How old a proof may be that an answer counts on: the lease lasts this much longer than it has to.
    pub(crate) fn slack(ttl: Duration) -> Duration {
        (ttl / 20).min(Duration::from_millis(250))
    }
}

/// A claim of this session that was seen in its line.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: ClaimId,
    pub(crate) key: Vec<u8>,
    pub(crate) create: i64,
    bell: Mutex<Option<Bell>>,
    /// What its key says while it waits, and since which revision.
    waits: Mutex<Option<(Value, i64)>>,
    /// The key ahead of it that it waits for, and when that was created.
    behind: Mutex<Option<(Vec<u8>, i64)>>,
    /// Whether its own key is about to be watched.
    is_due: AtomicBool,
    /// Tells that its own key is gone.
    own: Mutex<Option<Armed>>,
    /// Tells that it is worth asking.
    ahead: Mutex<Option<Armed>>,
    _inside: Inside,
}

/// How old a claim is before its key is watched: most locks are held for less long, and what is missed until then is told then.
pub(crate) const YOUNG: Duration = Duration::from_millis(30);

/// How many claims are renewed when a wish was heard of. One is enough, unless it is just being entered.
const LOOKED_AT: usize = 3;

/// The key of a claim that is to be watched if the claim lasts.
pub(crate) struct Unwatched {
    pub(crate) wanted: Wanted,
    pub(crate) room: Weak<Room>,
    pub(crate) entry: Weak<Entry>,
    pub(crate) watches: Arc<Watches>,
}

impl Unwatched {
    pub(crate) fn watch(self) {
        let (Some(entry), Some(room)) = (self.entry.upgrade(), self.room.upgrade()) else { return };
        room.watch_wishes(&self.watches, self.wanted.from);
        let alarm = room.alarm.clone();
        let armed = self.watches.arm(self.wanted, move || {
            if let Some(entry) = self.entry.upgrade() {
                alarm.ring(entry.id);
                entry.ring();
            }
        });
        entry.watch_own(armed);
    }
}

impl Room {
    pub(crate) fn new(opening: &Opening, terms: Terms, wishes: Span) -> Self {
        Self {
            wishes,
            wished: Mutex::default(),
            session: opening.session,
            who: opening.about.encode().into(),
            alarm: opening.alarm.clone(),
            keep: opening.keep,
            terms: Mutex::new(terms),
            entries: Mutex::default(),
            is_over: AtomicBool::new(false),
            clock: Clock::boot(),
        }
    }

    pub(crate) fn terms(&self) -> Terms {
        *self.lock_terms()
    }

    fn lock_terms(&self) -> MutexGuard<'_, Terms> {
        self.terms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_terms(&self, terms: Terms) {
        *self.lock_terms() = terms;
    }

    /// The lease was kept alive by a call that was sent then.
    pub(crate) fn prove(&self, sent: Moment) {
        let mut terms = self.lock_terms();
        terms.proven = terms.proven.max(sent);
    }

    /// Whether the last proof is as good as a new one.
    pub(crate) fn is_fresh(&self) -> bool {
        let terms = self.terms();
        self.clock.now().since(terms.proven) < Terms::slack(terms.ttl)
    }

    /// Whether the ttl has passed since the last proof: core has given up what was held, and what is left of the lease is its margin.
    pub(crate) fn has_lapsed(&self) -> bool {
        let terms = self.terms();
        self.clock.now().since(terms.proven) > terms.ttl + Terms::slack(terms.ttl)
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<u64, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn known(&self, id: ClaimId) -> Option<Arc<Entry>> {
        self.entries().get(&id.seq).cloned()
    }

    /// The claim that people know by this tag.
    pub(crate) fn tagged(&self, tag: Tag) -> Option<Arc<Entry>> {
        self.entries().values().find(|entry| entry.id.tag() == tag).cloned()
    }

    /// The claim was seen in its line, as created then. `None` if that is another one than was seen before.
    pub(crate) fn admit(
        &self,
        id: ClaimId,
        key: &[u8],
        create: i64,
        inside: impl FnOnce() -> Inside,
    ) -> Option<Arc<Entry>> {
        let new = || {
            let (bell, waits, behind) = (Mutex::default(), Mutex::default(), Mutex::default());
            let (own, ahead, is_due) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
            let key = key.to_vec();
            Arc::new(Entry { id, key, create, bell, waits, behind, is_due, own, ahead, _inside: inside() })
        };
        let entry = self.entries().entry(id.seq).or_insert_with(new).clone();
        Some(entry).filter(|entry| entry.create == create)
    }

    /// The claim is gone, or about to go: nobody has to be told.
    pub(crate) fn forget(&self, id: ClaimId) -> Option<Arc<Entry>> {
        let entry = self.entries().remove(&id.seq)?;
        entry.disarm();
        Some(entry)
    }

    /// Has the session hear of the next wish for one of its claims, from this revision on.
    pub(crate) fn watch_wishes(self: &Arc<Self>, watches: &Arc<Watches>, from: i64) {
        let mut wished = slot(&self.wished);
        if self.is_over() || wished.as_ref().is_some_and(Armed::is_armed) {
            return;
        }
        let room = Arc::downgrade(self);
        let wanted = Wanted { span: self.wishes.clone(), from, puts: true, children: false };
        let armed = watches.arm(wanted, move || {
            if let Some(room) = room.upgrade() {
                room.look_for_wishes();
            }
        });
        drop(wished.replace(armed));
    }

    /// Has a few claims renewed, the oldest of them: a renewal of any claim reads the wishes for all.
    fn look_for_wishes(&self) {
        let mut ids: Vec<ClaimId> = self.entries().values().map(|entry| entry.id).collect();
        ids.sort_unstable();
        ids.into_iter().take(LOOKED_AT).for_each(|id| self.alarm.ring(id));
    }

    /// Whether the session's lease has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// The session is over: whoever waits asks.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        drop(slot(&self.wished).take());
        let entries: Vec<_> = self.entries().drain().map(|(_, entry)| entry).collect();
        for entry in entries {
            entry.disarm();
            entry.ring();
            self.alarm.ring(entry.id);
        }
    }
}

impl Entry {
    /// A wake; the one before it is of no use any more.
    pub(crate) fn wake(&self) -> Wake {
        let (bell, wake) = Wake::pair();
        *slot(&self.bell) = Some(bell);
        wake
    }

    /// Whoever waits asks.
    pub(crate) fn ring(&self) {
        let bell = slot(&self.bell).take();
        if let Some(bell) = bell {
            bell.ring(Woken::Ask);
        }
    }

    /// What its key says, if it was seen to wait.
    pub(crate) fn waits(&self) -> Option<(Value, i64)> {
        slot(&self.waits).clone()
    }

    pub(crate) fn set_waits(&self, seen: Option<(Value, i64)>) {
        *slot(&self.waits) = seen;
    }

    /// The key that it waits for, if that is one, was told of since nothing, and is watched still.
    pub(crate) fn behind(&self) -> Option<(Vec<u8>, i64)> {
        let is_armed = slot(&self.ahead).as_ref().is_some_and(Armed::is_armed);
        slot(&self.behind).clone().filter(|_| is_armed)
    }

    pub(crate) fn set_behind(&self, key: Option<(Vec<u8>, i64)>) {
        *slot(&self.behind) = key;
    }

    /// Whether nothing tells that its key is gone, and nobody is about to see to that. It is the caller's then.
    pub(crate) fn take_unwatched(&self) -> bool {
        !slot(&self.own).as_ref().is_some_and(Armed::is_armed) && !self.is_due.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn watch_own(&self, armed: Armed) {
        drop(slot(&self.own).replace(armed));
        self.is_due.store(false, Ordering::Release);
    }

    pub(crate) fn watch_ahead(&self, armed: Option<Armed>) {
        drop(std::mem::replace(&mut *slot(&self.ahead), armed));
    }

    fn disarm(&self) {
        drop(slot(&self.own).take());
        drop(slot(&self.ahead).take());
    }
}

fn slot<T>(slot: &Mutex<T>) -> MutexGuard<'_, T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}
