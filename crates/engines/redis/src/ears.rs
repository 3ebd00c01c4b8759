//! Who waits to be told what.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bramah_core::{Alarm, Bell, ClaimId, Fence, SessionId, Wake, Woken};

use crate::{
    driver::{Ear, Push},
    redisson::Crowd,
    text,
};

/// The waiters of this process, by what they wait for. A driver tells it what it hears.
#[derive(Debug, Default)]
pub(crate) struct Ears(Mutex<Heard>, Mutex<HashMap<SessionId, Alarm>>, pub(crate) Crowd);

#[derive(Debug, Default)]
struct Heard {
    /// Those with a place in line.
    places: HashMap<ClaimId, (Bell, Grant)>,
    /// Those who wait for a key to change, the longest first.
    watchers: HashMap<Vec<u8>, VecDeque<Watcher>>,
    /// How many there have been.
    watches: u64,
    /// Since when those stand in a queue who watch what is ahead of them: the number of their first watch.
    queued: HashMap<ClaimId, u64>,
    /// Grants that were pushed before the answer to their claim had been read.
    early: VecDeque<(ClaimId, Fence)>,
}

/// One who waits for a key to change.
#[derive(Debug)]
struct Watcher {
    number: u64,
    bell: Bell,
    /// Whether it wants the lock beside others: then they are all told.
    beside: bool,
    /// Its place in a queue.
    place: Option<ClaimId>,
    /// Whether it is told by name when its turn comes, and not by every change.
    told: bool,
}

/// What a pushed grant means to who waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// It holds, with the fence.
    Exclusive,
    /// It holds beside others, without one.
    Shared,
    /// It has to ask first.
    Unproven,
}

impl Grant {
    fn woken(self, fence: Fence) -> Woken {
        match self {
            Self::Exclusive => Woken::Held(Some(fence)),
            Self::Shared => Woken::Held(None),
            Self::Unproven => Woken::Ask,
        }
    }
}

/// One who watches a key.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) wake: Wake,
    pub(crate) number: u64,
    /// How many watched it before.
    pub(crate) others: usize,
}

/// How many early grants are kept. One that is forgotten costs a question.
const EARLY: usize = 512;

impl Ears {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alarms(&self) -> MutexGuard<'_, HashMap<SessionId, Alarm>> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session wants to hear when a claim of its was ended.
    pub(crate) fn attend(&self, session: SessionId, alarm: Alarm) {
        self.alarms().insert(session, alarm);
    }

    /// It is closed.
    pub(crate) fn dismiss(&self, session: SessionId) {
        self.alarms().remove(&session);
    }

    /// The wake of a claim that waits in line. If its grant has been pushed meanwhile it fires at once.
    pub(crate) fn place(&self, id: ClaimId, grant: Grant) -> Wake {
        let (bell, wake) = Wake::pair();
        let mut heard = self.heard();
        match heard.early.iter().position(|(early, _)| *early == id) {
            Some(at) => {
                let early = heard.early.remove(at);
                drop(heard);
                bell.ring(early.map_or(Woken::Ask, |(_, fence)| grant.woken(fence)));
            }
            None => {
                heard.places.insert(id, (bell, grant));
            }
        }
        wake
    }

    /// Watches a key for one who is about to ask for it: who may hold it beside others, or who stands in a queue and keeps
    /// its turn to be told.
    pub(crate) fn watch(&self, key: &[u8], beside: bool, place: Option<ClaimId>) -> Watch {
        let (bell, wake) = Wake::pair();
        let mut heard = self.heard();
        heard.watches += 1;
        let now = heard.watches;
        let number = place.map_or(now, |id| *heard.queued.entry(id).or_insert(now));
        let watchers = heard.watchers.entry(key.to_vec()).or_default();
        watchers.retain(|watcher| !watcher.bell.is_deaf());
        let at = watchers.iter().rposition(|watcher| watcher.number < number).map_or(0, |at| at + 1);
        watchers.insert(at, Watcher { number, bell, beside, place, told: false });
        Watch { wake, number, others: watchers.len() - 1 }
    }

    /// It is not needed any more.
    pub(crate) fn unwatch(&self, key: &[u8], number: u64) {
        let mut heard = self.heard();
        if let Some(watchers) = heard.watchers.get_mut(key) {
            watchers.retain(|watcher| watcher.number != number);
            if watchers.is_empty() {
                heard.watchers.remove(key);
            }
        }
    }

    /// The claim does not wait any more.
    pub(crate) fn forget(&self, id: ClaimId) {
        let mut heard = self.heard();
        heard.places.remove(&id);
        heard.queued.remove(&id);
        heard.early.retain(|(early, _)| *early != id);
    }

    /// Has a claim ask, if it waits.
    pub(crate) fn prod(&self, id: ClaimId) {
        let bell = self.heard().places.remove(&id);
        if let Some((bell, _)) = bell {
            bell.ring(Woken::Ask);
        }
    }

    /// One of those who watch the key asks: there is one lock to be had, not one for each. Unless the first can share it
    /// with others.
    pub(crate) fn changed(&self, key: &[u8]) {
        let mut heard = self.heard();
        let Some(watchers) = heard.watchers.get_mut(key) else { return };
        watchers.retain(|watcher| !watcher.bell.is_deaf());
        let first = watchers.iter().position(|watcher| !watcher.told);
        let mut called: Vec<Watcher> = first.and_then(|first| watchers.remove(first)).into_iter().collect();
        if called.iter().any(|first| first.beside) {
            let (with, without): (Vec<_>, Vec<_>) = watchers.drain(..).partition(|watcher| watcher.beside);
            called.extend(with);
            watchers.extend(without);
        }
        if watchers.is_empty() {
            heard.watchers.remove(key);
        }
        drop(heard);
        for watcher in called {
            watcher.bell.ring(Woken::Ask);
        }
    }

    /// One in a queue will be told by name.
    pub(crate) fn rest(&self, key: &[u8], place: ClaimId) {
        let mut heard = self.heard();
        let watchers = heard.watchers.get_mut(key).into_iter().flatten();
        for watcher in watchers.filter(|watcher| watcher.place == Some(place)) {
            watcher.told = true;
        }
    }

    /// It is the turn of this one of those who watch the key, if it is one of ours.
    pub(crate) fn turn(&self, key: &[u8], place: ClaimId) {
        let mut heard = self.heard();
        let Some(watchers) = heard.watchers.get_mut(key) else { return };
        let at = watchers.iter().position(|watcher| watcher.place == Some(place));
        let called = at.and_then(|at| watchers.remove(at));
        drop(heard);
        if let Some(watcher) = called {
            watcher.bell.ring(Woken::Ask);
        }
    }

    fn granted(&self, id: ClaimId, fence: Fence) {
        let mut heard = self.heard();
        match heard.places.remove(&id) {
            // One whose wake is gone is about to ask again, or to be answered that it waits.
            Some((bell, grant)) if !bell.is_deaf() => {
                drop(heard);
                bell.ring(grant.woken(fence));
            }
            _ => {
                if heard.early.len() == EARLY {
                    heard.early.pop_front();
                }
                heard.early.push_back((id, fence));
            }
        }
    }

    /// Everybody asks.
    fn all(&self) {
        let heard = {
            let mut heard = self.heard();
            let watches = heard.watches;
            let queued = std::mem::take(&mut heard.queued);
            std::mem::replace(&mut *heard, Heard { watches, queued, ..Heard::default() })
        };
        let watchers = heard.watchers.into_values().flatten().map(|watcher| watcher.bell);
        for bell in heard.places.into_values().map(|(bell, _)| bell).chain(watchers) {
            bell.ring(Woken::Ask);
        }
    }

    /// A message to a session's channel, whose name ends with the session: `g`, the claim's number and its fence for a
    /// grant; `b` and the number for a break; `w` and the number for a wish; `a`, the number and the key of the lock for the turn of one in a queue.
    /// Anything else is not ours.
    fn message(&self, channel: &[u8], payload: &[u8]) {
        let Some(session) =
            channel.len().checked_sub(32).and_then(|at| std::str::from_utf8(&channel[at..]).ok())
        else {
            return;
        };
        let Some((number, rest)) =
            std::str::from_utf8(payload).ok().and_then(|text| text.split_at_checked(13))
        else {
            return;
        };
        let Some((word, number)) = number.split_at_checked(1) else { return };
        let Some(id) = text::read_identity(&format!("{session}{number}")) else { return };
        match (word, rest.parse()) {
            ("g", Ok(fence)) => self.granted(id, Fence::new(fence)),
            ("a", _) => self.turn(rest.as_bytes(), id),
            ("w", _) => {
                let alarm = self.alarms().get(&id.session).cloned();
                alarm.unwrap_or_default().ask(id);
            }
            ("b", _) => {
                self.prod(id);
                let alarm = self.alarms().get(&id.session).cloned();
                alarm.unwrap_or_default().ring(id);
            }
            _ => {}
        }
    }
}

impl Ear for Ears {
    fn hear(&self, push: Push) {
        match push {
            Push::Message { channel, payload } => self.message(&channel, &payload),
            Push::Changed { key } => {
                self.changed(&key);
                self.2.changed(&key);
            }
            Push::Broken => {
                self.all();
                self.2.all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHANNEL: &[u8] = b"bramah:mark:0000000000000000000000000000002a";

    fn id(seq: u64) -> ClaimId {
        ClaimId { session: SessionId::from_bits(42), seq }
    }

    fn grant(payload: &str) -> Push {
        Push::Message { channel: CHANNEL.to_vec(), payload: payload.as_bytes().to_vec() }
    }

    #[tokio::test]
    async fn a_grant_reaches_its_waiter_before_and_after_it_waits() {
        let ears = Ears::default();
        let wake = ears.place(id(7), Grant::Exclusive);
        ears.hear(grant("g0000000000071234"));
        assert_eq!(wake.await, Woken::Held(Some(Fence::new(1234))));
        ears.hear(grant("g0000000000081235"));
        assert_eq!(ears.place(id(8), Grant::Shared).await, Woken::Held(None));
        ears.hear(grant("g0000000000091236"));
        assert_eq!(ears.place(id(9), Grant::Unproven).await, Woken::Ask);
    }

    #[tokio::test]
    async fn a_grant_between_two_waits_is_not_missed() {
        let ears = Ears::default();
        drop(ears.place(id(7), Grant::Exclusive));
        ears.hear(grant("g0000000000071234"));
        assert_eq!(ears.place(id(7), Grant::Exclusive).await, Woken::Held(Some(Fence::new(1234))));
    }

    #[tokio::test]
    async fn a_broken_stream_has_everybody_ask() {
        let ears = Ears::default();
        let (place, watch) = (ears.place(id(1), Grant::Exclusive), ears.watch(b"k", false, None));
        ears.hear(Push::Broken);
        assert_eq!((place.await, watch.wake.await), (Woken::Ask, Woken::Ask));
    }

    #[tokio::test]
    async fn a_change_wakes_one_who_still_listens() {
        let ears = Ears::default();
        drop(ears.watch(b"k", false, None));
        let (first, second) = (ears.watch(b"k", false, None), ears.watch(b"k", false, None));
        ears.hear(Push::Changed { key: b"k".to_vec() });
        assert_eq!(first.wake.await, Woken::Ask);
        assert!(!bell_rang(second.wake), "two were woken for one lock");
    }

    fn bell_rang(wake: Wake) -> bool {
        let mut wake = std::pin::pin!(wake);
        wake.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready()
    }

    #[test]
    fn early_grants_are_bounded() {
        let ears = Ears::default();
        for seq in 0..2 * EARLY as u64 {
            ears.hear(grant(&format!("g{seq:012x}1")));
        }
        assert_eq!(ears.heard().early.len(), EARLY);
    }

    proptest! {
        #[test]
        fn no_message_panics(channel: Vec<u8>, payload: Vec<u8>, text in ".*") {
            let ears = Ears::default();
            ears.hear(Push::Message { channel, payload: payload.clone() });
            ears.hear(Push::Message { channel: CHANNEL.to_vec(), payload });
            ears.hear(Push::Message { channel: CHANNEL.to_vec(), payload: text.into_bytes() });
        }
    }
}
