//! What is of interest only if it lasts.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bramah_core::{Clock, Moment};

use crate::Office;

/// How many milliseconds apart it is looked: what was added within one span is looked at together.
const GRAIN: Duration = Duration::from_millis(5);

/// Things that are looked at when they have reached an age, on the office's thread. Most locks are held for a moment: a task and a timer
/// for each would cost more than what they are for.
pub struct Aging<T> {
    office: Office,
    age: Duration,
    look: fn(T),
    clock: Clock,
    young: Arc<Mutex<Young<T>>>,
}

struct Young<T> {
    /// In the order in which they were added, and when each is due.
    things: VecDeque<(Moment, T)>,
    /// Whether somebody looks at them.
    is_attended: bool,
}

impl<T: Send + 'static> Aging<T> {
    /// Has `look` called for everything that is added, once it is so old.
    pub fn new(office: Office, age: Duration, look: fn(T)) -> Self {
        let young = Young { things: VecDeque::new(), is_attended: false };
        Self { office, age, look, clock: Clock::boot(), young: Arc::new(Mutex::new(young)) }
    }

    /// Something new.
    pub fn add(&self, thing: T) {
        let due = self.clock.now() + self.age;
        let is_attended = {
            let mut young = self.young.lock().unwrap_or_else(PoisonError::into_inner);
            young.things.push_back((due, thing));
            std::mem::replace(&mut young.is_attended, true)
        };
        if !is_attended {
            self.office.spawn(attend(self.young.clone(), due, self.look, self.clock.clone()));
        }
    }
}

impl<T> fmt::Debug for Aging<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aging").field("age", &self.age).finish_non_exhaustive()
    }
}

/// Looks at everything as it comes of age, until there is nothing left.
async fn attend<T>(young: Arc<Mutex<Young<T>>>, first: Moment, look: fn(T), clock: Clock) {
    let mut next = first;
    loop {
        tokio::time::sleep((next + GRAIN).since(clock.now())).await;
        let now = clock.now();
        let (grown, due) = {
            let mut young = young.lock().unwrap_or_else(PoisonError::into_inner);
            let count = young.things.iter().take_while(|(due, _)| *due <= now).count();
            let grown: Vec<(Moment, T)> = young.things.drain(..count).collect();
            let due = young.things.front().map(|(due, _)| *due);
            young.is_attended = due.is_some();
            (grown, due)
        };
        grown.into_iter().for_each(|(_, thing)| look(thing));
        match due {
            Some(due) => next = due,
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn everything_is_looked_at_once_and_not_before_its_age() {
        let office = Office::open("aging").unwrap();
        let age = Duration::from_millis(20);
        type Thing = (Moment, usize, mpsc::UnboundedSender<(Duration, usize)>);
        let look = |(born, n, seen): Thing| {
            let _ = seen.send((Clock::boot().now().since(born), n));
        };
        let aging = Aging::new(office, age, look);
        let (seen, mut looked) = mpsc::unbounded_channel();
        // Twice, so that somebody has to begin to look anew.
        for round in 0..2 {
            for n in 0..100 {
                aging.add((Clock::boot().now(), round * 100 + n, seen.clone()));
            }
            for n in 0..100 {
                let (old, which) = looked.recv().await.unwrap();
                assert_eq!(which, round * 100 + n);
                assert!(old >= age, "{which} was looked at after {old:?}");
            }
            while aging.young.lock().unwrap().is_attended {
                tokio::task::yield_now().await;
            }
        }
        assert!(looked.try_recv().is_err());
    }
}
