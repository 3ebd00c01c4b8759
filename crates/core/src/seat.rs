//! What this process believes of one claim.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
};

use tokio::sync::Notify;

use crate::{Claim, ClaimId, Clock, Moment, calls::Calls, departures::Departure, gate::Pass};

/// One claim's life in this process, shared by its waiter or guard and by the keeper.
///
/// The phase only moves forward. In particular nothing leads back from `Lost`: a guard that has once said that it
/// is not held never says otherwise again, whatever a late renewal brings.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) id: ClaimId,
    /// Where it sits in the session's table.
    pub(crate) key: usize,
    claim: Mutex<Arc<Claim>>,
    phase: AtomicU8,
    /// Until when its place in line is good. Apart from the hold's deadline: a renewal of the place that is answered late must not
    /// move that.
    place_ns: AtomicU64,
    deadline_ns: AtomicU64,
    /// When the hold ends whatever is renewed: its `max_hold`.
    limit_ns: AtomicU64,
    /// Where the process ends a fixed lease: when. The hold lasts no longer than its session is proven either.
    lease_ns: AtomicU64,
    /// Whether the store has confirmed the hold to us. One that was pushed is kept no longer than its place was.
    proven: AtomicBool,
    /// Whether somebody has asked for it.
    asked: AtomicBool,
    /// Whether the session's record of departing names has it.
    pub(crate) departure: Departure,
    /// Until when a message that entered it, and was not answered, may still arrive: also after it has left.
    doubt_until_ns: AtomicU64,
    /// What is on its way to the store about it.
    pub(crate) calls: Calls,
    signal: Notify,
    /// The way through the gate, given back when the claim has left the store.
    pass: Mutex<Option<Pass>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Sent, not answered: it may be in line or not.
    Entering = 0,
    /// In line.
    Waiting = 1,
    /// Ours.
    Held = 2,
    /// Was in line or ours, and is not any more.
    Lost = 3,
    /// Being withdrawn.
    Left = 4,
}

impl Seat {
    pub(crate) fn new(key: usize, claim: Arc<Claim>, pass: Option<Pass>) -> Self {
        Self {
            id: claim.id,
            key,
            claim: Mutex::new(claim),
            phase: AtomicU8::new(Phase::Entering as u8),
            place_ns: AtomicU64::new(0),
            deadline_ns: AtomicU64::new(0),
            limit_ns: AtomicU64::new(u64::MAX),
            lease_ns: AtomicU64::new(u64::MAX),
            proven: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            departure: Departure::default(),
            doubt_until_ns: AtomicU64::new(0),
            calls: Calls::default(),
            signal: Notify::new(),
            pass: Mutex::new(pass),
        }
    }

    pub(crate) fn claim(&self) -> Arc<Claim> {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The claim as a question; from here on it is one.
    pub(crate) fn question(&self) -> Arc<Claim> {
        let mut claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner);
        if !claim.again {
            *claim = Arc::new(claim.asking());
        }
        claim.clone()
    }

    /// Changes the note of the claim and gives the question that tells the store.
    pub(crate) fn annotate(&self, note: Arc<str>) -> Arc<Claim> {
        let mut claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner);
        *claim = Arc::new(Claim { again: true, note, ..(**claim).clone() });
        claim.clone()
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Entering,
            1 => Phase::Waiting,
            2 => Phase::Held,
            3 => Phase::Lost,
            _ => Phase::Left,
        }
    }

    /// Moves on to `to` if that is ahead of where it is. Whether it did.
    fn advance(&self, to: Phase) -> bool {
        self.phase.fetch_max(to as u8, Ordering::AcqRel) < to as u8
    }

    /// The store confirmed that it is in line; its place is good until `until`.
    pub(crate) fn wait_until(&self, until: Moment) {
        self.place_ns.fetch_max(until.ns(), Ordering::AcqRel);
        self.advance(Phase::Waiting);
    }

    /// The store answered that it is held, good until `until`. Whether that still counts.
    pub(crate) fn hold_until(&self, until: Moment, now: Moment) -> bool {
        if now >= until {
            return false;
        }
        self.deadline_ns.store(until.ns(), Ordering::Release);
        self.proven.store(true, Ordering::Relaxed);
        self.advance(Phase::Held)
    }

    /// The same for a fixed lease that nobody but us ends, at `ends`: the store keeps it no longer than the session.
    pub(crate) fn hold_leased(&self, until: Moment, ends: Moment, now: Moment) -> bool {
        self.lease_ns.store(ends.ns(), Ordering::Release);
        self.hold_until(until.min(ends), now)
    }

    /// A grant was pushed. It counts while the place that it stands in does.
    pub(crate) fn hold_pushed(&self, now: Moment) -> bool {
        let place = self.place_ns.load(Ordering::Acquire);
        if now.ns() >= place {
            return false;
        }
        self.deadline_ns.store(place, Ordering::Release);
        self.advance(Phase::Held)
    }

    /// Has the hold end at `at`, whatever is renewed.
    pub(crate) fn limit(&self, at: Moment) {
        self.limit_ns.store(at.ns(), Ordering::Release);
    }

    /// Whether it is kept as a place in line is: it waits, or was granted by a push and not renewed since.
    pub(crate) fn is_brief(&self) -> bool {
        match self.phase() {
            Phase::Waiting => true,
            Phase::Held => !self.proven.load(Ordering::Relaxed),
            _ => false,
        }
    }

    /// A renewal that was sent while it was held confirmed it.
    pub(crate) fn prove(&self) {
        self.proven.store(true, Ordering::Relaxed);
    }

    /// A renewal confirmed it, good until `until`. Whether a hold had run out by then: it is declared lost, and stays so.
    pub(crate) fn confirm(&self, until: Moment, now: Moment) -> bool {
        match self.phase() {
            Phase::Waiting => {
                self.place_ns.fetch_max(until.ns(), Ordering::AcqRel);
                false
            }
            Phase::Held if now >= self.deadline() => self.lose(),
            Phase::Held => {
                let ends = self.lease_ns.load(Ordering::Acquire);
                // A lease that the store ends is never renewed.
                if ends != u64::MAX || self.claim().lease.is_none() {
                    self.deadline_ns.fetch_max(until.ns().min(ends), Ordering::AcqRel);
                }
                false
            }
            _ => false,
        }
    }

    /// A message that entered it was not answered: it may arrive as late as `until`.
    pub(crate) fn doubt(&self, until: Moment) {
        self.doubt_until_ns.fetch_max(until.ns(), Ordering::AcqRel);
    }

    /// Whether one may. Nearly never, and then the clock is not read.
    pub(crate) fn is_in_doubt(&self, clock: &Clock) -> bool {
        let until = self.doubt_until_ns.load(Ordering::Acquire);
        until != 0 && clock.now().ns() < until
    }

    /// Until when its place in line is good, or its hold.
    pub(crate) fn deadline(&self) -> Moment {
        Moment::from_ns(match self.phase() {
            Phase::Entering | Phase::Waiting => self.place_ns.load(Ordering::Acquire),
            _ => self.deadline_ns.load(Ordering::Acquire).min(self.limit_ns.load(Ordering::Acquire)),
        })
    }

    /// Declares a hold lost whose deadline has passed. Whether that was news.
    pub(crate) fn lapse(&self, now: Moment) -> bool {
        self.phase() == Phase::Held && now >= self.deadline() && self.lose()
    }

    /// Declares a hold lost. Whoever is told finds its pass free, or about to be. Whether that was news: then it is to be withdrawn,
    /// unless the store does not have it.
    pub(crate) fn lose(&self) -> bool {
        self.announce_pass();
        self.lose_place()
    }

    /// Declares a place in line gone. Whoever waits in it takes its pass along to the next one. Whether that was news.
    pub(crate) fn lose_place(&self) -> bool {
        let news = self.advance(Phase::Lost);
        self.signal.notify_waiters();
        news
    }

    /// Declares it lost because the store does not have it any more. A hold gives its pass back; whoever waits takes it along to the
    /// next place. Whether that was news.
    pub(crate) fn lose_gone(&self) -> bool {
        if self.phase() == Phase::Held {
            self.announce_pass();
        }
        let before = self.phase.fetch_max(Phase::Lost as u8, Ordering::AcqRel);
        if before == Phase::Held as u8 {
            self.give_back_pass();
        }
        self.signal.notify_waiters();
        before < Phase::Lost as u8
    }

    /// Declares it lost, whatever it was. Whether it stands in the store as far as is known, and nobody withdraws it yet.
    pub(crate) fn lose_any(&self) -> bool {
        let before = self.phase.fetch_max(Phase::Lost as u8, Ordering::AcqRel);
        self.announce_pass();
        self.signal.notify_waiters();
        (Phase::Waiting as u8..=Phase::Lost as u8).contains(&before)
    }

    /// Says that the pass will be given back.
    fn announce_pass(&self) {
        if let Some(pass) = &*self.pass.lock().unwrap_or_else(PoisonError::into_inner) {
            pass.leave();
        }
    }

    /// It is on its way out. Whether that was news.
    pub(crate) fn leave(&self) -> bool {
        let news = self.advance(Phase::Left);
        if news {
            self.announce_pass();
        }
        self.signal.notify_waiters();
        news
    }

    /// Somebody asks for it.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.signal.notify_waiters();
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Ends when it is lost or gone.
    pub(crate) async fn ended(&self) {
        self.until(|| self.phase() >= Phase::Lost).await;
    }

    /// Ends when somebody has asked for it.
    pub(crate) async fn asked(&self) {
        self.until(|| self.is_asked()).await;
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            let told = self.signal.notified();
            tokio::pin!(told);
            // Registered before the check, so that a change in between is not missed.
            told.as_mut().enable();
            if is_so() {
                return;
            }
            told.await;
        }
    }

    pub(crate) fn give_back_pass(&self) {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Takes the pass along to the next seat of the same attempt.
    pub(crate) fn take_pass(&self) -> Option<Pass> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Name, SessionId, Wait,
        gate::{Busy, Gate},
    };
    use std::time::Duration;

    fn seat() -> Seat {
        Seat::for_tests(None)
    }

    impl Seat {
        /// A seat of a claim that no store knows.
        pub(crate) fn for_tests(lease: Option<Duration>) -> Self {
            let claim = Claim {
                id: ClaimId { session: SessionId::from_bits(1), seq: 1 },
                name: Name::new("a").unwrap(),
                capacity: 1,
                weight: 1,
                wait: Wait::Line,
                again: false,
                floor: None,
                ttl: Duration::from_secs(1),
                lease,
                note: "".into(),
            };
            Self::new(0, Arc::new(claim), None)
        }
    }

    const fn at(ns: u64) -> Moment {
        Moment::from_ns(ns)
    }

    #[test]
    fn a_hold_that_ran_out_is_not_brought_back_by_a_late_renewal() {
        let seat = seat();
        assert!(seat.hold_until(at(100), at(10)));
        seat.confirm(at(200), at(50));
        assert_eq!(seat.deadline(), at(200));
        seat.confirm(at(900), at(250));
        assert_eq!(seat.phase(), Phase::Lost);
    }

    #[test]
    fn a_renewal_that_was_under_way_does_not_stretch_a_lease() {
        let seat = Seat::for_tests(Some(Duration::from_secs(1)));
        seat.wait_until(at(100));
        assert!(seat.hold_until(at(60), at(10)), "shorter than the place it was waited for in");
        seat.confirm(at(900), at(50));
        assert_eq!(seat.deadline(), at(60));
        assert!(!seat.lapse(at(59)) && seat.lapse(at(60)));
        assert!(!seat.lapse(at(61)), "it is lost once");
    }

    #[test]
    fn a_lease_that_the_process_ends_lasts_no_longer_than_its_session_is_proven() {
        let seat = Seat::for_tests(Some(Duration::from_secs(1)));
        assert!(seat.hold_leased(at(100), at(500), at(10)));
        assert_eq!(seat.deadline(), at(100));
        seat.confirm(at(300), at(50));
        assert_eq!(seat.deadline(), at(300), "the session was proven");
        seat.confirm(at(900), at(250));
        assert_eq!(seat.deadline(), at(500), "the lease has an end of its own");
        assert!(seat.lapse(at(500)));
    }

    #[test]
    fn a_renewal_of_the_place_does_not_stretch_a_lease_that_is_granted_meanwhile() {
        for _ in 0..2_000 {
            let seat = Seat::for_tests(Some(Duration::from_secs(1)));
            seat.wait_until(at(100));
            let ready = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    ready.wait();
                    seat.confirm(at(900), at(10));
                });
                ready.wait();
                assert!(seat.hold_until(at(60), at(10)));
            });
            assert_eq!(seat.deadline(), at(60));
        }
    }

    #[test]
    fn a_hold_ends_at_its_limit_whatever_is_renewed() {
        let seat = seat();
        assert!(seat.hold_until(at(100), at(10)));
        seat.limit(at(50));
        assert_eq!(seat.deadline(), at(50));
        assert!(!seat.confirm(at(900), at(20)));
        assert_eq!(seat.deadline(), at(50));
        assert!(seat.confirm(at(950), at(50)), "it has run out, and that is news");
        assert_eq!(seat.phase(), Phase::Lost);
    }

    #[test]
    fn a_grant_that_took_longer_than_it_lasts_does_not_count() {
        let seat = seat();
        assert!(!seat.hold_until(at(100), at(100)));
        assert_eq!(seat.phase(), Phase::Entering);
    }

    #[test]
    fn a_pushed_grant_counts_only_while_the_place_stands() {
        let late = seat();
        late.wait_until(at(100));
        assert!(!late.hold_pushed(at(100)));
        let timely = seat();
        timely.wait_until(at(100));
        assert!(timely.hold_pushed(at(99)));
    }
    /// A seat with the pass for its name.
    fn seat_with_pass(gate: &Gate) -> Seat {
        let claim = seat().claim();
        let pass = gate.try_pass(&claim.name).unwrap();
        Seat::new(0, claim, Some(pass))
    }

    #[test]
    fn a_hold_that_the_store_does_not_have_gives_its_pass_back_and_a_waiter_keeps_it() {
        let gate = Gate::default();
        let held = seat_with_pass(&gate);
        let name = held.claim().name.clone();
        assert!(held.hold_until(at(100), at(10)));
        assert!(held.lose_gone() && held.phase() == Phase::Lost);
        let waiting = seat_with_pass(&gate);
        waiting.wait_until(at(100));
        assert!(waiting.lose_gone() && waiting.phase() == Phase::Lost);
        assert_eq!(
            gate.try_pass(&name).unwrap_err(),
            Busy::Taken,
            "a waiter takes it along to its next place"
        );
        assert!(waiting.take_pass().is_some() && !waiting.lose_gone());
    }

    #[test]
    fn what_a_closing_session_withdraws_is_in_the_store_and_not_on_its_way_out() {
        let phases = [Phase::Entering, Phase::Waiting, Phase::Held, Phase::Lost, Phase::Left];
        let to_withdraw = phases.map(|phase| {
            let gate = Gate::default();
            let seat = seat_with_pass(&gate);
            seat.advance(phase);
            let is_there = seat.lose_any();
            assert_eq!(seat.phase(), phase.max(Phase::Lost));
            assert_eq!(gate.try_pass(&seat.claim().name).unwrap_err(), Busy::Leaving, "{phase:?}");
            is_there
        });
        assert_eq!(to_withdraw, [false, true, true, true, false]);
    }
}
