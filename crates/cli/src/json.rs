//! The stable form of what is listed: version 1. Fields may be added; none changes its meaning.
//!
//! Times are ages in milliseconds, so that no clocks have to agree. Ids are tags: they name a claim and give no
//! power over it.

use std::collections::BTreeMap;

use bramah::{Broken, LineView, Name, PlaceState, PlaceView, line::WHOLE};
use serde::Serialize;

use crate::{holder, span::ms};

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
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<usize>,
    id: String,
    owner: Option<&'a str>,
    host: Option<&'a str>,
    pid: Option<u32>,
    reason: &'a str,
    labels: BTreeMap<&'a str, &'a str>,
    mode: &'static str,
    permits: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_ms: Option<u64>,
    age_ms: u64,
    ttl_left_ms: Option<u64>,
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
            v: 1,
            name: line.name.as_str(),
            state: if holders.is_empty() { "waiting" } else { "held" },
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
            v: 1,
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
            held_ms: place.is_held().then(|| ms(holder::held(place))),
            age_ms: ms(place.age),
            ttl_left_ms: place.left.map(ms),
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
    pub(crate) outcome: &'static str,
    pub(crate) exit: u8,
    pub(crate) id: Option<String>,
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

/// One line. Nothing here can fail to be written: the keys are text and the numbers are finite.
pub(crate) fn to_line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| format!("{{\"v\":1,\"error\":\"{error}\"}}"))
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
    fn a_lock_in_version_one() {
        let line = line(1, [place(7, 1).held(3).note("hot\nfix"), place(8, 1)]);
        let tag = |index: usize| line.places[index].claim.id.tag();
        let expected = r#"{"v":1,"name":"deploy/prod","state":"held","mode":"mutex","slots":1,"fence":4127,"holders":[{"id":"TAG0","owner":"ana@ci-7:7","host":"ci-7","pid":7,"reason":"hot\nfix","labels":{"job":"8812"},"mode":"mutex","permits":1,"held_ms":3000,"age_ms":7000,"ttl_left_ms":21400,"health":"running"}],"waiters":[{"position":1,"id":"TAG1","owner":"ana@ci-7:8","host":"ci-7","pid":8,"reason":"","labels":{"job":"8812"},"mode":"mutex","permits":1,"age_ms":8000,"ttl_left_ms":21400,"health":"running"}],"broken":null,"store":"memory:"}"#
            .replace("TAG0", &tag(0).to_string())
            .replace("TAG1", &tag(1).to_string());
        assert_eq!(to_line(&Lock::of(&line, "memory:")), expected);
    }

    #[test]
    fn a_read_write_lock_has_no_slots_and_a_free_one_has_nothing() {
        let json = to_line(&Lock::of(&line(WHOLE, [place(1, 1).held(1)]), "memory:"));
        assert!(json.contains(r#""mode":"read","slots":null"#), "{json}");
        let name = Name::new("a").unwrap();
        assert_eq!(
            to_line(&Lock::free(&name, "memory:")),
            r#"{"v":1,"name":"a","state":"free","mode":null,"slots":null,"fence":null,"holders":[],"waiters":[],"broken":null,"store":"memory:"}"#
        );
    }
}
