//! What happened between two looks at a store.
//!
//! Two looks are all there is: who came and went between them was never there, and of a waiter that is gone nobody
//! can say whether it had the lock for a moment. A hold that hangs on a living process is `released` however that
//! process ended.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use bramah::{Broken, ClaimId, LineView, Name, PlaceView};

/// Something that happened to one place in a line.
#[derive(Debug)]
pub(crate) struct Event<'a> {
    pub(crate) what: What,
    pub(crate) name: &'a Name,
    pub(crate) capacity: u32,
    /// As it was seen last.
    pub(crate) place: &'a PlaceView,
    /// How long ago that was.
    pub(crate) ago: Duration,
    /// By whom and why it was broken.
    pub(crate) broken: Option<&'a Broken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// It was held when we came.
    Held,
    /// It waits.
    Waiting,
    Acquired,
    /// Its holder changed what it says of itself.
    Changed,
    Released,
    /// Its time was up.
    Expired,
    Broken,
    /// It left the line without the lock.
    GaveUp,
}

impl What {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Waiting => "waiting",
            Self::Acquired => "acquired",
            Self::Changed => "changed",
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Broken => "broken",
            Self::GaveUp => "gave_up",
        }
    }
}

impl<'a> Event<'a> {
    fn new(what: What, line: &'a LineView, place: &'a PlaceView) -> Self {
        let (name, capacity) = (&line.name, line.capacity);
        Self { what, name, capacity, place, ago: Duration::ZERO, broken: None }
    }
}

/// What there is at the first look.
pub(crate) fn present(lines: &[LineView]) -> Vec<Event<'_>> {
    let mut events = Vec::new();
    for line in lines {
        events.extend(line.holders().map(|place| Event::new(What::Held, line, place)));
        events.extend(line.waiters().map(|place| Event::new(What::Waiting, line, place)));
    }
    events
}

/// What happened between two looks, the second of which ended `passed` after the first began. By name; in one line
/// first who went, then who came.
pub(crate) fn between<'a>(before: &'a [LineView], after: &'a [LineView], passed: Duration) -> Vec<Event<'a>> {
    let mut lines: BTreeMap<&Name, [Option<&'a LineView>; 2]> = BTreeMap::new();
    for (at, seen) in [before, after].into_iter().enumerate() {
        for line in seen {
            lines.entry(&line.name).or_default()[at] = Some(line);
        }
    }
    let mut events = Vec::new();
    for [before, after] in lines.into_values() {
        let (old, new) = (places(before), places(after));
        if let Some(line) = before {
            let gone = line.places.iter().filter(|place| !new.contains_key(&place.claim.id));
            events.extend(gone.map(|place| end(line, after, place, passed)));
        }
        if let Some(line) = after {
            let came = line.places.iter().filter_map(|place| {
                let what = step(old.get(&place.claim.id).copied(), place)?;
                Some(Event::new(what, line, place))
            });
            events.extend(came);
        }
    }
    events
}

/// The lines that somebody stood in and that were not seen again.
pub(crate) fn vanished<'a>(before: &'a [LineView], after: &[LineView]) -> Vec<&'a LineView> {
    let seen: HashSet<&Name> = after.iter().map(|line| &line.name).collect();
    before.iter().filter(|line| !line.places.is_empty() && !seen.contains(&line.name)).collect()
}

fn places(line: Option<&LineView>) -> HashMap<ClaimId, &PlaceView> {
    line.into_iter().flat_map(|line| &line.places).map(|place| (place.claim.id, place)).collect()
}

/// How a place that is not there any more came to its end.
fn end<'a>(
    line: &'a LineView,
    after: Option<&'a LineView>,
    place: &'a PlaceView,
    passed: Duration,
) -> Event<'a> {
    let broken = after.and_then(|line| line.broken.as_ref()).filter(|broken| broken.id == place.claim.id);
    let what = match () {
        () if broken.is_some() => What::Broken,
        () if !place.is_held() => What::GaveUp,
        () if place.left.is_some_and(|left| passed >= left) => What::Expired,
        () => What::Released,
    };
    Event { ago: passed, broken, ..Event::new(what, line, place) }
}

/// What became of a place that is there.
fn step(before: Option<&PlaceView>, place: &PlaceView) -> Option<What> {
    match (before, place.is_held()) {
        (None, false) => Some(What::Waiting),
        (None, true) => Some(What::Acquired),
        (Some(before), true) if !before.is_held() => Some(What::Acquired),
        (Some(before), true) if before.claim.note != place.claim.note => Some(What::Changed),
        (Some(_), _) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bramah::Break;

    use super::*;
    use crate::sample::{Place, line, place};

    const SOON: Duration = Duration::from_secs(1);
    /// More than the ttl that samples have left.
    const LATE: Duration = Duration::from_secs(22);

    /// The events as words, each with the pid it is about.
    fn story(before: &[LineView], after: &[LineView], passed: Duration) -> Vec<(&'static str, u32)> {
        let pid = |event: &Event<'_>| event.place.about.as_ref().unwrap().pid;
        between(before, after, passed).iter().map(|event| (event.what.word(), pid(event))).collect()
    }

    fn held(session: u32) -> Place {
        place(session, 1).held(3)
    }

    fn named(name: &str, places: impl IntoIterator<Item = Place>) -> LineView {
        LineView { name: Name::new(name).unwrap(), ..line(1, places) }
    }

    #[test]
    fn the_first_look_tells_who_holds_and_who_waits() {
        let lines = [named("a", [held(1), place(2, 1)]), named("b", [held(3)])];
        let words: Vec<_> =
            present(&lines).iter().map(|event| (event.name.as_str(), event.what.word())).collect();
        assert_eq!(words, [("a", "held"), ("a", "waiting"), ("b", "held")]);
    }

    #[test]
    fn nothing_new_is_no_event() {
        let lines = [line(1, [held(1), place(2, 1)])];
        let later = [line(1, [place(1, 1).held(9), place(2, 1)])];
        assert_eq!(story(&lines, &later, LATE), []);
    }

    #[test]
    fn a_hand_over_is_a_release_and_then_a_grant() {
        let before = [line(1, [held(1), place(2, 1), place(3, 1)])];
        let after = [line(1, [held(2), place(3, 1), place(4, 1)])];
        assert_eq!(story(&before, &after, SOON), [("released", 1), ("acquired", 2), ("waiting", 4)]);
    }

    #[test]
    fn a_line_that_comes_or_goes_is_told_by_name() {
        let (a, b) = (named("a", [held(1)]), named("b", [held(2)]));
        let events = [("released", 1), ("acquired", 2)];
        assert_eq!(story(std::slice::from_ref(&a), std::slice::from_ref(&b), SOON), events);
        assert_eq!(story(std::slice::from_ref(&b), &[], SOON), [("released", 2)]);
        let gone = vanished(std::slice::from_ref(&a), std::slice::from_ref(&b));
        assert_eq!(gone[0].name.as_str(), "a");
        assert!(vanished(std::slice::from_ref(&a), std::slice::from_ref(&a)).is_empty());
    }

    #[test]
    fn a_hold_whose_time_was_up_has_expired_and_a_waiter_gives_up() {
        let before = [line(1, [held(1), place(2, 1)])];
        assert_eq!(story(&before, &[], LATE), [("expired", 1), ("gave_up", 2)]);
        let mut timeless = before.clone();
        timeless[0].places[0].left = None;
        assert_eq!(story(&timeless, &[], LATE), [("released", 1), ("gave_up", 2)]);
    }

    #[test]
    fn a_break_is_told_with_its_record_also_of_a_line_that_is_free_by_now() {
        let before = [line(1, [held(1), place(2, 1)])];
        let cause = Arc::new(Break { by: "eve".into(), reason: "hung".into() });
        for (broken, left, events) in [
            (0, vec![held(2)], vec![("broken", 1), ("acquired", 2)]),
            (0, vec![], vec![("broken", 1), ("gave_up", 2)]),
            (1, vec![held(1)], vec![("broken", 2)]),
        ] {
            let id = before[0].places[broken].claim.id;
            let mut after = line(1, left);
            after.broken = Some(Broken { id, cause: cause.clone(), ago: SOON });
            let after = [after];
            // Also when its time was up meanwhile.
            assert_eq!(story(&before, &after, LATE), events);
            let told = between(&before, &after, LATE);
            assert_eq!(&*told[0].broken.unwrap().cause.by, "eve");
            assert!(told[1..].iter().all(|event| event.broken.is_none()));
            assert_eq!(story(&after, &after, LATE), []);
        }
    }

    #[test]
    fn a_new_reason_of_a_holder_is_a_change() {
        let before = [line(1, [held(1).note("10.0.0.7"), place(2, 1).note("x")])];
        let after = [line(1, [held(1).note("10.0.0.8"), place(2, 1).note("y")])];
        assert_eq!(story(&before, &after, SOON), [("changed", 1)]);
        assert_eq!(&*between(&before, &after, SOON)[0].place.claim.note, "10.0.0.8");
    }
}
