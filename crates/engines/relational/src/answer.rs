//! What a database answers.

use std::time::Duration;

use bramah_core::{Claim, Error, ErrorKind, Fence, Result, SessionId};

/// Where a claim stands, in the words of the functions in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is held.
    Held {
        /// With this fence, if it is exclusive.
        fence: Fence,
        /// What is left of a fixed lease.
        left: Option<Duration>,
    },
    /// It waits.
    Queued {
        /// Behind so many.
        ahead: u32,
        /// For so long at the most, before it asks.
        sleep: Duration,
    },
    /// It has no place, and is told when there is room.
    Watching {
        /// Or asks after so long.
        sleep: Duration,
    },
    /// It would have had to wait.
    Refused,
    /// It is not there.
    Gone,
    /// The line is in use with another capacity.
    Conflict(u32),
}

impl Answer {
    /// Reads a row: the state, the fence, what is left of a lease (ms), how many are ahead (or the capacity in use), and how
    /// long to sleep (ms).
    ///
    /// # Errors
    /// `Corrupt` for words that are not known: the functions are of another version.
    pub fn read(
        claim: &Claim,
        state: &str,
        fence: Option<i64>,
        left: Option<i64>,
        ahead: Option<i64>,
        sleep: Option<i64>,
    ) -> Result<Self> {
        let fence = || fence.and_then(|fence| u64::try_from(fence).ok()).map(Fence::new);
        let count = || ahead.and_then(|ahead| u32::try_from(ahead).ok());
        let sleep = || sleep.map(millis);
        let known = match state {
            "h" => fence().map(|fence| Self::Held { fence, left: left.map(millis) }),
            "q" => count().zip(sleep()).map(|(ahead, sleep)| Self::Queued { ahead, sleep }),
            "w" => sleep().map(|sleep| Self::Watching { sleep }),
            "r" => Some(Self::Refused),
            "g" => Some(Self::Gone),
            "c" => count().map(Self::Conflict),
            _ => None,
        };
        known.ok_or_else(|| {
            let text = format!(
                "{}: the database's answer is not understood; are its functions of another version? run bramah init",
                claim.name
            );
            Error::new(ErrorKind::Corrupt, text)
        })
    }
}

/// Milliseconds of the database.
pub(crate) fn millis(number: i64) -> Duration {
    Duration::from_millis(u64::try_from(number).unwrap_or(0))
}

/// A claim of the session, after a renewal.
#[derive(Clone, Debug)]
pub struct Renewed {
    /// Its number.
    pub seq: u64,
    /// Whether it is held.
    pub held: bool,
    /// What it is, if it was not asked for.
    pub stray: Option<Found>,
}

/// What a row says of a claim.
#[derive(Clone, Debug)]
pub struct Found {
    /// The lock.
    pub name: String,
    /// Of the line.
    pub capacity: i64,
    /// How much it takes.
    pub weight: i64,
    /// In milliseconds.
    pub ttl: i64,
    /// In milliseconds.
    pub lease: Option<i64>,
    /// Why it is wanted.
    pub note: String,
}

/// A row of a line, as a survey sees it. Times are in milliseconds.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Whose.
    pub session: SessionId,
    /// Which.
    pub seq: u64,
    /// What.
    pub found: Found,
    /// Whether it is held.
    pub held: bool,
    /// Its fence, if it is.
    pub fence: i64,
    /// How long ago it entered, if that is known.
    pub age: Option<i64>,
    /// How long ago it was granted, if that is known.
    pub since: Option<i64>,
    /// How long it will live, if that is known.
    pub left: Option<i64>,
    /// How long ago its time was last extended, if that is known.
    pub renewed: Option<i64>,
    /// Who is behind it.
    pub about: Option<String>,
}

/// The record of a hold that was ended by force.
#[derive(Clone, Debug)]
pub struct Break {
    /// The lock.
    pub name: String,
    /// Whose.
    pub session: SessionId,
    /// Which.
    pub seq: u64,
    /// By whom.
    pub by: String,
    /// Why.
    pub reason: String,
    /// How long ago, in milliseconds.
    pub ago: i64,
}
