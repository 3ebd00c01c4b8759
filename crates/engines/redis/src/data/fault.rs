//! Errors that name what they are about.

use std::{error::Error as _, fmt};

use bramah_core::{Error, ErrorKind};
use redis::{ServerError, Value as Reply};

use crate::error::clean;

/// What a key is used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noun {
    Key,
    Value,
    Map,
    Set,
    List,
    Script,
}

/// What a call is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) noun: Noun,
    pub(super) key: &'a str,
    /// The field of a map.
    pub(super) part: Option<&'a str>,
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(part) = self.part {
            write!(f, "the field \"{}\" of ", clean(part))?;
        }
        let noun = match self.noun {
            Noun::Key => "the key",
            Noun::Value => "the value at",
            Noun::Map => "the map at",
            Noun::Set => "the set at",
            Noun::List => "the list at",
            Noun::Script => "the script",
        };
        write!(f, "{noun} \"{}\"", clean(self.key))
    }
}

/// Whether a server complains that a key holds something else than a command is for.
pub(super) fn is_of_another_kind(error: &Error) -> bool {
    said(error).is_some_and(|said| said.code() == "WRONGTYPE")
}

/// The server's own words, where it was the server that said no.
pub(super) fn said(error: &Error) -> Option<&ServerError> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(said) = error.downcast_ref() {
            return Some(said);
        }
        source = error.source();
    }
    None
}

impl Target<'_> {
    pub(super) fn invalid(self, why: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Invalid, format!("{self}: {why}"))
    }

    pub(super) fn corrupt(self, why: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Corrupt, format!("{self}: {why}"))
    }

    /// What a server or the way to it said, in words about this.
    pub(super) fn explain(self, error: Error) -> Error {
        let words = said(&error).and_then(ServerError::details).unwrap_or_default();
        let (kind, why) = if words.contains("not an integer") {
            (
                ErrorKind::Corrupt,
                "what is stored is not a whole number of 64 bits; set one first, or use another key",
            )
        } else if words.contains("not a float") || words.contains("not a valid float") {
            (ErrorKind::Corrupt, "what is stored is not a number; set one first, or use another key")
        } else if words.contains("would overflow") {
            (
                ErrorKind::Invalid,
                "the step leads out of the range of 64 bits, so nothing was changed; take a smaller one",
            )
        } else if words.contains("NaN or Infinity") {
            (
                ErrorKind::Invalid,
                "the step leads to a number that is not finite, so nothing was changed; take a smaller one",
            )
        } else {
            return Error::caused(error.kind(), format!("{self}: {error}"), error);
        };
        Error::caused(kind, format!("{self}: {why}"), error)
    }

    /// The key holds what this call is not for; `found` is the answer to TYPE, if there was one.
    pub(super) fn of_another_kind(self, error: Error, found: Option<&Reply>) -> Error {
        let wanted = match self.noun {
            Noun::Key | Noun::Script => "what was asked for",
            Noun::Value => "a value",
            Noun::Map => "a map",
            Noun::Set => "a set",
            Noun::List => "a list",
        };
        let found = match found {
            Some(Reply::SimpleString(kind)) => match kind.as_str() {
                "string" => "a value".to_owned(),
                "hash" => "a map".to_owned(),
                "set" => "a set".to_owned(),
                "list" => "a list".to_owned(),
                "zset" => "a sorted set".to_owned(),
                "stream" => "a stream".to_owned(),
                "none" => "something else".to_owned(),
                other => format!("something of the type {}", clean(other)),
            },
            _ => "something else".to_owned(),
        };
        Error::caused(
            ErrorKind::Corrupt,
            format!(
                "the key \"{}\" holds {found} and not {wanted}; use another key, or delete it",
                clean(self.key)
            ),
            error,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELD: Target<'_> = Target { noun: Noun::Map, key: "cart\n", part: Some("apple") };

    fn server(line: &str) -> Error {
        match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()) {
            Ok(Reply::ServerError(error)) => crate::error::from_server(&error, "h:1"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_the_server_said_names_the_key_and_has_a_kind() {
        for (line, kind, part) in [
            ("ERR hash value is not an integer", ErrorKind::Corrupt, "not a whole number"),
            ("ERR hash value is not a float", ErrorKind::Corrupt, "not a number"),
            ("ERR increment or decrement would overflow", ErrorKind::Invalid, "out of the range"),
            ("ERR increment would produce NaN or Infinity", ErrorKind::Invalid, "not finite"),
            ("OOM command not allowed", ErrorKind::Unavailable, "out of memory"),
            ("NOPERM no 'hset'", ErrorKind::Denied, "does not permit it"),
        ] {
            let error = FIELD.explain(server(line));
            assert_eq!(error.kind(), kind, "{error}");
            let text = error.to_string();
            assert!(text.starts_with(r#"the field "apple" of the map at "cart\n": "#), "{text}");
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn another_kind_is_told_apart_where_it_is_known() {
        let error = server("WRONGTYPE Operation against a key");
        assert!(is_of_another_kind(&error));
        let told = |found: Option<&str>| {
            let found = found.map(|found| Reply::SimpleString(found.to_owned()));
            FIELD.of_another_kind(error.clone(), found.as_ref()).to_string()
        };
        assert!(told(Some("zset")).contains("holds a sorted set and not a map"), "{}", told(Some("zset")));
        assert!(told(Some("json\u{1b}")).contains("of the type json\\u{1b}"));
        assert!(told(Some("none")).contains("holds something else"));
        assert!(told(None).contains("holds something else"));
    }
}
