//! Who wants what.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use crate::{Error, ErrorKind, Fence, Name, Result};

/// One session of one process: 128 random bits, picked before anything is sent.
///
/// Whoever knows it can act for the session, so `Debug` shows a [`Tag`] instead. `Display` writes the 32 hex digits
/// that stores keep.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(u128);

impl SessionId {
    /// A new one from the operating system's generator.
    ///
    /// # Errors
    /// `Unavailable` when the system has no randomness to give.
    pub fn random() -> Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| {
            Error::caused(ErrorKind::Unavailable, format!("no randomness for a session id: {error}"), error)
        })?;
        Ok(Self(u128::from_be_bytes(bytes)))
    }

    /// The session with these bits: for seeded tests, and for engines that read one back.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// The bits.
    pub const fn bits(self) -> u128 {
        self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({})", Tag::of(*self, 0))
    }
}

impl FromStr for SessionId {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let digits = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match u128::from_str_radix(text, 16) {
            Ok(bits) if digits => Ok(Self(bits)),
            _ => Err(Error::new(ErrorKind::Invalid, "not a session id: 32 lower-case hex digits expected")),
        }
    }
}

/// One claim of one session. Ids are never used twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimId {
    /// Whose claim it is.
    pub session: SessionId,
    /// Which of its claims.
    pub seq: u64,
}

impl ClaimId {
    /// The short public form, for people.
    pub fn tag(self) -> Tag {
        Tag::of(self.session, self.seq)
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.session, self.seq)
    }
}

impl fmt::Debug for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Claim({})", self.tag())
    }
}

impl FromStr for ClaimId {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let wrong =
            || Error::new(ErrorKind::Invalid, "not a claim id: 32 hex digits, a colon and a number expected");
        let (session, seq) = text.split_once(':').ok_or_else(wrong)?;
        Ok(Self { session: session.parse()?, seq: seq.parse().map_err(|_| wrong())? })
    }
}

/// What a claim is called in logs, listings and `break`: `h` and twelve hex digits that name it and give nothing away.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(u64);

impl Tag {
    fn of(session: SessionId, seq: u64) -> Self {
        // 48 bits of a mix of 192: enough to tell claims apart, too few to go back from.
        let mixed = session.0.to_be_bytes().chunks_exact(8).fold(seq, |sum, half| {
            let half = half.try_into().map_or(0, u64::from_be_bytes);
            mix(sum) ^ half
        });
        Self(mix(mixed) >> 16)
    }
}

/// The finalizer of splitmix64: every input bit reaches every output bit.
fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h{:012x}", self.0)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Tag {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        text.strip_prefix('h')
            .filter(|digits| digits.len() == 12)
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .map(Self)
            .ok_or_else(|| {
                let shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
                Error::new(
                    ErrorKind::Invalid,
                    format!("\"{shown}\" is not the id of a claim: h and 12 hex digits, as listed by show"),
                )
            })
    }
}

/// What to do when the claim cannot be held at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: be refused.
    No,
    /// Take no place, but be woken when it is worth trying again: what unordered stores do, and what a quorum asks
    /// of its members (lines on independent stores deadlock: each of three claims first on one of three).
    Watch,
    /// Take a place in line.
    Line,
}

/// A claim as it goes to the store. Plain data: core makes it, an engine carries it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Picked by core before anything is sent, so a repeat is recognised.
    pub id: ClaimId,
    /// The lock.
    pub name: Name,
    /// The capacity of the line; all claims of a line agree on it.
    pub capacity: u32,
    /// How much of it this claim takes: 1 to `capacity`.
    pub weight: u32,
    /// What to do if it cannot be held at once.
    pub wait: Wait,
    /// Set from the first answer on: a question. It never enters; an absent claim answers `Gone`.
    pub again: bool,
    /// On a repeat of a held claim: raise the store's mark to at least this fence and answer with it. On entering: a fence to
    /// mint, if it is the largest and not far ahead of the store's clock; a store need not look at it then.
    pub floor: Option<Fence>,
    /// How long the store keeps the claim without hearing of it, as `open` granted it.
    pub ttl: Duration,
    /// A fixed length for the hold. It starts when the holder confirms the grant (the answer to its own claim, or
    /// its first question after a pushed grant) and is never renewed.
    pub lease: Option<Duration>,
    /// Why the lock is wanted, or the value of a candidate. Repeating a held claim replaces it.
    pub note: Arc<str>,
}

impl Claim {
    /// The longest note, in bytes.
    pub const MAX_NOTE_BYTES: usize = 1024;

    /// The longest time that a place in line is kept without a word from its process.
    pub const MAX_KEPT: Duration = Duration::from_secs(5);

    /// Whether it takes the whole capacity. Only such a claim gets a fence.
    pub fn is_exclusive(&self) -> bool {
        self.weight == self.capacity
    }

    /// How long a claim that *waits* is kept, where claims have leases: its ttl, and not more than
    /// [`MAX_KEPT`](Claim::MAX_KEPT). A grant that was pushed to it is kept as long, from the grant on, until its process
    /// is heard of again: so one that died or was cut off in line holds the others up for seconds, whatever its ttl.
    pub fn kept(&self) -> Duration {
        self.ttl.min(Self::MAX_KEPT)
    }

    /// The same claim as a question.
    #[must_use]
    pub fn asking(&self) -> Self {
        Self { again: true, ..self.clone() }
    }

    /// The error for a holder that cannot be asked to let go: `why` names the store and the reason.
    pub fn unaskable(&self, why: &str) -> Error {
        let text =
            format!("{}: {why}; wait for it, or end the hold without asking (bramah break)", self.name);
        Error::new(ErrorKind::Unsupported, text)
    }

    /// The error for a line in use with another capacity.
    pub fn conflict(&self, in_use: u32) -> Error {
        let word = |capacity: u32| match capacity {
            crate::line::WHOLE => "a read-write lock".to_owned(),
            1 => "a mutex".to_owned(),
            n => format!("a semaphore of {n}"),
        };
        Error::new(
            ErrorKind::Conflict,
            format!(
                "{} is in use as {}, not as {}; use the same capacity everywhere or another name",
                self.name,
                word(in_use),
                word(self.capacity)
            ),
        )
        .for_use(self.name.clone(), in_use)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_back_and_never_shown_by_debug() {
        let id = ClaimId { session: SessionId::random().unwrap(), seq: 7 };
        assert_eq!(id.to_string().parse::<ClaimId>().unwrap(), id);
        assert_eq!(id.tag().to_string().parse::<Tag>().unwrap(), id.tag());
        let shown = format!("{id:?} {:?}", id.session);
        assert!(!shown.contains(&id.session.to_string()), "{shown}");
        assert!("zz:1".parse::<ClaimId>().is_err() && "h12".parse::<Tag>().is_err());
    }

    #[test]
    fn a_million_ids_have_a_million_tags() {
        let session = SessionId::from_bits(42);
        let tags: std::collections::HashSet<Tag> =
            (0..1_000_000).map(|seq| ClaimId { session, seq }.tag()).collect();
        assert_eq!(tags.len(), 1_000_000);
    }
}
