//! Redisson's locks as they are seen.

use std::time::Duration;

use bramah_core::{
    Broken, Claim, ClaimId, Error, ErrorKind, Fence, LineView, Name, PlaceState, PlaceView, Result, Wait,
};
use redis::Value;

use super::{foreign, string};
use crate::{layout::redisson::read_owner, text};

/// What is said of an owner that is nowhere introduced.
const STRANGER: &str = "Redisson's owner, thread ";

/// Whether a note is ours, for want of another.
pub(super) fn is_guess(note: &str) -> bool {
    note.starts_with(STRANGER)
}

/// One lock as the script shows it.
pub(super) struct Seen<'a> {
    now_ms: u64,
    kind: String,
    capacity: u32,
    record: Option<String>,
    /// The last one that was given.
    token: Option<Fence>,
    places: &'a [Value],
}

pub(super) fn read(shown: &Value) -> Result<Vec<Seen<'_>>> {
    let wrong = || Error::new(ErrorKind::Corrupt, "the server's answer to a look is not understood");
    let Value::Array(parts) = shown else { return Err(wrong()) };
    let [Value::Int(now), locks @ ..] = parts.as_slice() else { return Err(wrong()) };
    let now_ms = u64::try_from(*now).map_err(|_| wrong())?;
    locks
        .iter()
        .map(|lock| match lock {
            Value::Array(fields) => match fields.as_slice() {
                [kind, Value::Int(capacity), record, Value::Int(token), Value::Array(places)] => Ok(Seen {
                    now_ms,
                    kind: string(kind).ok_or_else(wrong)?,
                    capacity: u32::try_from(*capacity).unwrap_or(1).max(1),
                    record: string(record),
                    token: u64::try_from(*token).ok().filter(|token| *token > 0).map(Fence::new),
                    places,
                }),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        })
        .collect()
}

impl Seen<'_> {
    /// The line that is stored there; `None` where there is none.
    pub(super) fn view(&self, name: &Name, is_named: bool) -> Result<Option<LineView>> {
        if is_named && !matches!(self.kind.as_str(), "none" | "hash" | "string") {
            return Err(foreign(name, &format!("it is a {}", self.kind)));
        }
        let mut places: Vec<PlaceView> =
            self.places.iter().filter_map(|place| self.place(name, place)).collect();
        // Any data may lie beside: a hash is a lock if all of it is.
        if places.len() < self.places.len() {
            return if is_named { Err(foreign(name, "its fields are no owners")) } else { Ok(None) };
        }
        places.sort_by_key(|place| (place.state == PlaceState::Waiting, place.left));
        let broken = self.record.as_deref().and_then(text::decode_break).map(|(id, at_ms, cause)| Broken {
            id,
            cause,
            ago: Duration::from_millis(self.now_ms.saturating_sub(at_ms)),
        });
        if places.is_empty() && broken.is_none() {
            return Ok(None);
        }
        Ok(Some(LineView { name: name.clone(), capacity: self.capacity, places, broken }))
    }

    fn place(&self, name: &Name, place: &Value) -> Option<PlaceView> {
        let Value::Array(fields) = place else { return None };
        let [state, Value::BulkString(owner), Value::Int(left), card, Value::Int(count)] = fields.as_slice()
        else {
            return None;
        };
        let left = u64::try_from(*left).ok().map(Duration::from_millis);
        let known = string(card).and_then(|card| text::decode(name, &card));
        // Redisson writes down neither since when nor a ttl; our card has the ttl of the last renewal.
        let (claim, ttl) = match known {
            Some(found) => {
                let ttl = Some(found.claim.ttl).filter(|_| found.claim.lease.is_none());
                (found.claim, ttl)
            }
            None => (self.uncarded(name, owner, left, *count)?, None),
        };
        let renewed = ttl.zip(left).map(|(ttl, left)| ttl.saturating_sub(left));
        let state = match string(state)?.as_str() {
            "h" => PlaceState::Held { fence: self.token.filter(|_| claim.is_exclusive()), since: None },
            _ => PlaceState::Waiting,
        };
        Some(super::place(claim, state, None, left, renewed))
    }

    /// A claim of which only its owner is known.
    fn uncarded(&self, name: &Name, owner: &[u8], left: Option<Duration>, count: i64) -> Option<Claim> {
        let is_pool = self.kind == "string";
        let (owner, writes) = match owner.strip_suffix(b":write") {
            Some(owner) if self.capacity == u32::MAX => (owner, true),
            _ => (owner, false),
        };
        let id = if is_pool {
            ClaimId { session: std::str::from_utf8(owner).ok()?.parse().ok()?, seq: 0 }
        } else {
            // An owner has a colon and its count is a number.
            if !owner.contains(&b':') || count < 1 {
                return None;
            }
            read_owner(owner)
        };
        let note = match std::str::from_utf8(owner).ok().and_then(|owner| owner.rsplit_once(':')) {
            Some((_, thread)) if !is_pool && count > 1 => {
                format!("{STRANGER}{thread}, {count} times")
            }
            Some((_, thread)) if !is_pool => format!("{STRANGER}{thread}"),
            _ => "a permit of Redisson's".to_owned(),
        };
        Some(Claim {
            id,
            name: name.clone(),
            capacity: self.capacity,
            weight: if writes { u32::MAX } else { 1 },
            wait: Wait::No,
            again: true,
            floor: None,
            // As Redisson has it unless it is told otherwise.
            ttl: left.unwrap_or(Duration::from_secs(30)),
            lease: None,
            note: note.into(),
        })
    }
}
