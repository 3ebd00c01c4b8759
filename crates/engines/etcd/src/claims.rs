//! How a claim is entered, and asked about.

use std::{sync::Arc, time::Duration};

use bramah_core::{Claim, Fence, Keep, Moment, Result, Standing, Wait, line};

use crate::{
    behind::reads,
    engine::Inner,
    error::Trouble,
    layout::Span,
    ops::{self, Done},
    proto::{
        etcdserverpb::{RequestOp, TxnRequest},
        mvccpb::KeyValue,
    },
    queue::{Obstacle, Place, Queue},
    room::{Entry, Room, Unwatched},
    turnstile::Turnstile,
    value::{Told, Value, read_floor},
    watches::Wanted,
};

/// The longest time that a waiter trusts to be told.
const TRUST: Duration = Duration::from_secs(5);

/// The same for one of many: that its watch is there is seen to by the stream that carries it.
pub(crate) const LONG_TRUST: Duration = Duration::from_secs(30);

/// How long one of another capacity is waited for that is first in line and not known to hold: it may be on its way out, and the line
/// be free in a moment. And how often it is looked.
const REFUSAL: Duration = Duration::from_millis(250);
const LOOKS: Duration = Duration::from_millis(10);

/// How often one that takes no place tries to enter a line that was free when it was seen.
const GUARDED: usize = 3;

/// A claim with the names of what it is about, and until when it is dealt with.
pub(crate) struct Case<'c> {
    pub(crate) room: &'c Arc<Room>,
    pub(crate) claim: &'c Claim,
    turnstile: &'c Arc<Turnstile>,
    pub(crate) key: Vec<u8>,
    pub(crate) span: Span,
    floor: Vec<u8>,
    patience: Duration,
    until: Moment,
}

/// A line, and the fence that later ones have to be above.
struct Sight {
    queue: Queue,
    floor: Option<u64>,
}

/// What a case came to: an answer, or a look that has to be taken again.
enum Turn {
    Answer(Standing),
    Again,
}

impl Inner {
    /// Enters, or asks.
    pub(crate) async fn claim(self: &Arc<Self>, claim: &Claim) -> Result<Standing> {
        let room = self.room(claim.id.session)?;
        let ttl = room.terms().ttl;
        let patience = self.net.patience(ttl);
        let turnstile = self.turnstiles.of(&claim.name);
        let wait = (ttl / 3).saturating_sub(patience);
        let _turn = match !claim.again && claim.wait == Wait::Line {
            true => {
                let silent = |_| self.net.explain(&Trouble::Silent(wait));
                Some(turnstile.pass(wait).await.map_err(silent)?)
            }
            false => None,
        };
        let case = Case {
            room: &room,
            claim,
            turnstile: &turnstile,
            key: self.layout.claim(claim),
            span: self.layout.line(&claim.name),
            floor: self.layout.floor(&claim.name),
            patience,
            until: self.clock.now() + patience,
        };
        // An answer tells that the claim lives for a ttl from now on: the lease has to. That it was proven a moment ago is as good.
        let standing = if room.is_fresh() {
            self.stand(&case).await?
        } else {
            // What is seldom needed is kept out of the way of the rest: a call that is small is handed over faster.
            let both = Box::pin(async { tokio::join!(self.keep(&room, patience), self.stand(&case)) });
            let (proof, standing) = both.await;
            proof?;
            standing?
        };
        if room.keep == Keep::Nobody && matches!(standing, Standing::Held { .. }) {
            Box::pin(self.stay(&case)).await?;
        }
        Ok(standing)
    }

    /// Makes sure that a hold of a session that nobody keeps does not end with its lease, which another process may be ending.
    async fn stay(&self, case: &Case<'_>) -> Result<()> {
        let terms = case.room.terms();
        let stays = self.check_unended(case.claim, [terms.lease, terms.former], case.patience).await;
        if stays.map_err(|trouble| self.net.explain(&trouble))? {
            return Ok(());
        }
        case.room.end();
        Err(self.over())
    }

    async fn stand(self: &Arc<Self>, case: &Case<'_>) -> Result<Standing> {
        let mut sight = match case.claim.again {
            true => match self.grasp(case).await? {
                Ok(sight) => sight,
                Err(standing) => return Ok(standing),
            },
            false => match self.enter(case).await? {
                Ok(sight) => sight,
                Err(standing) => return Ok(standing),
            },
        };
        loop {
            match self.judge(case, &sight).await? {
                Turn::Answer(standing) => return Ok(standing),
                Turn::Again => sight = self.look(case).await?,
            }
        }
    }

    pub(crate) async fn ask(&self, case: &Case<'_>, txn: TxnRequest) -> Result<Done> {
        let left = case.until.since(self.clock.now()).max(Duration::from_millis(1));
        match self.net.txn(txn, left).await {
            Err(trouble) if trouble.is_lease_gone() => {
                case.room.end();
                Err(self.over())
            }
            // What was left of the time says nothing to anybody.
            Err(Trouble::Silent(_)) => Err(self.net.explain(&Trouble::Silent(case.patience))),
            done => done.map_err(|trouble| self.net.explain(&trouble)),
        }
    }

    /// The line as everybody agrees on it now.
    async fn look(&self, case: &Case<'_>) -> Result<Sight> {
        let success = vec![ops::read(&case.span), ops::read(&Span::one(&case.floor))];
        let done = self.ask(case, TxnRequest { success, ..TxnRequest::default() }).await?;
        Ok(case.sight(done))
    }

    /// Takes it, if this claim has waited for all of it and nobody is ahead: in one transaction, whose revision is the fence. Else
    /// the line, or the answer.
    async fn grasp(&self, case: &Case<'_>) -> Result<Result<Sight, Standing>> {
        let claim = case.claim;
        let entry = case.room.known(claim.id).filter(|_| claim.is_exclusive() && claim.floor.is_none());
        let Some((entry, (value, written))) =
            entry.and_then(|entry| entry.waits().map(|waits| (entry, waits)))
        else {
            return self.look(case).await.map(Ok);
        };
        if let Some(standing) = self.still_behind(case, &entry).await? {
            return Ok(Err(standing));
        }
        let granted_us = Some(self.clock.wall_us());
        let held = Value { granted_us, fence: Told::Here, note: claim.note.clone(), ..value };
        let txn = TxnRequest {
            compare: vec![
                ops::created(&Span::one(&case.key), entry.create),
                ops::written(&case.key, written),
                ops::none_before(&case.span, entry.create),
                ops::created(&Span::one(&case.floor), 0),
            ],
            success: vec![ops::put(&case.key, held.encode(), case.room.terms().lease)],
            failure: reads(claim, &case.span, &case.floor, Some(entry.create)),
        };
        let done = self.ask(case, txn).await?;
        if !done.succeeded {
            return self.make_out(case, done).await;
        }
        entry.set_waits(None);
        entry.watch_ahead(None);
        self.watch_own(case.room, &entry, &case.key, done.revision);
        let fence = Fence::new(u64::try_from(done.revision).unwrap_or_default());
        Ok(Err(Standing::Held { fence: Some(fence), left: None }))
    }

    /// The line that was read, or the answer if it is a long one and that is enough.
    async fn make_out(&self, case: &Case<'_>, mut done: Done) -> Result<Result<Sight, Standing>> {
        if !done.is_cut {
            return Ok(Ok(case.sight(done)));
        }
        match self.stand_behind(case, &mut done) {
            Some(standing) => Ok(Err(standing)),
            None => self.look(case).await.map(Ok),
        }
    }

    /// Enters the line, and shows it; or the answer of who does not wait, or is one of many.
    ///
    /// A line in which nobody is, and whose fences nobody has raised, takes one transaction: what is created there is held, with the
    /// revision of its creation as fence. It is sent alone where nobody of this process is in the line, for what it is to do otherwise
    /// would double what etcd has to write down.
    async fn enter(self: &Arc<Self>, case: &Case<'_>) -> Result<Result<Sight, Standing>> {
        let lease = case.room.terms().lease;
        let now_us = self.clock.wall_us();
        let value = |granted| Value::entering(case.claim, case.room, now_us, granted);
        let put = |granted| ops::put(&case.key, value(granted).encode(), lease);
        let first = |failure: Vec<RequestOp>| TxnRequest {
            compare: vec![ops::created(&case.span, 0), ops::created(&Span::one(&case.floor), 0)],
            success: vec![put(true)],
            failure,
        };
        let line_up = || {
            ops::nested(TxnRequest {
                compare: vec![ops::created(&Span::one(&case.key), 0)],
                success: vec![put(false)],
                failure: Vec::new(),
            })
        };
        if case.claim.wait == Wait::Line {
            if !case.turnstile.is_busy() {
                let done = self.ask(case, first(Vec::new())).await?;
                if done.succeeded {
                    return Ok(Ok(case.behind(Vec::new(), done, value(true), lease)));
                }
            }
            let seen = reads(case.claim, &case.span, &case.floor, None);
            let success = [vec![line_up()], seen].concat();
            let done = self.ask(case, TxnRequest { success, ..TxnRequest::default() }).await?;
            return self.make_out(case, done).await;
        }
        let floor = ops::read(&Span::one(&case.floor));
        let all = vec![ops::read(&case.span), floor.clone()];
        let mut done = self.ask(case, first(all.clone())).await?;
        let (mut before, mut tried) = (Vec::new(), 0);
        loop {
            if done.succeeded {
                return Ok(Ok(case.behind(before, done, value(true), lease)));
            }
            let sight = case.sight(done);
            let queue = &sight.queue;
            if queue.places.iter().any(|place| place.kv.key == case.key && place.id() == case.claim.id) {
                return Ok(Ok(sight));
            }
            if let Some(other) = queue.other_kind(queue.places.len(), case.claim.capacity) {
                self.wait_for_other(case, other).await?;
                (before, done) = (Vec::new(), self.ask(case, first(all.clone())).await?);
                continue;
            }
            if queue.find(&case.key).is_some() || !queue.would_hold(case.claim.capacity, case.claim.weight) {
                return Ok(Err(self.decline(case, queue)));
            }
            let guarded = TxnRequest {
                compare: vec![
                    ops::created(&Span::one(&case.key), 0),
                    ops::unwritten_since(&case.span, queue.revision),
                ],
                success: vec![put(true), floor.clone()],
                failure: all.clone(),
            };
            if tried == GUARDED {
                break;
            }
            tried += 1;
            before = sight.queue.places;
            done = self.ask(case, guarded).await?;
        }
        // Names below ours change all the time, and the guard cannot tell them from ours: a place is taken, and given up again.
        let success = [vec![line_up()], all].concat();
        let sight = case.sight(self.ask(case, TxnRequest { success, ..TxnRequest::default() }).await?);
        let queue = &sight.queue;
        let ours = queue.places.iter().position(|place| place.id() == case.claim.id);
        match ours.and_then(|at| queue.places.get(at).map(|place| (at, place))) {
            Some((at, place)) if queue.holders(case.claim.capacity) <= at => {
                self.take_back(case, place.kv.create_revision).await?;
                Ok(Err(self.decline(case, queue)))
            }
            Some(_) => Ok(Ok(sight)),
            None => Ok(Err(self.decline(case, queue))),
        }
    }

    /// The answer to one that takes no place.
    fn decline(self: &Arc<Self>, case: &Case<'_>, queue: &Queue) -> Standing {
        if case.claim.wait == Wait::No {
            return Standing::Refused;
        }
        let wanted =
            Wanted { span: case.span.clone(), from: queue.revision + 1, puts: false, children: true };
        Standing::Queued { ahead: None, wake: self.watches.wake(wanted), sleep: TRUST }
    }

    /// Where the claim stands in what was seen. What is seen is what everybody agrees on, so this is also the proof that the key is
    /// there still: with our lease, created when we created it, and by this claim.
    async fn judge(self: &Arc<Self>, case: &Case<'_>, sight: &Sight) -> Result<Turn> {
        let (claim, queue) = (case.claim, &sight.queue);
        let found = queue.find(&case.key).and_then(|at| queue.places.get(at).map(|place| (at, place)));
        let Some((at, place)) = found else {
            case.room.forget(claim.id);
            return Ok(Turn::Answer(Standing::Gone));
        };
        let ours = place.value.as_ref().filter(|value| value.id == claim.id);
        let Some(value) = ours.filter(|_| case.is_on_lease(&place.kv)) else {
            return Ok(Turn::Answer(self.wait_for_former(case, queue)));
        };
        if let Some(other) = queue.other_kind(at, claim.capacity).filter(|_| !claim.again) {
            if let Err(conflict) = self.wait_for_other(case, other).await {
                self.take_back(case, place.kv.create_revision).await?;
                return Err(conflict);
            }
            return Ok(Turn::Again);
        }
        let Some(entry) = self.admit(case, place.kv.create_revision) else {
            case.room.forget(claim.id);
            return Ok(Turn::Answer(Standing::Gone));
        };
        self.watch_own(case.room, &entry, &case.key, queue.revision);
        if queue.holders(claim.capacity) > at {
            entry.watch_ahead(None);
            entry.set_waits(None);
            return self.hold(case, sight, place, value).await;
        }
        entry.set_waits(Some((value.clone(), place.kv.mod_revision)));
        let wake = entry.wake();
        self.watch_ahead(case, queue, at, &entry);
        let ahead = u32::try_from(at).ok();
        Ok(Turn::Answer(Standing::Queued { ahead, wake, sleep: TRUST }))
    }

    /// A claim of another capacity is first in line: that is a conflict if it holds, or stays. A short wait if it may be going.
    async fn wait_for_other(&self, case: &Case<'_>, other: &Value) -> Result<()> {
        let left = case.until.since(self.clock.now());
        if other.granted_us.is_some() || case.patience.saturating_sub(left) > REFUSAL.min(case.patience / 2) {
            return Err(case.claim.conflict(other.capacity));
        }
        tokio::time::sleep(LOOKS).await;
        Ok(())
    }

    /// The claim was seen in its line, as created then. `None` if that is another one than was seen before.
    pub(crate) fn admit(&self, case: &Case<'_>, create: i64) -> Option<Arc<Entry>> {
        case.room.admit(case.claim.id, &case.key, create, || case.turnstile.clone().admit())
    }

    /// Another claim of this session is in the way, and on its way out.
    fn wait_for_former(self: &Arc<Self>, case: &Case<'_>, queue: &Queue) -> Standing {
        if case.claim.again {
            return Standing::Gone;
        }
        let span = Span::one(&case.key);
        let wanted = Wanted { span, from: queue.revision + 1, puts: false, children: false };
        Standing::Queued { ahead: None, wake: self.watches.wake(wanted), sleep: TRUST }
    }

    /// Has core look at the claim, and its waiter ask, when its key is gone. Not at once: a lock that is held for a moment is not
    /// worth a watch, and one that begins later looks back to where it should have begun.
    pub(crate) fn watch_own(&self, room: &Arc<Room>, entry: &Arc<Entry>, key: &[u8], seen: i64) {
        if entry.take_unwatched() {
            let wanted = Wanted { span: Span::one(key), from: seen + 1, puts: false, children: false };
            let (room, entry, watches) = (Arc::downgrade(room), Arc::downgrade(entry), self.watches.clone());
            self.young.add(Unwatched { wanted, room, entry, watches });
        }
    }

    /// Has it ask when this key goes, which is just ahead of it.
    pub(crate) fn watch_key(&self, entry: &Arc<Entry>, key: &[u8], create: i64, seen: i64) {
        let wanted = Wanted { span: Span::one(key), from: seen + 1, puts: false, children: false };
        self.watch_for(entry, wanted);
        entry.set_behind(Some((key.to_vec(), create)));
    }

    fn watch_for(&self, entry: &Arc<Entry>, wanted: Wanted) {
        let mine = Arc::downgrade(entry);
        let armed = self.watches.arm(wanted, move || {
            if let Some(entry) = mine.upgrade() {
                entry.ring();
            }
        });
        entry.set_behind(None);
        entry.watch_ahead(Some(armed));
    }

    fn watch_ahead(&self, case: &Case<'_>, queue: &Queue, at: usize, entry: &Arc<Entry>) {
        let from = queue.revision + 1;
        let wanted = match queue.obstacle(at, case.claim.capacity, case.claim.weight) {
            Obstacle::Key { key, puts } => Wanted { span: Span::one(key), from, puts, children: false },
            Obstacle::Line => Wanted { span: case.span.clone(), from, puts: false, children: true },
        };
        self.watch_for(entry, wanted);
    }

    /// It is held. What others are to know of that is written into its key, if its key is as it was seen.
    async fn hold(&self, case: &Case<'_>, sight: &Sight, place: &Place, value: &Value) -> Result<Turn> {
        let (claim, kv) = (case.claim, &place.kv);
        let fence = claim.is_exclusive().then(|| sight.fence(place, claim.floor));
        let mut held = value.clone();
        held.note = claim.note.clone();
        // Readers beside each other need not tell each other: nobody waits for a reader to be granted.
        if claim.is_exclusive() || claim.capacity != line::WHOLE {
            held.granted_us = held.granted_us.or_else(|| Some(self.clock.wall_us()));
        }
        if fence != place.fence() {
            held.fence = fence.map_or(Told::Nothing, Told::This);
        }
        if held != *value {
            held.fence = fence.map_or(Told::Nothing, Told::This);
            let mut success = vec![ops::put(&case.key, held.encode(), kv.lease)];
            if let Some(raised) = fence.filter(|fence| sight.is_ahead(*fence)) {
                success.push(ops::put(&case.floor, raised.to_string().into_bytes(), 0));
            }
            let compare = vec![
                ops::created(&Span::one(&case.key), kv.create_revision),
                ops::written(&case.key, kv.mod_revision),
            ];
            let done = self.ask(case, TxnRequest { compare, success, failure: Vec::new() }).await?;
            if !done.succeeded {
                return Ok(Turn::Again);
            }
        }
        Ok(Turn::Answer(Standing::Held { fence, left: None }))
    }

    /// Takes a claim out that was just put in.
    async fn take_back(&self, case: &Case<'_>, create: i64) -> Result<()> {
        case.room.forget(case.claim.id);
        let compare = vec![ops::created(&Span::one(&case.key), create)];
        let success = vec![ops::delete(&case.key)];
        self.ask(case, TxnRequest { compare, success, failure: Vec::new() }).await.map(drop)
    }
}

impl Case<'_> {
    /// What two reads gave: the line, and the floor.
    fn sight(&self, mut done: Done) -> Sight {
        let queue = Queue::of(&self.span.from, done.take(0), done.revision);
        Sight { queue, floor: done.take(1).pop().and_then(|kv| read_floor(&kv.value)) }
    }

    /// The line that we have just entered, behind those. Some of them may have left.
    fn behind(&self, mut places: Vec<Place>, mut done: Done, value: Value, lease: i64) -> Sight {
        let kv = KeyValue {
            key: self.key.clone(),
            create_revision: done.revision,
            mod_revision: done.revision,
            version: 1,
            value: Vec::new(),
            lease,
        };
        places.push(Place { kv, value: Some(value) });
        let floor = done.take(0).pop().and_then(|kv| read_floor(&kv.value));
        Sight { queue: Queue { places, revision: done.revision }, floor }
    }

    pub(crate) fn is_on_lease(&self, kv: &KeyValue) -> bool {
        let terms = self.room.terms();
        kv.lease == terms.lease || kv.lease == terms.former
    }
}

impl Sight {
    /// The fence of one that holds: as it was granted, or the revision at which it was seen to hold, above all that were told.
    fn fence(&self, place: &Place, floor: Option<Fence>) -> Fence {
        let has_own = place.value.as_ref().is_some_and(|value| matches!(value.fence, Told::This(_)));
        let above = self.floor.map_or(0, |floor| floor.saturating_add(1));
        let granted = match place.fence() {
            Some(fence) if has_own || fence.get() >= above => fence,
            _ => Fence::new(u64::try_from(self.queue.revision).unwrap_or_default().max(above)),
        };
        floor.map_or(granted, |floor| floor.max(granted))
    }

    /// Whether a fence is one that no revision of the store has reached: the next grant has to know.
    fn is_ahead(&self, fence: Fence) -> bool {
        fence.get() > u64::try_from(self.queue.revision).unwrap_or_default() && Some(fence.get()) > self.floor
    }
}
