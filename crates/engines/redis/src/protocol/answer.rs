//! What a script answers.

use std::time::Duration;

use bramah_core::{Claim, ClaimId, Error, ErrorKind, Fence, Result};
use redis::Value;

use crate::layout::redisson;

/// What a script answered about one claim.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Held {
        fence: Option<Fence>,
        left: Option<Duration>,
    },
    Queued {
        ahead: u32,
        sleep: Duration,
        next: Next,
    },
    Watching {
        sleep: Duration,
    },
    Refused,
    Gone,
    Conflict(u32),
    /// Nothing is known before a fence is minted, and the call did not name the mark.
    Unmarked,
}

/// What is known of the turn of one who waits.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// Nothing but that it is not now.
    Unknown,
    /// It will be told by name.
    Told,
    /// The lock is free, and it is another one's.
    Of(ClaimId),
}

impl Answer {
    pub(super) fn read(value: &Value, claim: &Claim) -> Result<Self> {
        let fence = |number: i64| u64::try_from(number).ok().map(Fence::new);
        let millis = |number: i64| u64::try_from(number).ok().map(Duration::from_millis);
        let known = match value {
            Value::Int(number) => {
                fence(*number).map(|number| Self::Held { fence: Some(number), left: claim.lease })
            }
            Value::Array(parts) => match parts.as_slice() {
                [Value::BulkString(word), rest @ ..] => match (word.as_slice(), rest) {
                    (b"h", [Value::Int(number), Value::Int(left)]) => {
                        fence(*number).map(|number| Self::Held { fence: Some(number), left: millis(*left) })
                    }
                    (b"q", [Value::Int(ahead), Value::Int(sleep), rest @ ..]) => {
                        let next = match rest {
                            [Value::Int(0), Value::BulkString(owner)] => {
                                Next::Of(redisson::read_owner(owner))
                            }
                            [Value::Int(1)] => Next::Told,
                            _ => Next::Unknown,
                        };
                        let sleep = millis(*sleep).unwrap_or_default();
                        u32::try_from(*ahead).ok().map(|ahead| Self::Queued { ahead, sleep, next })
                    }
                    (b"w", [Value::Int(sleep)]) => {
                        Some(Self::Watching { sleep: millis(*sleep).unwrap_or(Duration::MAX) })
                    }
                    (b"c", [Value::Int(capacity)]) => u32::try_from(*capacity).ok().map(Self::Conflict),
                    (b"r", []) => Some(Self::Refused),
                    (b"g", []) => Some(Self::Gone),
                    (b"m", []) => Some(Self::Unmarked),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        };
        known.ok_or_else(|| Self::not_understood(claim))
    }

    pub(super) fn not_understood(claim: &Claim) -> Error {
        Error::new(ErrorKind::Corrupt, format!("{}: the server's answer is not understood", claim.name))
    }
}
