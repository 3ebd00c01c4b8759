//! What an answer means for whether to send again. Only answers that prove that nothing was done are a reason to.

use bramah_core::{Error, ErrorKind, Result};
use redis::Value;

use crate::error;

/// What to do after an answer.
#[derive(Debug)]
pub(super) enum Verdict {
    /// This is the answer.
    Done(Result<Value>),
    /// The server does not know the script.
    Unknown(Error),
    /// The slot is served by another node from now on: its address.
    Moved(String, Error),
    /// The slot is on its way to another node; this request has to be asked there.
    Ask(String, Error),
    /// Not now.
    Later(Error),
    /// Not now, and this node may be the wrong one.
    Doubt(Error),
    /// Not there: the server is a replica.
    Replica(Error),
}

impl Verdict {
    pub(super) fn of(value: Value, address: &str) -> Self {
        let Value::ServerError(server) = value else { return Self::Done(Ok(value)) };
        let error = error::from_server(&server, address);
        let target =
            || server.details().and_then(|said| said.split_ascii_whitespace().nth(1)).map(str::to_owned);
        match server.code() {
            "NOSCRIPT" => Self::Unknown(Error::new(
                ErrorKind::Unavailable,
                format!("redis at {address} forgets scripts as soon as they are loaded; try again"),
            )),
            "MOVED" => target().map_or(Self::Doubt(error.clone()), |to| Self::Moved(to, error)),
            "ASK" => target().map_or(Self::Doubt(error.clone()), |to| Self::Ask(to, error)),
            "TRYAGAIN" | "LOADING" | "BUSY" => Self::Later(error),
            "CLUSTERDOWN" | "MASTERDOWN" => Self::Doubt(error),
            "READONLY" => Self::Replica(error),
            _ => Self::Done(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Verdict {
        Verdict::of(redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap(), "h:1")
    }

    #[test]
    fn only_what_proves_that_nothing_was_done_is_sent_again() {
        assert!(matches!(of("MOVED 3999 10.0.0.1:6381"), Verdict::Moved(to, _) if to == "10.0.0.1:6381"));
        assert!(matches!(of("ASK 3999 :6381"), Verdict::Ask(to, _) if to == ":6381"));
        assert!(matches!(of("MOVED"), Verdict::Doubt(_)));
        assert!(matches!(of("TRYAGAIN Multiple keys"), Verdict::Later(_)));
        assert!(matches!(of("LOADING"), Verdict::Later(_)));
        assert!(matches!(of("CLUSTERDOWN Hash slot not served"), Verdict::Doubt(_)));
        assert!(matches!(of("READONLY You can't"), Verdict::Replica(_)));
        assert!(matches!(of("NOSCRIPT No matching script"), Verdict::Unknown(_)));
        for line in
            ["ERR anything", "OOM x", "NOPERM x", "WRONGTYPE x", "EXECABORT x", "FOREIGN x", "MISCONF x"]
        {
            assert!(matches!(of(line), Verdict::Done(Err(_))), "{line}");
        }
    }
}
