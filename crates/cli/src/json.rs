//! The stable form of what is printed, which `docs/json.md` describes. Fields may be added; none changes its meaning.
//!
//! Every object of a kind has all of its fields: what is not known, or does not apply, is null. Times are ages in
//! milliseconds, so that no clocks have to agree. Ids are tags: they name a claim and give no power over it.

use std::collections::BTreeMap;

use bramah::{Broken, LineView, Name, PlaceState, PlaceView, Tag, line::WHOLE};
use serde::Serialize;

use crate::{event, holder, span::ms};

/// The version of all that is printed: another one if a field is renamed, removed or given another meaning.
pub(crate) const VERSION: u32 = 2;

/// One lock.
#[derive(Debug, Serialize)]
pub(crate) struct Lock<'a> {
    v: u32,
    name: &'a str,
    state: &'static str,
    mode: Option<&'static str>,
    slots: Option<u32>,
    fence: Option<u64>,
    holders: Vec<Place<'a>>,
    waiters: Vec<Place<'a>>,
    broken: Option<Break<'a>>,
    store: &'a str,
}

#[derive(Debug, Serialize)]
struct Place<'a> {
    position: Option<usize>,
    id: String,
    owner: Option<&'a str>,
    host: Option<&'a str>,
    pid: Option<u32>,
    reason: &'a str,
    labels: BTreeMap<&'a str, &'a str>,
    mode: &'static str,
    permits: Option<u32>,
    held_ms: Option<u64>,
    age_ms: Option<u64>,
    ttl_left_ms: Option<u64>,
    renewed_ago_ms: Option<u64>,
    health: &'static str,
}

#[derive(Debug, Serialize)]
struct Break<'a> {
    id: String,
    by: &'a str,
    reason: &'a str,
    ago_ms: u64,
}

impl<'a> Lock<'a> {
    /// A lock that somebody holds or waits for.
    pub(crate) fn of(line: &'a LineView, store: &'a str) -> Self {
        let place = |(index, place)| Place::of(line.capacity, place, index);
        let waiters = line.waiters().enumerate().map(|(index, place)| (Some(index + 1), place));
        let holders: Vec<_> = line.holders().map(|holder| (None, holder)).map(place).collect();
        Self {
            v: VERSION,
            name: line.name.as_str(),
            state: match (holders.is_empty(), line.places.is_empty()) {
                (false, _) => "held",
                (true, false) => "waiting",
                (true, true) => "free",
            },
            mode: line.places.first().map(|place| holder::mode(line.capacity, place)),
            slots: slots(line.capacity),
            fence: line.holders().find_map(fence),
            holders,
            waiters: waiters.map(place).collect(),
            broken: line.broken.as_ref().map(Break::of),
            store,
        }
    }

    /// A lock that nobody holds or waits for.
    pub(crate) fn free(name: &'a Name, store: &'a str) -> Self {
        Self {
            v: VERSION,
            name: name.as_str(),
            state: "free",
            mode: None,
            slots: None,
            fence: None,
            holders: Vec::new(),
            waiters: Vec::new(),
            broken: None,
            store,
        }
    }
}

impl<'a> Place<'a> {
    fn of(capacity: u32, place: &'a PlaceView, position: Option<usize>) -> Self {
        let about = place.about.as_deref();
        let labels = about.map(|about| about.labels.iter().map(|(key, value)| (&**key, &**value)).collect());
        Self {
            position,
            id: place.claim.id.tag().to_string(),
            owner: about.map(|about| &*about.owner),
            host: about.map(|about| &*about.host),
            pid: about.map(|about| about.pid),
            reason: &place.claim.note,
            labels: labels.unwrap_or_default(),
            mode: holder::mode(capacity, place),
            permits: slots(capacity).map(|_| place.claim.weight),
            held_ms: place.held_for().map(ms),
            age_ms: place.age.map(ms),
            ttl_left_ms: place.left.map(ms),
            renewed_ago_ms: place.renewed.map(ms),
            health: holder::health(place),
        }
    }
}

impl<'a> Break<'a> {
    fn of(broken: &'a Broken) -> Self {
        Self {
            id: broken.id.tag().to_string(),
            by: &broken.cause.by,
            reason: &broken.cause.reason,
            ago_ms: ms(broken.ago),
        }
    }
}

/// What became of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome<'a> {
    pub(crate) v: u32,
    pub(crate) name: &'a str,
    pub(crate) names: &'a [&'a str],
    pub(crate) outcome: &'static str,
    pub(crate) exit: u8,
    pub(crate) id: Option<String>,
    pub(crate) ids: &'a [String],
    pub(crate) fence: Option<u64>,
    pub(crate) fences: &'a [Option<u64>],
    pub(crate) waited_ms: u64,
    pub(crate) held_ms: Option<u64>,
    pub(crate) child_code: Option<u8>,
}

/// Whether the lock of a run is held.
#[derive(Debug, Serialize)]
pub(crate) struct Check<'a> {
    pub(crate) v: u32,
    pub(crate) name: &'a str,
    pub(crate) id: Option<&'a str>,
    pub(crate) held: bool,
    pub(crate) left_ms: Option<u64>,
}

/// A lock that was left held. The handle gives power over it: nothing else prints one.
#[derive(Debug, Serialize)]
pub(crate) struct Left<'a> {
    pub(crate) v: u32,
    pub(crate) name: &'a str,
    pub(crate) handle: String,
    pub(crate) id: String,
    pub(crate) fence: Option<u64>,
    pub(crate) ttl_ms: u64,
    pub(crate) store: &'a str,
}

/// A lock that was given another ttl.
#[derive(Debug, Serialize)]
pub(crate) struct Renewed<'a> {
    pub(crate) v: u32,
    pub(crate) name: &'a str,
    pub(crate) id: String,
    pub(crate) ttl_ms: u64,
}

/// A lock that was released, unless it was not held any more.
#[derive(Debug, Serialize)]
pub(crate) struct Unlocked<'a> {
    pub(crate) v: u32,
    pub(crate) name: &'a str,
    pub(crate) id: String,
    pub(crate) released: bool,
}

/// Those who were asked to let go.
#[derive(Debug, Serialize)]
pub(crate) struct Revoking<'a> {
    pub(crate) v: u32,
    pub(crate) name: &'a str,
    /// The ids of their holds.
    pub(crate) asked: Vec<String>,
    pub(crate) store: &'a str,
}

/// A hold or a place in line that was ended by force, unless there was none.
#[derive(Debug, Serialize)]
pub(crate) struct Breaking<'a> {
    v: u32,
    name: &'a str,
    id: String,
    broken: bool,
    /// What was broken, as seen just before.
    was: Option<Place<'a>>,
    /// Who holds the lock now.
    holders: Vec<Place<'a>>,
    store: &'a str,
}

impl<'a> Breaking<'a> {
    pub(crate) fn new(
        name: &'a Name,
        tag: Tag,
        broken: bool,
        was: Option<(u32, &'a PlaceView)>,
        now: Option<&'a LineView>,
        store: &'a str,
    ) -> Self {
        let holders = now.into_iter().flat_map(|line| {
            let holders: Vec<_> = line.holders().collect();
            holders.into_iter().map(|place| Place::of(line.capacity, place, None))
        });
        Self {
            v: VERSION,
            name: name.as_str(),
            id: tag.to_string(),
            broken,
            was: was.map(|(capacity, place)| Place::of(capacity, place, None)),
            holders: holders.collect(),
            store,
        }
    }
}

/// Something that happened.
#[derive(Debug, Serialize)]
pub(crate) struct Event<'a> {
    v: u32,
    at: &'a str,
    event: &'static str,
    name: &'a str,
    id: String,
    owner: Option<&'a str>,
    host: Option<&'a str>,
    pid: Option<u32>,
    reason: &'a str,
    labels: BTreeMap<&'a str, &'a str>,
    mode: &'static str,
    permits: Option<u32>,
    fence: Option<u64>,
    /// At an end: until it was seen to be gone.
    held_ms: Option<u64>,
    age_ms: Option<u64>,
    by: Option<&'a str>,
    break_reason: Option<&'a str>,
    store: &'a str,
}

impl<'a> Event<'a> {
    pub(crate) fn of(event: &event::Event<'a>, at: &'a str, store: &'a str) -> Self {
        let place = Place::of(event.capacity, event.place, None);
        let cause = event.broken.map(|broken| &*broken.cause);
        Self {
            v: VERSION,
            at,
            event: event.what.word(),
            name: event.name.as_str(),
            id: place.id,
            owner: place.owner,
            host: place.host,
            pid: place.pid,
            reason: place.reason,
            labels: place.labels,
            mode: place.mode,
            permits: place.permits,
            fence: fence(event.place),
            held_ms: place.held_ms.map(|held| held + ms(event.ago)),
            age_ms: place.age_ms.map(|age| age + ms(event.ago)),
            by: cause.map(|cause| &*cause.by),
            break_reason: cause.map(|cause| &*cause.reason),
            store,
        }
    }
}

/// One line. Nothing here can fail to be written: the keys are text and the numbers are finite.
pub(crate) fn to_line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| format!("{{\"v\":{VERSION},\"error\":\"{error}\"}}"))
}

pub(crate) fn fence(place: &PlaceView) -> Option<u64> {
    match place.state {
        PlaceState::Held { fence, .. } => fence.map(bramah::Fence::get),
        PlaceState::Waiting => None,
    }
}

/// The capacity, where that is a number that means something.
fn slots(capacity: u32) -> Option<u32> {
    (capacity != WHOLE).then_some(capacity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{line, place};

    #[test]
    fn a_lock_in_version_two() {
        let line = line(1, [place(7, 1).held(3).note("hot\nfix"), place(8, 1)]);
        let tag = |index: usize| line.places[index].claim.id.tag();
        let expected = r#"{"v":2,"name":"deploy/prod","state":"held","mode":"mutex","slots":1,"fence":4127,"holders":[{"position":null,"id":"TAG0","owner":"ana@ci-7:7","host":"ci-7","pid":7,"reason":"hot\nfix","labels":{"job":"8812"},"mode":"mutex","permits":1,"held_ms":3000,"age_ms":7000,"ttl_left_ms":21400,"renewed_ago_ms":8600,"health":"running"}],"waiters":[{"position":1,"id":"TAG1","owner":"ana@ci-7:8","host":"ci-7","pid":8,"reason":"","labels":{"job":"8812"},"mode":"mutex","permits":1,"held_ms":null,"age_ms":8000,"ttl_left_ms":21400,"renewed_ago_ms":8600,"health":"running"}],"broken":null,"store":"memory:"}"#
            .replace("TAG0", &tag(0).to_string())
            .replace("TAG1", &tag(1).to_string());
        assert_eq!(to_line(&Lock::of(&line, "memory:")), expected);
    }

    #[test]
    fn what_a_store_does_not_know_is_null() {
        let mut place = place(7, 1).held(3);
        place.0.state = PlaceState::Held { fence: None, since: None };
        (place.0.age, place.0.left, place.0.renewed, place.0.about) = (None, None, None, None);
        let json = to_line(&Lock::of(&line(1, [place]), "memory:"));
        let nulls = r#""held_ms":null,"age_ms":null,"ttl_left_ms":null,"renewed_ago_ms":null"#;
        assert!(json.contains(nulls) && json.contains(r#""owner":null,"host":null,"pid":null"#), "{json}");
    }

    #[test]
    fn a_read_write_lock_has_no_slots_and_a_free_one_has_nothing() {
        let json = to_line(&Lock::of(&line(WHOLE, [place(1, 1).held(1)]), "memory:"));
        assert!(json.contains(r#""mode":"read","slots":null"#), "{json}");
        let name = Name::new("a").unwrap();
        assert_eq!(
            to_line(&Lock::free(&name, "memory:")),
            r#"{"v":2,"name":"a","state":"free","mode":null,"slots":null,"fence":null,"holders":[],"waiters":[],"broken":null,"store":"memory:"}"#
        );
    }
}
