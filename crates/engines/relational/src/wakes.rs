//! Who waits to be told what.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bramah_core::{Alarm, Bell, ClaimId, Fence, Name, Opening, SessionId, Wake, Woken};

/// The waiters of this process. Whoever hears the database, or asks it for all of them, tells it here.
#[derive(Debug, Default)]
pub struct Wakes(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// Those with a place in line.
    places: HashMap<ClaimId, Place>,
    /// Those without one, by name.
    watchers: HashMap<String, Vec<(u64, Bell)>>,
    watches: u64,
    /// At how many entries of either kind those are removed whom nobody waits for any more.
    most: usize,
    alarms: HashMap<SessionId, Alarm>,
}

/// One that waits in line.
#[derive(Debug)]
struct Place {
    bell: Bell,
    name: Name,
    /// Whether it wants the lock alone.
    alone: bool,
    /// Whether it knows that it is the first of those who wait, and so when to ask.
    first: bool,
}

/// So few entries are never looked through.
const FEW: usize = 256;

impl Waiting {
    /// Removes what nobody waits for any more, if there may be much of it: seldom enough to cost little for each that comes.
    fn tidy(&mut self) {
        if self.places.len() + self.watchers.len() < self.most.max(FEW) {
            return;
        }
        self.places.retain(|_, place| !place.bell.is_deaf());
        self.watchers.retain(|_, watchers| {
            watchers.retain(|(_, bell)| !bell.is_deaf());
            !watchers.is_empty()
        });
        self.most = 2 * (self.places.len() + self.watchers.len());
    }
}

impl Wakes {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session wants to hear when a claim of its was ended.
    pub(crate) fn attend(&self, opening: &Opening) {
        self.waiting().alarms.insert(opening.session, opening.alarm.clone());
    }

    /// It is closed.
    pub(crate) fn dismiss(&self, session: SessionId) {
        self.waiting().alarms.remove(&session);
    }

    /// The wake of a claim that is about to ask for a place, or about its place.
    pub(crate) fn place(&self, id: ClaimId, name: &Name, alone: bool) -> Wake {
        let (bell, wake) = Wake::pair();
        let mut waiting = self.waiting();
        waiting.tidy();
        waiting.places.insert(id, Place { bell, name: name.clone(), alone, first: false });
        wake
    }

    /// It was told when to ask, as the first of those who wait.
    pub(crate) fn is_first(&self, id: ClaimId) {
        if let Some(place) = self.waiting().places.get_mut(&id) {
            place.first = true;
        }
    }

    /// A claim is the first of those who wait, and asks if it does not know.
    pub(crate) fn head(&self, id: ClaimId) {
        let place = {
            let mut waiting = self.waiting();
            match waiting.places.get(&id) {
                Some(place) if !place.first => waiting.places.remove(&id),
                _ => None,
            }
        };
        if let Some(place) = place {
            place.bell.ring(Woken::Ask);
        }
    }

    /// A claim may not stand where its waiter believes: it asks. Whether anybody waits for it.
    pub(crate) fn ask(&self, id: ClaimId) -> bool {
        let place = self.waiting().places.remove(&id);
        place.is_some_and(|place| place.bell.ring(Woken::Ask))
    }

    /// It does not wait.
    pub(crate) fn forget(&self, id: ClaimId) {
        self.waiting().places.remove(&id);
    }

    /// The wake of one that is about to ask without taking a place, and its number.
    pub(crate) fn watch(&self, name: &str) -> (Wake, u64) {
        let (bell, wake) = Wake::pair();
        let mut waiting = self.waiting();
        waiting.tidy();
        waiting.watches += 1;
        let number = waiting.watches;
        let watchers = waiting.watchers.entry(name.to_owned()).or_default();
        watchers.retain(|(_, bell)| !bell.is_deaf());
        watchers.push((number, bell));
        (wake, number)
    }

    /// It does not watch.
    pub(crate) fn unwatch(&self, name: &str, number: u64) {
        let mut waiting = self.waiting();
        if let Some(watchers) = waiting.watchers.get_mut(name) {
            watchers.retain(|(other, _)| *other != number);
            if watchers.is_empty() {
                waiting.watchers.remove(name);
            }
        }
    }

    /// In which lines claims wait now, each once.
    pub(crate) fn lines(&self) -> Vec<Name> {
        let mut waiting = self.waiting();
        waiting.places.retain(|_, place| !place.bell.is_deaf());
        let mut names: Vec<&Name> = waiting.places.values().map(|place| &place.name).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().cloned().collect()
    }

    /// A claim was granted.
    pub fn granted(&self, id: ClaimId, fence: Fence) {
        let place = self.waiting().places.remove(&id);
        if let Some(place) = place {
            place.bell.ring(Woken::Held(place.alone.then_some(fence)));
        }
    }

    /// A claim was ended by somebody else.
    pub fn broken(&self, id: ClaimId) {
        let (place, alarm) = {
            let mut waiting = self.waiting();
            (waiting.places.remove(&id), waiting.alarms.get(&id.session).cloned())
        };
        if let Some(place) = place {
            place.bell.ring(Woken::Ask);
        }
        alarm.unwrap_or_default().ring(id);
    }

    /// Somebody asks for a claim.
    pub fn asked(&self, id: ClaimId) {
        let alarm = self.waiting().alarms.get(&id.session).cloned();
        alarm.unwrap_or_default().ask(id);
    }

    /// There is room in a line.
    pub fn room(&self, name: &str) {
        let watchers = self.waiting().watchers.remove(name);
        for (_, bell) in watchers.into_iter().flatten() {
            bell.ring(Woken::Ask);
        }
    }

    /// Something may have been missed: everybody asks.
    pub fn all(&self) {
        let (places, watchers) = {
            let mut waiting = self.waiting();
            (std::mem::take(&mut waiting.places), std::mem::take(&mut waiting.watchers))
        };
        let watchers = watchers.into_values().flatten().map(|(_, bell)| bell);
        for bell in places.into_values().map(|place| place.bell).chain(watchers) {
            bell.ring(Woken::Ask);
        }
    }

    /// What the database says to a session: `g`, the number of a claim and its fence for a grant; `b` and the number for a
    /// break; `a` and the number for a wish; `w` and the name of a lock for room. Anything else is not ours.
    pub fn hear(&self, session: SessionId, text: &str) {
        let Some((word, rest)) = text.split_once(' ') else { return };
        let id = |text: &str| Some(ClaimId { session, seq: text.parse().ok()? });
        match word {
            "a" => {
                if let Some(id) = id(rest) {
                    self.asked(id);
                }
            }
            "g" => {
                let told =
                    rest.split_once(' ').and_then(|(seq, fence)| Some((id(seq)?, fence.parse().ok()?)));
                if let Some((id, fence)) = told {
                    self.granted(id, Fence::new(fence));
                }
            }
            "b" => {
                if let Some(id) = id(rest) {
                    self.broken(id);
                }
            }
            "w" => self.room(rest),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId::from_bits(7);

    fn name() -> Name {
        Name::new("a").unwrap()
    }

    fn id(seq: u64) -> ClaimId {
        ClaimId { session: SESSION, seq }
    }

    #[tokio::test]
    async fn a_grant_reaches_its_waiter_alone() {
        let wakes = Wakes::default();
        let (alone, beside) = (wakes.place(id(1), &name(), true), wakes.place(id(2), &name(), false));
        wakes.hear(SESSION, "g 1 42");
        wakes.hear(SESSION, "g 2 43");
        assert_eq!(alone.await, Woken::Held(Some(Fence::new(42))));
        assert_eq!(beside.await, Woken::Held(None));
    }

    #[tokio::test]
    async fn the_first_of_those_who_wait_is_told_once() {
        let wakes = Wakes::default();
        let (knows, does_not) = (wakes.place(id(1), &name(), true), wakes.place(id(2), &name(), true));
        wakes.is_first(id(1));
        wakes.head(id(1));
        wakes.head(id(2));
        assert_eq!(does_not.await, Woken::Ask);
        wakes.hear(SESSION, "g 1 42");
        assert_eq!(knows.await, Woken::Held(Some(Fence::new(42))), "it was told although it knew");
    }

    #[tokio::test]
    async fn room_and_a_broken_stream_have_watchers_ask() {
        let wakes = Wakes::default();
        let ((first, _), (second, number)) = (wakes.watch("a b"), wakes.watch("a b"));
        wakes.unwatch("a b", number);
        wakes.hear(SESSION, "w a b");
        assert_eq!(first.await, Woken::Ask);
        assert_eq!(second.await, Woken::Ask, "a wake whose bell is gone asks");
        let place = wakes.place(id(1), &name(), true);
        wakes.all();
        assert_eq!(place.await, Woken::Ask);
    }

    /// Each name once: nobody comes back to find that the last one has gone.
    #[test]
    fn watches_and_places_that_were_given_up_are_forgotten() {
        let wakes = Wakes::default();
        let kept: Vec<_> =
            (0..10).map(|n| (wakes.watch(&format!("kept/{n}")), wakes.place(id(n), &name(), true))).collect();
        for n in 0..100_000 {
            drop(wakes.watch(&format!("name/{n}")));
            drop(wakes.place(id(1000 + n), &name(), true));
        }
        let (watchers, places) = {
            let waiting = wakes.waiting();
            (waiting.watchers.len(), waiting.places.len())
        };
        assert!(watchers + places <= FEW, "{watchers} names and {places} places are kept for nobody");
        assert!(watchers >= kept.len() && places >= kept.len(), "somebody who waits was forgotten");
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        let wakes = Wakes::default();
        let _place = wakes.place(id(1), &name(), true);
        for text in ["", "g", "g 1", "g x 1", "g 1 x", "b", "b x", "z 1", "g  ", "w"] {
            wakes.hear(SESSION, text);
        }
        assert_eq!(wakes.lines(), [name()]);
    }
}
