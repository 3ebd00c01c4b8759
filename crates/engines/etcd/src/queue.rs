//! A line as etcd shows it: keys by the revision of their creation.

use bramah_core::{ClaimId, Fence, SessionId, line};

use crate::{
    layout::is_child,
    proto::mvccpb::KeyValue,
    value::{Told, Value},
};

/// The upper half of the ids by which the keys of other programs are named.
const FOREIGN: u64 = 0x6e6f_7420_6f75_7273;

/// One in a line.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) kv: KeyValue,
    /// `None` for a key of another program.
    pub(crate) value: Option<Value>,
}

impl Place {
    pub(crate) fn of(kv: KeyValue) -> Self {
        let value = Value::decode(&kv.value);
        Self { kv, value }
    }

    /// Its claim's id; one that is made up if it is not ours.
    pub(crate) fn id(&self) -> ClaimId {
        match &self.value {
            Some(value) => value.id,
            None => {
                let lease = u128::from(self.kv.lease.unsigned_abs());
                let session = SessionId::from_bits(u128::from(FOREIGN) << 64 | lease);
                ClaimId { session, seq: self.kv.create_revision.unsigned_abs() }
            }
        }
    }

    /// How much of a line of this capacity it takes. Who did not say, or counts otherwise, takes all of it.
    pub(crate) fn weight(&self, capacity: u32) -> u32 {
        match &self.value {
            Some(value) if value.capacity == capacity => value.weight,
            _ => capacity,
        }
    }

    /// The fence that it was granted with, once that is known.
    pub(crate) fn fence(&self) -> Option<Fence> {
        match self.value.as_ref()?.fence {
            Told::Nothing => None,
            Told::Here => u64::try_from(self.kv.mod_revision).ok().map(Fence::new),
            Told::This(fence) => Some(fence),
        }
    }
}

/// The line of one name.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) places: Vec<Place>,
    /// As of which revision.
    pub(crate) revision: i64,
}

impl Queue {
    /// The children of `start` out of what was read.
    pub(crate) fn of(start: &[u8], kvs: Vec<KeyValue>, revision: i64) -> Self {
        let mut places: Vec<Place> =
            kvs.into_iter().filter(|kv| is_child(start, &kv.key)).map(Place::of).collect();
        places.sort_by_key(|place| place.kv.create_revision);
        Self { places, revision }
    }

    /// Where a key is.
    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        self.places.iter().position(|place| place.kv.key == key)
    }

    /// The capacity that its first claim of ours says; 1 among others alone.
    pub(crate) fn capacity(&self) -> u32 {
        self.places.iter().find_map(|place| place.value.as_ref()).map_or(1, |value| value.capacity)
    }

    /// The first claim of ours among the first `count`, if its capacity is not this one. It says what the capacity of the line is; one
    /// behind it with another capacity is refused, and on its way out.
    pub(crate) fn other_kind(&self, count: usize, capacity: u32) -> Option<&Value> {
        let first = self.places.iter().take(count).find_map(|place| place.value.as_ref());
        first.filter(|first| first.capacity != capacity)
    }

    /// How many from the head on hold, as a claim of this capacity counts.
    pub(crate) fn holders(&self, capacity: u32) -> usize {
        line::holders(capacity, self.places.iter().map(|place| place.weight(capacity)))
    }

    /// Whether one more of this weight would hold at the end.
    pub(crate) fn would_hold(&self, capacity: u32, weight: u32) -> bool {
        let all = self.places.iter().map(|place| place.weight(capacity)).chain([weight]);
        line::holders(capacity, all) > self.places.len()
    }

    /// What the one at this place waits for.
    pub(crate) fn obstacle(&self, at: usize, capacity: u32, weight: u32) -> Obstacle<'_> {
        let ahead = self.places.get(..at).unwrap_or_default();
        let Some(before) = ahead.last() else { return Obstacle::Line };
        if weight == capacity {
            // Nobody may be ahead of it: not before the last of them goes.
            return Obstacle::Key { key: &before.kv.key, puts: false };
        }
        if capacity == line::WHOLE {
            let last = ahead.iter().rfind(|place| place.weight(capacity) == capacity);
            return last.map_or(Obstacle::Line, |place| Obstacle::Key { key: &place.kv.key, puts: false });
        }
        if self.holders(capacity) == at {
            // The first that waits: whoever of the holders leaves may make room.
            return Obstacle::Line;
        }
        // It cannot be its turn before the one ahead is granted, which writes that down, or leaves.
        Obstacle::Key { key: &before.kv.key, puts: true }
    }
}

/// What has to change before it is worth asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle<'q> {
    /// This key goes, or with `puts` is written.
    Key { key: &'q [u8], puts: bool },
    /// Somebody leaves.
    Line,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bramah_core::Keep;

    use super::*;

    fn kv(key: &str, at: i64, said: Option<(u32, u32)>) -> KeyValue {
        let value = said.map(|(capacity, weight)| {
            let id = ClaimId { session: SessionId::from_bits(7), seq: 1 };
            let (who, note) = ("".into(), "".into());
            let ttl = Duration::from_secs(1);
            let (lease, granted_us, fence) = (None, None, Told::Nothing);
            let keep = Keep::Process;
            Value { id, capacity, weight, ttl, lease, entered_us: 0, granted_us, fence, who, note, keep }
                .encode()
        });
        KeyValue {
            key: key.into(),
            create_revision: at,
            value: value.unwrap_or_default(),
            ..KeyValue::default()
        }
    }

    #[test]
    fn a_line_goes_by_creation_and_has_its_children_alone() {
        let kvs =
            vec![kv("a/2", 9, None), kv("a/b/1", 1, None), kv("a/1", 11, Some((1, 1))), kv("a/3", 4, None)];
        let queue = Queue::of(b"a/", kvs, 20);
        let keys: Vec<_> = queue.places.iter().map(|place| place.kv.key.as_slice()).collect();
        assert_eq!(keys, [b"a/3", b"a/2", b"a/1"]);
        assert_eq!((queue.holders(1), queue.capacity()), (1, 1));
        assert_eq!(queue.obstacle(2, 1, 1), Obstacle::Key { key: b"a/2", puts: false });
        assert_ne!(queue.places[0].id(), queue.places[1].id(), "keys of others are told apart");
    }

    #[test]
    fn readers_wait_for_the_last_writer_and_permits_for_whoever_is_ahead() {
        let all = line::WHOLE;
        let kvs = vec![
            kv("a/1", 1, Some((all, 1))),
            kv("a/2", 2, Some((all, all))),
            kv("a/3", 3, Some((all, 1))),
            kv("a/4", 4, Some((all, 1))),
        ];
        let queue = Queue::of(b"a/", kvs, 20);
        assert_eq!(queue.holders(all), 1);
        assert_eq!(queue.obstacle(3, all, 1), Obstacle::Key { key: b"a/2", puts: false });
        let kvs = (1..=4).map(|at| kv(&format!("a/{at}"), at, Some((3, 2)))).collect();
        let queue = Queue::of(b"a/", kvs, 20);
        assert_eq!(queue.obstacle(1, 3, 2), Obstacle::Line);
        assert_eq!(queue.obstacle(2, 3, 2), Obstacle::Key { key: b"a/2", puts: true });
        assert_eq!(queue.other_kind(4, 5).map(|first| first.capacity), Some(3));
        assert_eq!((queue.other_kind(4, 3), queue.other_kind(0, 5)), (None, None));
        let kvs = vec![kv("a/1", 1, None), kv("a/2", 2, Some((1, 1))), kv("a/3", 3, Some((3, 1)))];
        let queue = Queue::of(b"a/", kvs, 20);
        assert_eq!(queue.other_kind(3, 1), None, "one that is refused itself says nothing");
        assert_eq!(queue.other_kind(3, 3).map(|first| first.capacity), Some(1));
        assert!(!queue.would_hold(100, 1) && Queue::of(b"x/", Vec::new(), 1).would_hold(1, 1));
    }
}
