//! The one rule under every lock.
//!
//! A lock is a line. A claim stands in it. **A claim is held when everything ahead of it, plus itself, fits the
//! capacity.** A mutex has capacity 1 and claims of weight 1; a semaphore has capacity *n*; a read-write lock has
//! capacity [`WHOLE`], readers weigh 1 and a writer weighs all of it.
//!
//! What follows from the rule, and is checked below over random histories:
//! - *safety*: held weights never exceed the capacity;
//! - *prefix*: holders are always the head of the line, so service is first come, first served;
//! - *stability*: entering and leaving never take a held claim's standing away;
//! - *liveness*: a line that is not empty has a holder, as no claim weighs more than the capacity.

use std::collections::VecDeque;

/// The capacity of a read-write lock and the weight of its writer.
pub const WHOLE: u32 = u32::MAX;

/// How many claims at the head of a line are held. This is the rule; everything else is keeping count.
pub fn holders(capacity: u32, weights: impl IntoIterator<Item = u32>) -> usize {
    let mut used = 0u64;
    let fits = |weight: &u32| {
        used += u64::from(*weight);
        used <= u64::from(capacity)
    };
    weights.into_iter().take_while(fits).count()
}

/// A line with its holders counted, for engines that keep lines themselves.
///
/// Entering grants at once where the rule allows it. After [`remove`](Line::remove) the caller advances the line
/// with [`next_fitting`](Line::next_fitting) and [`grant_next`](Line::grant_next): so it can mint a fence for each
/// grant, and pass over a claim that has died while it waited.
#[derive(Clone, Debug)]
pub struct Line<T> {
    capacity: u32,
    places: VecDeque<Place<T>>,
    held: usize,
    used: u64,
}

#[derive(Clone, Debug)]
struct Place<T> {
    weight: u32,
    item: T,
}

impl<T> Line<T> {
    /// An empty line.
    pub fn new(capacity: u32) -> Self {
        // Most lines never have more than one in them, and there may be a hundred thousand lines.
        Self { capacity, places: VecDeque::with_capacity(1), held: 0, used: 0 }
    }

    /// A line as it was written down: items in order, the first `held` of them holding.
    ///
    /// `None` if that breaks the rule: more is held than fits.
    pub fn restore(capacity: u32, held: usize, items: impl IntoIterator<Item = (u32, T)>) -> Option<Self> {
        let places: VecDeque<_> = items.into_iter().map(|(weight, item)| Place { weight, item }).collect();
        if places.iter().any(|place| place.weight == 0 || place.weight > capacity)
            || held > holders(capacity, places.iter().map(|place| place.weight))
        {
            return None;
        }
        let used = places.iter().take(held).map(|place| u64::from(place.weight)).sum();
        Some(Self { capacity, places, held, used })
    }

    /// The capacity.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Changes the capacity of an empty line; a line in use keeps its own.
    pub fn recapacitate(&mut self, capacity: u32) {
        if self.is_empty() {
            self.capacity = capacity;
        }
    }

    /// How many stand in it.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether nobody stands in it.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many of them hold: the first so many.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Whether a claim of this weight would be held the moment it entered.
    pub fn would_hold(&self, weight: u32) -> bool {
        self.held == self.places.len() && self.fits(weight)
    }

    /// Enters at the end. Whether it is held at once.
    pub fn enter(&mut self, weight: u32, item: T) -> bool {
        let holds = self.would_hold(weight);
        self.places.push_back(Place { weight, item });
        if holds {
            self.held += 1;
            self.used += u64::from(weight);
        }
        holds
    }

    /// Takes the claim at `index` out of the line. Nobody is granted anything by this alone.
    pub fn remove(&mut self, index: usize) -> Option<T> {
        let place = self.places.remove(index)?;
        if index < self.held {
            self.held -= 1;
            self.used -= u64::from(place.weight);
        }
        Some(place.item)
    }

    /// The first waiter, if it fits beside the holders.
    pub fn next_fitting(&self) -> Option<&T> {
        let place = self.places.get(self.held)?;
        self.fits(place.weight).then_some(&place.item)
    }

    /// Makes the first waiter a holder, if it fits.
    pub fn grant_next(&mut self) -> Option<&mut T> {
        let weight = self.places.get(self.held)?.weight;
        if !self.fits(weight) {
            return None;
        }
        self.used += u64::from(weight);
        self.held += 1;
        Some(&mut self.places[self.held - 1].item)
    }

    /// Where the first claim that `is` it stands, looking from the head.
    pub fn find(&self, mut is: impl FnMut(&T) -> bool) -> Option<usize> {
        self.places.iter().position(|place| is(&place.item))
    }

    /// The claim at `index`.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.places.get(index).map(|place| &place.item)
    }

    /// The claim at `index`, to change.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.places.get_mut(index).map(|place| &mut place.item)
    }

    /// All claims from the head on.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().map(|place| &place.item)
    }

    fn fits(&self, weight: u32) -> bool {
        self.used + u64::from(weight) <= u64::from(self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Enter(u32),
        Leave(usize),
    }

    /// The three faces and what their claims weigh.
    fn histories() -> impl Strategy<Value = (u32, Vec<Step>)> {
        let faces = prop_oneof![
            Just((1, vec![1])),
            Just((WHOLE, vec![1, 1, 1, WHOLE])),
            (2u32..9).prop_map(|capacity| (capacity, (1..=capacity).collect())),
        ];
        faces.prop_flat_map(|(capacity, weights)| {
            let step = prop_oneof![
                prop::sample::select(weights).prop_map(Step::Enter),
                any::<usize>().prop_map(Step::Leave),
            ];
            (Just(capacity), prop::collection::vec(step, 0..200))
        })
    }

    /// Grants whoever fits, as an engine does after a removal.
    fn advance(line: &mut Line<(u32, bool)>) {
        while let Some(item) = line.grant_next() {
            item.1 = true;
        }
    }

    proptest! {
        #[test]
        fn the_line_keeps_its_promises((capacity, steps) in histories()) {
            let mut line: Line<(u32, bool)> = Line::new(capacity);
            for step in steps {
                match step {
                    Step::Enter(weight) => {
                        let expected = line.would_hold(weight);
                        let index = line.len();
                        prop_assert_eq!(line.enter(weight, (weight, false)), expected);
                        line.get_mut(index).unwrap().1 = expected;
                    }
                    Step::Leave(at) if !line.is_empty() => {
                        line.remove(at % line.len());
                        advance(&mut line);
                    }
                    Step::Leave(_) => {}
                }
                let weights: Vec<u32> = line.iter().map(|item| item.0).collect();
                let held: u64 = weights.iter().take(line.held()).map(|&weight| u64::from(weight)).sum();
                prop_assert!(held <= u64::from(capacity), "safety");
                // `1` in the item is set on a grant and never cleared: a holder that stopped holding would show.
                let standing: Vec<bool> = line.iter().map(|item| item.1).collect();
                prop_assert_eq!(standing.iter().filter(|held| **held).count(), line.held(), "stability");
                prop_assert!(standing.iter().take(line.held()).all(|held| *held), "prefix");
                prop_assert!(line.is_empty() || line.held() > 0, "liveness");
                prop_assert_eq!(line.held(), holders(capacity, weights), "the counted line is the rule");
            }
        }

        /// A view of the line that is stale in the way a client's can be (it has not seen some departures) errs on
        /// the safe side: whoever holds in the old view holds in the new one.
        #[test]
        fn a_stale_view_grants_nothing_extra((capacity, steps) in histories(), gone in any::<prop::sample::Index>()) {
            let weights: Vec<u32> = steps.iter().filter_map(|step| match step {
                Step::Enter(weight) => Some(*weight),
                Step::Leave(_) => None,
            }).collect();
            prop_assume!(!weights.is_empty());
            let gone = gone.index(weights.len());
            let before = holders(capacity, weights.clone());
            let mut left = weights;
            left.remove(gone);
            let after = holders(capacity, left);
            prop_assert!(after + usize::from(gone < before) >= before);
        }
    }

    #[test]
    fn a_waiting_writer_holds_back_later_readers() {
        let mut line = Line::new(WHOLE);
        assert!(line.enter(1, "reader"));
        assert!(!line.enter(WHOLE, "writer"));
        assert!(!line.enter(1, "late reader"));
        line.remove(0);
        assert_eq!(line.grant_next(), Some(&mut "writer"));
        assert_eq!(line.grant_next(), None);
    }

    #[test]
    fn a_written_line_that_holds_too_much_is_not_restored() {
        assert!(Line::restore(1, 1, [(1, ()), (1, ())]).is_some());
        assert!(Line::restore(1, 2, [(1, ()), (1, ())]).is_none());
        assert!(Line::restore(1, 0, [(2, ())]).is_none());
        assert!(Line::restore(1, 0, [(0, ())]).is_none());
    }
}
