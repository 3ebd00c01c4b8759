//! The inside of a session: its seats, its deadlines, and the way out.

use std::{
    collections::HashSet,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use slab::Slab;

use crate::{
    Claim, ClaimId, Clock, Engine, Error, ErrorKind, Exit, Keep, Keeper, Liveness, Moment, Opening, Profile,
    Reply, Result, SessionId, Standing, Strays, Wait,
    calls::InFlight,
    departures::Departures,
    ends::{self, Gone},
    gate::{Gate, Pass, Turns},
    keeper::{Due, Order},
    parting::{Parting, settle},
    seat::{Phase, Seat},
    trouble::Told,
};

pub(crate) use crate::{
    flight::{Ending, Flight, Refusal},
    want::Want,
};

/// What user code holds; the keeper and departing claims hold the [`Core`] only, so that the last handle is noticed.
pub(crate) struct Handle {
    pub(crate) core: Arc<Core>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let core = &self.core;
        if core.opening.keep == Keep::Nobody {
            core.keeper.send(Order::Forget(core.id()));
            return;
        }
        let done = core.begin_close();
        if core.keeper.is_own_thread() {
            ends::wait(done);
        }
    }
}

/// The claims that are meant to outlive us.
#[derive(Default)]
struct Left {
    /// Their numbers: no strays, although nobody here waits for them.
    seqs: HashSet<u64>,
    /// The longest ttl that one of them was left for.
    longest: Duration,
}

/// The session itself.
pub(crate) struct Core {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) profile: Profile,
    pub(crate) clock: Clock,
    pub(crate) keeper: Keeper,
    pub(crate) opening: Arc<Opening>,
    /// What the store is called, if somebody said.
    pub(crate) store: Option<Arc<str>>,
    pub(crate) gate: Gate,
    pub(crate) turns: Turns,
    pub(crate) departures: Departures,
    ttl_ns: AtomicU64,
    seq: AtomicU64,
    seats: Mutex<Slab<Arc<Seat>>>,
    left: Mutex<Left>,
    /// Whether the keeper knows that there is something to renew.
    armed: AtomicBool,
    /// Whether it knows that there are places in line, which are renewed more often than holds.
    places_armed: AtomicBool,
    /// Until when a message of ours may still reach the store without our knowing. Renewals, which list such a claim,
    /// go on until then, also when there is nothing to renew.
    doubt_until_ns: AtomicU64,
    /// Why nothing is granted although nobody may hold it, and until when that was true.
    hindrance: Told,
    /// Why the store does not answer, while somebody waits for it, and until when that is taken to be so.
    outage: Told,
    closing: Mutex<Option<Arc<Gone>>>,
}

impl Core {
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        keeper: Keeper,
        opening: Arc<Opening>,
        ttl: Duration,
        store: Option<Arc<str>>,
    ) -> Self {
        let core = Self {
            profile: engine.profile(),
            engine,
            clock: keeper.clock().clone(),
            keeper,
            opening,
            store,
            gate: Gate::default(),
            turns: Turns::default(),
            departures: Departures::default(),
            ttl_ns: AtomicU64::new(0),
            seq: AtomicU64::new(0),
            seats: Mutex::new(Slab::new()),
            left: Mutex::default(),
            armed: AtomicBool::new(false),
            places_armed: AtomicBool::new(false),
            doubt_until_ns: AtomicU64::new(0),
            hindrance: Told::default(),
            outage: Told::default(),
            closing: Mutex::new(None),
        };
        core.set_ttl(ttl);
        core
    }

    pub(crate) fn id(&self) -> SessionId {
        self.opening.session
    }

    fn set_ttl(&self, ttl: Duration) {
        self.ttl_ns.store(u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// As granted; `MAX` where claims do not expire by time.
    pub(crate) fn ttl(&self) -> Duration {
        match self.ttl_ns.load(Ordering::Relaxed) {
            u64::MAX => Duration::MAX,
            ns => Duration::from_nanos(ns),
        }
    }

    /// The ttl to pace renewals and repeats by, also where claims do not expire by time.
    pub(crate) fn pace(&self) -> Duration {
        self.ttl().min(self.opening.ttl)
    }

    /// Until when a claim is good that the store confirmed in a call sent at `sent`.
    pub(crate) fn good_until(&self, sent: Moment, lease: Option<Duration>) -> Moment {
        let span = lease.unwrap_or_else(|| self.ttl());
        sent + span - drift(span)
    }

    /// Until when a place in line is good that the store confirmed in a call sent at `sent`; and a grant that was pushed
    /// to it, until it is renewed for the first time.
    pub(crate) fn place_until(&self, sent: Moment) -> Moment {
        self.good_until(sent, self.has_brief_places().then_some(Claim::MAX_KEPT))
    }

    /// Whether places in line are kept for less long than holds.
    pub(crate) fn has_brief_places(&self) -> bool {
        self.profile.liveness == Liveness::Lease && self.ttl() > Claim::MAX_KEPT
    }

    /// Tells the keeper that there is a place in line to renew, if it does not know.
    pub(crate) fn arm_places(&self) {
        if self.has_brief_places()
            && !self.places_armed.load(Ordering::Relaxed)
            && !self.places_armed.swap(true, Ordering::AcqRel)
        {
            self.keeper.send(Order::ArmPlaces(self.id()));
        }
    }

    /// Opens the session again after the store has dropped it.
    pub(crate) async fn reopen(self: &Arc<Self>) -> Result<()> {
        // What was left of it is to be kept for its time, also if another task has opened the session again meanwhile.
        let longest = self.left().longest;
        let opening = match longest > self.opening.ttl {
            true => Arc::new(Opening { ttl: longest, ..(*self.opening).clone() }),
            false => self.opening.clone(),
        };
        // The ttl belongs to the answer, also if nobody waits for it any more: claims go on in the session that was opened.
        let (core, opened) = (self.clone(), self.engine.open(opening));
        let reply = Reply::later(async move {
            let ttl = settle(opened).await?;
            core.set_ttl(if ttl == Duration::MAX { ttl } else { ttl.min(core.opening.ttl) });
            Ok(())
        });
        self.whole(reply).await
    }

    /// Asks about a hold and awaits the answer, as [`whole`](Core::whole). `None`: the claim is being left, and is asked about no more.
    pub(crate) async fn ask_about(
        self: &Arc<Self>,
        seat: &Arc<Seat>,
        question: Arc<Claim>,
    ) -> Result<Option<Standing>> {
        let Some(call) = InFlight::new(seat, self.clock.now() + self.pace() * 2) else { return Ok(None) };
        let asked = self.engine.claim(question);
        let reply = Reply::later(async move {
            let answer = settle(asked).await;
            if answer.is_ok() {
                call.answered();
            }
            answer
        });
        self.whole(reply).await.map(Some)
    }

    /// Awaits an answer. If the caller goes away meanwhile, the keeper finishes the call: none is dropped half-way.
    pub(crate) async fn whole<T: Send + 'static>(self: &Arc<Self>, reply: Reply<T>) -> Result<T> {
        let mut call = Call { core: self, reply: Some(reply) };
        let answer = match &mut call.reply {
            Some(reply) => reply.await,
            None => Err(self.closed_error()),
        };
        call.reply = None;
        answer
    }

    pub(crate) fn seats(&self) -> std::sync::MutexGuard<'_, Slab<Arc<Seat>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a claim with an id of its own and takes a seat for it, before anything is sent.
    pub(crate) fn sit(self: &Arc<Self>, want: &Want, wait: Wait, pass: Option<Pass>) -> Arc<Seat> {
        let claim = Arc::new(Claim {
            id: ClaimId { session: self.id(), seq: self.seq.fetch_add(1, Ordering::Relaxed) + 1 },
            name: want.name.clone(),
            capacity: want.capacity,
            weight: want.weight,
            wait,
            again: false,
            floor: None,
            ttl: self.ttl(),
            lease: want.lease,
            note: want.note.clone(),
        });
        let seat = {
            let mut seats = self.seats();
            let entry = seats.vacant_entry();
            let seat = Arc::new(Seat::new(entry.key(), claim, pass));
            entry.insert(seat.clone());
            seat
        };
        self.arm();
        seat
    }

    /// Tells the keeper that there is something to renew, if it does not know.
    pub(crate) fn arm(self: &Arc<Self>) {
        if !self.armed.load(Ordering::Relaxed) && !self.armed.swap(true, Ordering::AcqRel) {
            self.keeper.send(Order::Arm(self.id()));
        }
    }

    /// A message of ours was not answered: it may arrive as late as a ttl from now.
    pub(crate) fn doubt(self: &Arc<Self>) {
        let until = self.clock.now() + self.pace();
        self.doubt_until_ns.fetch_max(until.ns(), Ordering::AcqRel);
        self.arm();
    }

    pub(crate) fn is_in_doubt(&self, now: Moment) -> bool {
        now.ns() < self.doubt_until_ns.load(Ordering::Acquire)
    }

    /// The store does not take part, and is asked again within `span`.
    pub(crate) fn hinder(&self, error: Error, span: Duration) {
        self.hindrance.tell(self.clock.now() + span, error);
    }

    pub(crate) fn hindrance(&self) -> Option<Error> {
        self.hindrance.get(&self.clock)
    }

    /// The store did not answer a waiter, which asks again; this is known to be over after `span` at the latest.
    pub(crate) fn begin_outage(&self, error: Error, span: Duration) {
        self.outage.tell(self.clock.now() + span, error);
    }

    /// The store has answered somebody.
    pub(crate) fn end_outage(&self) {
        self.outage.clear();
    }

    /// Why the store does not answer. Of some of its nodes perhaps: other waiters may be served meanwhile.
    pub(crate) fn outage(&self) -> Option<Error> {
        self.outage.get(&self.clock)
    }

    /// Whether a message that entered the claim may come after it has left, and no renewal would find it.
    pub(crate) fn may_come_late(&self, seat: &Seat) -> bool {
        self.profile.strays == Strays::Unlisted && seat.is_in_doubt(&self.clock)
    }

    /// Those of the claims found in the store that nobody here knows of.
    pub(crate) fn strays(&self, found: Vec<Arc<Claim>>) -> Vec<Arc<Claim>> {
        if found.is_empty() {
            return found;
        }
        // What was lost is nobody's any more, also while its guard is there. A fixed lease has a timer, which leaves it on time.
        let lives = |seat: &Seat| seat.phase() != Phase::Lost || seat.claim().lease.is_some();
        let mut known: HashSet<u64> =
            self.seats().iter().filter(|(_, seat)| lives(seat)).map(|(_, seat)| seat.id.seq).collect();
        known.extend(&self.left().seqs);
        found.into_iter().filter(|claim| !known.contains(&claim.id.seq)).collect()
    }

    /// Called by the keeper when a round found nothing to do. Whether it may stop.
    pub(crate) fn disarm(&self) -> bool {
        self.armed.store(false, Ordering::Release);
        let idle = self.seats().is_empty();
        if !idle {
            self.armed.store(true, Ordering::Release);
        }
        idle
    }

    /// Called by the keeper when it found no place in line. Whether it may stop to look for them.
    pub(crate) fn disarm_places(&self) -> bool {
        self.places_armed.store(false, Ordering::Release);
        let idle = !self.seats().iter().any(|(_, seat)| seat.is_brief());
        if !idle {
            self.places_armed.store(true, Ordering::Release);
        }
        idle
    }

    /// The claim has left the store for good, or was never in it.
    pub(crate) fn forget(&self, seat: &Arc<Seat>) {
        seat.leave();
        seat.give_back_pass();
        self.forget_departure(seat);
        let empty = {
            let mut seats = self.seats();
            if seats.get(seat.key).is_some_and(|other| Arc::ptr_eq(other, seat)) {
                seats.remove(seat.key);
            }
            seats.is_empty()
        };
        if empty && let Some(gone) = &*self.closing.lock().unwrap_or_else(PoisonError::into_inner) {
            gone.emptied.notify_one();
        }
    }

    fn left(&self) -> std::sync::MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the session be kept for `ttl`, where that is not a matter of each claim. It is never kept for less long than what it has
    /// is good for: its own ttl, and the longest that a claim was left for.
    pub(crate) async fn keep_for(self: &Arc<Self>, ttl: Duration) -> Result<()> {
        let ttl = match self.profile.liveness {
            Liveness::Lease => ttl,
            Liveness::Session | Liveness::Connection => {
                let mut left = self.left();
                left.longest = left.longest.max(ttl).max(self.opening.ttl);
                left.longest
            }
        };
        if ttl != self.opening.ttl {
            self.whole(self.engine.open(Arc::new(Opening { ttl, ..(*self.opening).clone() }))).await?;
        }
        Ok(())
    }

    /// Lets go of a claim without withdrawing it.
    pub(crate) fn leave_behind(&self, seat: &Arc<Seat>) {
        self.left().seqs.insert(seat.id.seq);
        self.forget(seat);
    }

    /// Withdraws a claim: at once where the engine can, else by the keeper, behind whatever is still in flight.
    pub(crate) fn depart(self: &Arc<Self>, seat: Arc<Seat>, flight: Flight, doubt: bool) {
        if !seat.leave() {
            return;
        }
        let doubt = doubt || self.may_come_late(&seat);
        let flight = match flight {
            Flight::Landed | Flight::Refused if !doubt => {
                // This runs in drops: also in a panic, after the runtime's end, outside of one.
                let asked = AssertUnwindSafe(|| self.engine.withdraw(seat.claim(), Exit::Own).into_now());
                match catch_unwind(asked) {
                    Ok(Ok(Ok(()))) => return self.forget(&seat),
                    Ok(Err(reply)) => Flight::Withdraw(reply, Refusal::of(&flight)),
                    Ok(Ok(Err(_))) | Err(_) => flight,
                }
            }
            flight => flight,
        };
        self.hand_over(seat, flight, doubt);
    }

    /// Whether a hold is held now. One that has run out is declared lost and withdrawn.
    pub(crate) fn is_held(self: &Arc<Self>, seat: &Arc<Seat>) -> bool {
        if seat.phase() == Phase::Held && seat.lapse(self.clock.now()) {
            self.end_hold(seat, Ending::RanOut);
        }
        seat.phase() == Phase::Held
    }

    /// Has a hold withdrawn that was lost and that the store may have still: also while its guard is kept, which would keep its
    /// own session from the lock where that has one seat.
    pub(crate) fn end_hold(self: &Arc<Self>, seat: &Arc<Seat>, ending: Ending) {
        match ending {
            Ending::NotHeld => self.hand_over(seat.clone(), Flight::Landed, false),
            Ending::RanOut => {
                self.note_departure(seat);
                let at = self.clock.now() + drift(self.pace());
                let (seat, core) = (Arc::downgrade(seat), Arc::downgrade(self));
                self.keeper.send(Order::Time { at, seat, core, what: Due::Leave });
            }
        }
    }

    /// The store said that it does not have a hold as held.
    pub(crate) fn lose_unheld(self: &Arc<Self>, seat: &Arc<Seat>) {
        if seat.lose() {
            self.end_hold(seat, Ending::NotHeld);
        }
    }

    /// A claim is on its way out and not by its caller: who tries the lock waits for that.
    pub(crate) fn note_departure(&self, seat: &Seat) {
        self.departures.begin(&seat.claim().name, &seat.departure);
    }

    /// It does not stand in the store any more.
    pub(crate) fn forget_departure(&self, seat: &Seat) {
        self.departures.end(|| seat.claim().name.clone(), &seat.departure);
    }

    /// Gives a claim that is on its way out to the keeper.
    pub(crate) fn hand_over(self: &Arc<Self>, seat: Arc<Seat>, flight: Flight, doubt: bool) {
        self.note_departure(&seat);
        self.keeper.send(Order::Part(Parting { core: self.clone(), seat, flight, doubt }));
    }

    pub(crate) fn closed_error(&self) -> Error {
        Error::new(ErrorKind::Lost, "the session is closed; open a new one")
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Begins to close, once. Claims that are held or waiting are withdrawn, then the engine forgets the session.
    pub(crate) fn begin_close(self: &Arc<Self>) -> Arc<Gone> {
        let gone = {
            let mut closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(gone) = &*closing {
                return gone.clone();
            }
            closing.insert(Arc::default()).clone()
        };
        if self.seats().is_empty() {
            let asked = AssertUnwindSafe(|| self.engine.close(self.id()).into_now());
            if let Ok(Ok(_)) = catch_unwind(asked) {
                self.keeper.send(Order::Forget(self.id()));
                gone.tell();
                return gone;
            }
        }
        self.keeper.send(Order::Close(self.clone(), gone.clone()));
        gone
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// A call under way for a caller who may go away.
struct Call<'a, T: Send + 'static> {
    core: &'a Core,
    reply: Option<Reply<T>>,
}

impl<T: Send + 'static> Drop for Call<'_, T> {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            self.core.keeper.send(Order::Finish(Box::pin(async move { drop(settle(reply).await) })));
        }
    }
}

/// What clocks may differ by over `span`: one per cent and two milliseconds, as Redlock has it.
pub(crate) fn drift(span: Duration) -> Duration {
    if span == Duration::MAX { Duration::ZERO } else { span / 100 + Duration::from_millis(2) }
}
