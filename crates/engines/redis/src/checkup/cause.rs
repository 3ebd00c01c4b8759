//! Why a server could not be examined.

use std::{error::Error as StdError, fmt};

use bramah_core::Error;
use redis::ServerError;

/// What an error says of a server, beyond its [kind](bramah_core::ErrorKind).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// It is a replica and takes no writes.
    Replica,
    /// It is a sentinel and has no data.
    Sentinel,
    /// It wants a password, or another one.
    Password,
    /// It has no password, and so refuses clients of other machines.
    ProtectedMode,
    /// The user lacks a right.
    Rights,
}

/// What an error says of the server that it came from; `None` if that is no more than its kind.
pub fn cause(error: &Error) -> Option<Cause> {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(Marker(cause)) = error.downcast_ref() {
            return Some(*cause);
        }
        if let Some(said) = error.downcast_ref::<ServerError>() {
            return by_code(said.code());
        }
        next = error.source();
    }
    None
}

fn by_code(code: &str) -> Option<Cause> {
    match code {
        "NOAUTH" | "WRONGPASS" => Some(Cause::Password),
        "DENIED" => Some(Cause::ProtectedMode),
        "NOPERM" => Some(Cause::Rights),
        "READONLY" => Some(Cause::Replica),
        _ => None,
    }
}

/// The source of an error that was found out by us, and not said by a server.
#[derive(Debug)]
pub(crate) struct Marker(pub(crate) Cause);

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl StdError for Marker {}

#[cfg(test)]
mod tests {
    use bramah_core::ErrorKind;

    use super::*;

    #[test]
    fn a_cause_is_found_behind_other_errors() {
        let marked = Error::caused(ErrorKind::Unavailable, "a replica", Marker(Cause::Replica));
        let behind = Error::caused(ErrorKind::Unavailable, "a replica (tried for 2s)", marked);
        assert_eq!(cause(&behind), Some(Cause::Replica));
        assert_eq!(cause(&Error::new(ErrorKind::Unavailable, "gone")), None);
        for (line, expected) in [
            ("NOAUTH Authentication required.", Some(Cause::Password)),
            ("WRONGPASS invalid username-password pair", Some(Cause::Password)),
            ("DENIED Redis is running in protected mode", Some(Cause::ProtectedMode)),
            ("NOPERM this user has no permissions", Some(Cause::Rights)),
            ("LOADING Redis is loading", None),
        ] {
            let Ok(redis::Value::ServerError(said)) =
                redis::parse_redis_value(format!("-{line}\r\n").as_bytes())
            else {
                panic!("{line}")
            };
            assert_eq!(cause(&crate::error::from_server(&said, "h:1")), expected, "{line}");
        }
    }
}
