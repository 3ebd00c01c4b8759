//! Calls in flight that prove a claim's life with the ttl of its session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::{Clock, Moment, seat::Seat};

/// What is on its way to the store about one claim. Each of these calls has the store keep the claim for the session's ttl, so
/// all of them are over before somebody else renews it for another ttl.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    state: Mutex<State>,
    settled: Notify,
}

#[derive(Debug, Default)]
struct State {
    in_flight: usize,
    /// No more are sent: the claim is being left to nobody.
    stopped: bool,
    /// Until when one that was not answered may still arrive.
    unanswered_until: Option<Moment>,
}

impl Calls {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has no more be sent.
    pub(crate) fn stop(&self) {
        self.state().stopped = true;
    }

    /// Waits until none is in flight.
    pub(crate) async fn settled(&self) {
        loop {
            let told = self.settled.notified();
            tokio::pin!(told);
            // Registered before the check, so that a change in between is not missed.
            told.as_mut().enable();
            if self.state().in_flight == 0 {
                return;
            }
            told.await;
        }
    }

    /// Whether one that was not answered may still arrive.
    pub(crate) fn may_arrive(&self, clock: &Clock) -> bool {
        self.state().unanswered_until.is_some_and(|until| clock.now() < until)
    }
}

/// One call in flight about a claim. Dropped without an answer, it may arrive until `late`.
#[derive(Debug)]
pub(crate) struct InFlight {
    seat: Arc<Seat>,
    late: Option<Moment>,
}

impl InFlight {
    /// Counts a call that is about to be sent, which arrives before `late`, answered or not. `None`: nothing may be sent any more.
    pub(crate) fn new(seat: &Arc<Seat>, late: Moment) -> Option<Self> {
        let mut state = seat.calls.state();
        if state.stopped {
            return None;
        }
        state.in_flight += 1;
        drop(state);
        Some(Self { seat: seat.clone(), late: Some(late) })
    }

    /// It was answered: it does not arrive any more.
    pub(crate) fn answered(mut self) {
        self.late = None;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let calls = &self.seat.calls;
        let mut state = calls.state();
        state.in_flight -= 1;
        state.unanswered_until = state.unanswered_until.max(self.late);
        let is_last = state.in_flight == 0;
        drop(state);
        if is_last {
            calls.settled.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_claim_is_settled_when_its_last_call_is_answered() {
        let clock = Clock::boot();
        let seat = Arc::new(Seat::for_tests(None));
        let late = clock.now() + std::time::Duration::from_secs(60);
        let (one, two) = (InFlight::new(&seat, late).unwrap(), InFlight::new(&seat, late).unwrap());
        seat.calls.stop();
        assert!(InFlight::new(&seat, late).is_none(), "sent after the stop");
        one.answered();
        let waiting = tokio::spawn({
            let seat = seat.clone();
            async move { seat.calls.settled().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "one is in flight");
        two.answered();
        waiting.await.unwrap();
        assert!(!seat.calls.may_arrive(&clock));
    }

    #[test]
    fn a_call_without_an_answer_may_arrive_until_its_time_is_up() {
        let clock = Clock::boot();
        let seat = Arc::new(Seat::for_tests(None));
        drop(InFlight::new(&seat, clock.now() + std::time::Duration::from_secs(60)));
        assert!(seat.calls.may_arrive(&clock));
        let past = Arc::new(Seat::for_tests(None));
        drop(InFlight::new(&past, clock.now()));
        assert!(!past.calls.may_arrive(&clock));
    }
}
