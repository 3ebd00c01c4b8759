//! What holders believed, and whether that can have been.

use std::sync::{Mutex, PoisonError};

use bramah_core::{Clock, Fence, Guard, Moment};

use crate::case::{Failure, Outcome};

/// Who believed to hold how much, from when to when.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    inside: u64,
    most: u64,
    holds: Vec<Held>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    from: Moment,
    to: Moment,
    fence: Option<Fence>,
}

/// A believed hold under way.
pub(crate) struct Inside<'a> {
    history: &'a History,
    from: Moment,
    fence: Option<Fence>,
    weight: u64,
}

impl History {
    /// Notes that the hold of `guard` begins, which weighs `weight`. End it before the guard.
    pub(crate) fn enter(&self, guard: &Guard, weight: u64) -> Inside<'_> {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        book.inside += weight;
        book.most = book.most.max(book.inside);
        Inside { history: self, from: Clock::boot().now(), fence: guard.fence(), weight }
    }

    /// The most that was held at one time.
    pub(crate) fn most(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).most
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).holds.len()
    }

    /// Fails if two believed in it at one time, or if a later hold had a fence that is not larger.
    pub(crate) fn check_exclusive(&self) -> Outcome {
        let mut holds = self.0.lock().unwrap_or_else(PoisonError::into_inner).holds.clone();
        holds.sort_by_key(|held| held.from);
        for pair in holds.windows(2) {
            if pair[0].to > pair[1].from {
                return Err(Failure::new(format!("two held it at once: {pair:?}")));
            }
            if let (Some(one), Some(two)) = (pair[0].fence, pair[1].fence)
                && one >= two
            {
                return Err(Failure::new(format!("the fence did not rise: {pair:?}")));
            }
        }
        match self.most() {
            0 | 1 => Ok(()),
            most => Err(Failure::new(format!("{most} held it at once"))),
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut book = self.history.0.lock().unwrap_or_else(PoisonError::into_inner);
        book.inside -= self.weight;
        book.holds.push(Held { from: self.from, to: Clock::boot().now(), fence: self.fence });
    }
}
