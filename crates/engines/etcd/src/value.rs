//! What a key says of its claim: one line that people can read.
//!
//! `bramah1 session=… seq=3 capacity=1 weight=1 ttl=10000 lease=- entered=… granted=… fence=… who=… note=…`, words parted by spaces,
//! each value percent-encoded; ` keep=nobody` behind that in a session that no process keeps. Times are of the wall clock of whoever wrote it, in microseconds, and only shown.

use std::{fmt, sync::Arc, time::Duration};

use bramah_core::{About, Break, Claim, ClaimId, Fence, Keep, Name, SessionId, Wait};

use crate::room::Room;

/// The first word: what this is, and its format.
const FORMAT: &str = "bramah1";

/// The last word of a claim in a session that nobody keeps.
const NOBODY: &str = " keep=nobody";

/// What a claim of ours says in its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) id: ClaimId,
    pub(crate) capacity: u32,
    pub(crate) weight: u32,
    pub(crate) ttl: Duration,
    pub(crate) lease: Option<Duration>,
    pub(crate) entered_us: u64,
    /// Set once it is held, where that is written down.
    pub(crate) granted_us: Option<u64>,
    /// Once it is held.
    pub(crate) fence: Told,
    pub(crate) who: Arc<str>,
    pub(crate) note: Arc<str>,
    /// Who keeps its session alive.
    pub(crate) keep: Keep,
}

/// What a key says of its fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Nothing: it waits, or has none.
    Nothing,
    /// It is the revision at which this was written. Nobody knows that before it is.
    Here,
    /// It is this one.
    This(Fence),
}

impl Value {
    /// What a claim that is about to enter says.
    pub(crate) fn entering(claim: &Claim, room: &Room, now_us: u64, granted: bool) -> Self {
        Self {
            id: claim.id,
            capacity: claim.capacity,
            weight: claim.weight,
            ttl: claim.ttl,
            lease: claim.lease,
            entered_us: now_us,
            granted_us: granted.then_some(now_us),
            fence: if granted && claim.is_exclusive() { Told::Here } else { Told::Nothing },
            who: room.who.clone(),
            note: claim.note.clone(),
            keep: room.keep,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        format!(
            "{FORMAT} session={} seq={} capacity={} weight={} ttl={} lease={} entered={} granted={} fence={} who={} note={}{}",
            self.id.session,
            self.id.seq,
            self.capacity,
            self.weight,
            self.ttl.as_millis(),
            Or(self.lease.map(|lease| lease.as_millis())),
            self.entered_us,
            Or(self.granted_us.map(u128::from)),
            self.fence,
            Escaped(&self.who),
            Escaped(&self.note),
            if self.keep == Keep::Nobody { NOBODY } else { "" },
        )
        .into_bytes()
    }

    /// Reads what [`encode`](Value::encode) wrote. `None` if it is somebody else's, or of another version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(bytes).ok()?.split(' ');
        words.next().filter(|word| *word == FORMAT)?;
        let mut word = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
        let session: SessionId = word("session")?.parse().ok()?;
        let seq = word("seq")?.parse().ok()?;
        let capacity: u32 = word("capacity")?.parse().ok().filter(|capacity| *capacity > 0)?;
        let weight = word("weight")?.parse().ok().filter(|weight| (1..=capacity).contains(weight))?;
        let ttl = Duration::from_millis(word("ttl")?.parse().ok()?);
        let lease = maybe(word("lease")?)?.map(Duration::from_millis);
        let entered_us = word("entered")?.parse().ok()?;
        let granted_us = maybe(word("granted")?)?;
        let fence = Told::read(word("fence")?)?;
        let (who, note) = (unescape(word("who")?).into(), unescape(word("note")?).into());
        let id = ClaimId { session, seq };
        // Earlier versions did not say.
        let keep = if words.next() == Some(NOBODY.trim_start()) { Keep::Nobody } else { Keep::Process };
        Some(Self { id, capacity, weight, ttl, lease, entered_us, granted_us, fence, who, note, keep })
    }

    /// The claim that it is about.
    pub(crate) fn claim(&self, name: &Name) -> Claim {
        Claim {
            id: self.id,
            name: name.clone(),
            capacity: self.capacity,
            weight: self.weight,
            wait: Wait::Line,
            again: true,
            floor: None,
            ttl: self.ttl,
            lease: self.lease,
            note: self.note.clone(),
        }
    }

    /// The process behind it; what cannot be read of it is not worth hiding the lock.
    pub(crate) fn about(&self) -> Option<Arc<About>> {
        About::decode(&self.who).ok().map(Arc::new)
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("-"),
            Self::Here => f.write_str("here"),
            Self::This(fence) => fence.fmt(f),
        }
    }
}

/// A number, or a dash for none.
struct Or(Option<u128>);

impl fmt::Display for Or {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => number.fmt(f),
            None => f.write_str("-"),
        }
    }
}

impl Told {
    fn read(word: &str) -> Option<Self> {
        match word {
            "-" => Some(Self::Nothing),
            "here" => Some(Self::Here),
            number => number.parse().ok().map(Fence::new).map(Self::This),
        }
    }
}

/// The record of a hold that was ended by force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) id: ClaimId,
    pub(crate) at_us: u64,
    pub(crate) cause: Arc<Break>,
}

impl Record {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (by, reason) = (Escaped(&self.cause.by), Escaped(&self.cause.reason));
        let ClaimId { session, seq } = self.id;
        format!("{FORMAT} session={session} seq={seq} at={} by={by} reason={reason}", self.at_us).into_bytes()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(bytes).ok()?.split(' ');
        words.next().filter(|word| *word == FORMAT)?;
        let mut word = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
        let id = ClaimId { session: word("session")?.parse().ok()?, seq: word("seq")?.parse().ok()? };
        let at_us = word("at")?.parse().ok()?;
        let (by, reason) = (unescape(word("by")?).into(), unescape(word("reason")?).into());
        Some(Self { id, at_us, cause: Arc::new(Break { by, reason }) })
    }
}

/// A fence that later ones have to be above.
pub(crate) fn read_floor(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

fn maybe(word: &str) -> Option<Option<u64>> {
    if word == "-" { Some(None) } else { word.parse().ok().map(Some) }
}

/// A text as one word.
struct Escaped<'t>(&'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |c: char| c != '%' && !c.is_whitespace() && !c.is_control();
        let mut rest = self.0;
        while let Some(at) = rest.find(|c| !is_plain(c)) {
            let (plain, special) = rest.split_at(at);
            f.write_str(plain)?;
            let end = special.chars().next().map_or(0, char::len_utf8);
            let (special, after) = special.split_at(end);
            special.bytes().try_for_each(|byte| write!(f, "%{byte:02x}"))?;
            rest = after;
        }
        f.write_str(rest)
    }
}

fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).filter(|_| byte == b'%');
        let code = hex
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(code.unwrap_or(byte));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_written_is_read_back(session: u128, seq: u64, weight in 1u32.., ttl: u32, lease: Option<u32>, fence: Option<u64>, who in ".*", note in "(.|\n)*", is_left: bool) {
            let value = Value {
                id: ClaimId { session: SessionId::from_bits(session), seq },
                capacity: u32::MAX,
                weight,
                ttl: Duration::from_millis(ttl.into()),
                lease: lease.map(|lease| Duration::from_millis(lease.into())),
                entered_us: seq,
                granted_us: fence,
                fence: fence.map_or(Told::Here, |fence| Told::This(Fence::new(fence))),
                who: who.into(),
                note: note.as_str().into(),
                keep: if is_left { Keep::Nobody } else { Keep::Process },
            };
            let text = value.encode();
            prop_assert!(!text.contains(&b'\n'));
            prop_assert_eq!(Value::decode(&text), Some(value.clone()));
            let cause = Arc::new(Break { by: value.who.clone(), reason: value.note.clone() });
            let record = Record { id: value.id, at_us: seq, cause };
            prop_assert_eq!(Record::decode(&record.encode()), Some(record));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (Value::decode(&bytes), Record::decode(&bytes), read_floor(&bytes));
        }
    }

    #[test]
    fn what_others_write_is_not_ours() {
        for bytes in ["", "10.0.0.7:8080", "bramah2 session=0", "bramah1 session=0"] {
            assert_eq!(Value::decode(bytes.as_bytes()), None, "{bytes}");
        }
    }
}
