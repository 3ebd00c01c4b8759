//! Those of this process who wait for a counter to change.
//!
//! Unlike the watchers of a lock they do not all want the same: one asks for five permits, another for one, and when a
//! latch opens everybody goes. So a change has one of them ask, and who has asked passes on what is there to the next one
//! that it is enough for. A crowd costs one vain question for each change, and nobody sleeps beside what it could have.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah_core::{Clock, Moment};
use tokio::sync::Notify;

/// The longest that nobody asks, and for how many who wait.
const POLL: (Duration, u32) = (Duration::from_secs(1), 8);

/// Who waits, by key, the longest first.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    seats: Mutex<HashMap<Vec<u8>, Vec<Waiter>>>,
    seated: AtomicU64,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    /// The least that is of use to it.
    need: i64,
    /// It was told, and has not begun to ask.
    told: bool,
    bell: Arc<Notify>,
}

impl Waiter {
    fn tell(&mut self) {
        self.told = true;
        self.bell.notify_one();
    }
}

impl Crowd {
    fn seats(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Vec<Waiter>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A key has changed: the first one asks that is not about to anyway.
    pub(crate) fn changed(&self, key: &[u8]) {
        self.tell_first(key, |_| true);
    }

    /// Something may have been missed: everybody asks.
    pub(crate) fn all(&self) {
        self.seats().values_mut().flatten().for_each(Waiter::tell);
    }

    fn tell_first(&self, key: &[u8], wants: impl Fn(&Waiter) -> bool) {
        let mut seats = self.seats();
        let first = seats
            .get_mut(key)
            .and_then(|waiters| waiters.iter_mut().find(|waiter| !waiter.told && wants(waiter)));
        if let Some(waiter) = first {
            waiter.tell();
        }
    }

    /// Takes a seat. From then on no change is missed.
    pub(super) fn sit<'a>(&'a self, key: &'a [u8], need: i64) -> Seat<'a> {
        let number = self.seated.fetch_add(1, Ordering::Relaxed);
        let bell = Arc::new(Notify::new());
        let waiter = Waiter { number, need, told: false, bell: bell.clone() };
        self.seats().entry(key.to_vec()).or_default().push(waiter);
        Seat { crowd: self, key, number, bell, owes: false }
    }
}

/// A place among those who wait.
#[derive(Debug)]
pub(super) struct Seat<'a> {
    crowd: &'a Crowd,
    key: &'a [u8],
    number: u64,
    bell: Arc<Notify>,
    /// It was told of a change, and has not passed on what it found.
    owes: bool,
}

impl Seat<'_> {
    /// So much is there now, as who sits here has found: the next one asks that it is enough for.
    pub(super) fn pass_on(&mut self, there: i64) {
        self.owes = false;
        self.crowd.tell_first(self.key, |waiter| waiter.number != self.number && waiter.need <= there);
    }

    /// There is nothing to pass on.
    pub(super) fn settle(&mut self) {
        self.owes = false;
    }

    /// Everybody has what they wait for.
    pub(super) fn pass_on_to_all(&mut self) {
        self.owes = false;
        if let Some(waiters) = self.crowd.seats().get_mut(self.key) {
            waiters.iter_mut().for_each(Waiter::tell);
        }
    }

    /// Waits until it is time to ask: because something changed, because a lease ends in `sleep`, or because nobody has
    /// asked for long. False: because it is `deadline`.
    pub(super) async fn wait(&mut self, clock: &Clock, sleep: Option<Duration>, deadline: Moment) -> bool {
        let now = clock.now();
        if now >= deadline {
            return false;
        }
        let others = self.crowd.seats().get(self.key).map_or(0, |waiters| waiters.len().saturating_sub(1));
        let others = u32::try_from(others).unwrap_or(u32::MAX);
        let poll = POLL.0.saturating_mul(others / POLL.1 + 1).mul_f64(0.5 + fastrand::f64() / 2.0);
        // Not all at the very moment: the first one finds what has expired for the others, too.
        let spread = Duration::from_millis(others.into()).mul_f64(fastrand::f64());
        let longest = sleep.map_or(poll, |sleep| poll.min(sleep.saturating_add(spread)));
        let until = (now + longest).min(deadline);
        tokio::select! {
            biased;
            () = self.bell.notified() => {
                self.owes = true;
                if let Some(waiter) = self.crowd.seats().get_mut(self.key).and_then(|waiters| {
                    waiters.iter_mut().find(|waiter| waiter.number == self.number)
                }) {
                    waiter.told = false;
                }
                true
            }
            () = clock.sleep_until(until) => until < deadline,
        }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut seats = self.crowd.seats();
        let Some(waiters) = seats.get_mut(self.key) else { return };
        let told = match waiters.iter().position(|waiter| waiter.number == self.number) {
            Some(at) => waiters.remove(at).told,
            None => false,
        };
        if waiters.is_empty() {
            seats.remove(self.key);
        }
        drop(seats);
        // Somebody has to ask, and it was to be this one.
        if told || self.owes {
            self.crowd.changed(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(crowd: &Crowd) -> Vec<u64> {
        let seats = crowd.seats();
        let mut told: Vec<_> = seats.values().flatten().filter(|w| w.told).map(|w| w.number).collect();
        told.sort_unstable();
        told
    }

    #[test]
    fn each_change_has_one_more_ask_and_a_broken_stream_everybody() {
        let crowd = Crowd::default();
        let _seats = [crowd.sit(b"k", 1), crowd.sit(b"k", 1), crowd.sit(b"k", 1), crowd.sit(b"other", 1)];
        crowd.changed(b"k");
        assert_eq!(told(&crowd), [0]);
        crowd.changed(b"k");
        assert_eq!(told(&crowd), [0, 1]);
        crowd.all();
        assert_eq!(told(&crowd), [0, 1, 2, 3]);
    }

    #[test]
    fn what_is_too_little_for_one_is_passed_on_to_who_can_use_it() {
        let crowd = Crowd::default();
        let mut greedy = crowd.sit(b"k", 5);
        let _modest = [crowd.sit(b"k", 4), crowd.sit(b"k", 2)];
        greedy.pass_on(3);
        assert_eq!(told(&crowd), [2]);
        greedy.pass_on(0);
        assert_eq!(told(&crowd), [2]);
        greedy.pass_on_to_all();
        assert_eq!(told(&crowd), [0, 1, 2]);
    }

    #[tokio::test]
    async fn who_was_told_and_leaves_without_asking_has_another_ask() {
        let clock = Clock::boot();
        let crowd = Crowd::default();
        let (first, mut second, _third) = (crowd.sit(b"k", 1), crowd.sit(b"k", 1), crowd.sit(b"k", 1));
        crowd.changed(b"k");
        drop(first);
        assert_eq!(told(&crowd), [1]);
        assert!(second.wait(&clock, None, Moment::NEVER).await);
        assert_eq!(told(&crowd), Vec::<u64>::new());
        drop(second);
        assert_eq!(told(&crowd), [2]);
    }

    #[tokio::test]
    async fn a_seat_is_not_waited_on_beyond_its_deadline_and_leaves_nothing() {
        let clock = Clock::boot();
        let crowd = Crowd::default();
        let mut seat = crowd.sit(b"k", 1);
        assert!(!seat.wait(&clock, None, clock.now()).await);
        assert!(!seat.wait(&clock, None, clock.now() + Duration::from_millis(1)).await);
        drop(seat);
        assert!(crowd.seats().is_empty());
    }
}
