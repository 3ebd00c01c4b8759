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
    /// `head`: whose turn it is, where the lock is free and this one has to wait all the same.
    Queued {
        ahead: u32,
        sleep: Duration,
        head: Option<ClaimId>,
    },
    Watching {
        sleep: Duration,
    },
    Refused,
    Gone,
    Conflict(u32),
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
                    (b"q", [Value::Int(ahead), Value::Int(sleep), head @ ..]) => {
                        let head = match head {
                            [Value::BulkString(owner)] => Some(redisson::read_owner(owner)),
                            _ => None,
                        };
                        let sleep = millis(*sleep).unwrap_or_default();
                        u32::try_from(*ahead).ok().map(|ahead| Self::Queued { ahead, sleep, head })
                    }
                    (b"w", [Value::Int(sleep)]) => {
                        Some(Self::Watching { sleep: millis(*sleep).unwrap_or(Duration::MAX) })
                    }
                    (b"c", [Value::Int(capacity)]) => u32::try_from(*capacity).ok().map(Self::Conflict),
                    (b"r", []) => Some(Self::Refused),
                    (b"g", []) => Some(Self::Gone),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        };
        known.ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, format!("{}: the server's answer is not understood", claim.name))
        })
    }
}
