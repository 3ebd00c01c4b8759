//! What a server or the way to it said, as an error for a person.

use bramah_core::{Error, ErrorKind};
use redis::{RedisError, ServerError};

/// How much of a server's own words is passed on.
const LONGEST: usize = 240;

/// Text from outside, safe to print: one line, no control characters, not endless.
pub(crate) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(LONGEST));
    for c in text.chars() {
        if out.len() >= LONGEST {
            out.push('…');
            break;
        }
        // Not only control characters: what reverses or hides text would lie to the reader as well.
        if c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
        {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Without the place in a script that Redis appends: it is ours, and of no use to whoever reads this.
fn bare(said: &str) -> &str {
    said.rsplit_once(" script: ")
        .filter(|(_, place)| place.contains("user_script"))
        .map_or(said, |(said, _)| said)
}

/// What a server's error means to a lock.
pub(crate) fn from_server(error: &ServerError, address: &str) -> Error {
    let code = error.code();
    let said = bare(&clean(error.details().unwrap_or_default())).to_owned();
    let (kind, text) = match code {
        "NOAUTH" => (
            ErrorKind::Denied,
            // Its own words are about HELLO, which nobody typed.
            format!("redis at {address} wants a password; give one in the url or as password_file"),
        ),
        "WRONGPASS" => {
            let text = format!(
                "redis at {address} does not accept the user or password ({said}); check both, in the url or the password_file"
            );
            (ErrorKind::Denied, text)
        }
        "NOPERM" => (
            ErrorKind::Denied,
            format!("redis at {address} does not permit it: {said}; extend the user's acl"),
        ),
        "DENIED" => (
            ErrorKind::Denied,
            format!(
                "redis at {address} is in protected mode: its default user has no password, so it serves its own host only; \
                 set a password there (requirepass) and give it here, or connect from that host"
            ),
        ),
        "OOM" => (
            ErrorKind::Unavailable,
            format!("redis at {address} is out of memory: {said}; raise maxmemory or free some"),
        ),
        "MISCONF" => (
            ErrorKind::Unavailable,
            format!(
                "redis at {address} refuses writes because it cannot save: {said}; look at its disk and log"
            ),
        ),
        "NOREPLICAS" => (
            ErrorKind::Unavailable,
            format!(
                "redis at {address} refuses writes because too few replicas follow: {said}; look at min-replicas-to-write and the replicas"
            ),
        ),
        "LOADING" => {
            (ErrorKind::Unavailable, format!("redis at {address} is still loading its data; try again later"))
        }
        "BUSY" => (
            ErrorKind::Unavailable,
            format!("redis at {address} is busy with a script: {said}; end it with SCRIPT KILL"),
        ),
        "MASTERDOWN" => (
            ErrorKind::Unavailable,
            format!("redis at {address} is a replica that has lost its master; try again after the failover"),
        ),
        "READONLY" => (
            ErrorKind::Unavailable,
            format!(
                "redis at {address} is a replica and takes no writes; point the url at the master, or at its sentinels"
            ),
        ),
        "CLUSTERDOWN" => (
            ErrorKind::Unavailable,
            format!("the redis cluster at {address} is down: {said}; look at its nodes"),
        ),
        // A key that was not named beforehand, in the middle of a move.
        "ERR" if said.contains("non local key") => (
            ErrorKind::Unavailable,
            format!(
                "redis at {address} is moving the keys of this lock to another node; try again when that is over"
            ),
        ),
        "TRYAGAIN" => (
            ErrorKind::Unavailable,
            format!("redis at {address} is moving the keys to another node: {said}; try again"),
        ),
        "ASK" | "MOVED" => (
            ErrorKind::Unavailable,
            format!(
                "redis at {address} sends us on in circles ({code} {said}); try again when the cluster has settled"
            ),
        ),
        "CROSSSLOT" => (
            ErrorKind::Corrupt,
            format!(
                "redis at {address} found keys of several slots in one request: {said}; this is a bug in bramah"
            ),
        ),
        "WRONGTYPE" => (
            ErrorKind::Corrupt,
            format!(
                "redis at {address} holds something under this key that is not a lock: {said}; use another prefix, or remove that key"
            ),
        ),
        "NOPROTO" => (
            ErrorKind::Unsupported,
            format!("redis at {address} does not speak resp3: {said}; redis 7.0 or later is needed"),
        ),
        "FOREIGN" => (
            ErrorKind::Corrupt,
            format!(
                "redis at {address} holds something under this lock's key that is not a lock of this layout: {said}; \
                 remove it or use another prefix"
            ),
        ),
        // What a script may not call is told in other words than what a client may not.
        "ERR"
            if said.contains("can't run this command")
                || said.contains("can't access at least one of the keys") =>
        {
            (
                ErrorKind::Denied,
                format!(
                    "redis at {address} does not permit a part of it: {said}; bramah doctor names what is missing"
                ),
            )
        }
        "ERR"
            if said.starts_with("unknown command")
                || said.starts_with("unknown subcommand")
                || said.starts_with("Unknown subcommand") =>
        {
            (
                ErrorKind::Unsupported,
                format!(
                    "redis at {address} does not know a command: {said}; is it a sentinel (use redis+sentinel://), or \
                     older than redis 7.0?"
                ),
            )
        }
        "ERR" if said.starts_with("max number of clients") => (
            ErrorKind::Unavailable,
            format!("redis at {address} has no connection left: {said}; raise maxclients"),
        ),
        "ERR" => (ErrorKind::Corrupt, format!("redis at {address} answered: {said}")),
        other => (ErrorKind::Corrupt, format!("redis at {address} answered: {} {said}", clean(other))),
    };
    Error::caused(kind, text, error.clone())
}

/// A connection that ended under a request: nobody knows whether it was carried out.
pub(crate) fn from_break(error: &RedisError, address: &str) -> Error {
    let why = clean(&error.to_string());
    Error::caused(
        ErrorKind::Unavailable,
        format!("the connection to redis at {address} ended before the answer came: {why}; try again"),
        error.clone(),
    )
}

/// Whether it is the error of a new connection that ended without an answer. With TLS the server may have objected to our side of
/// it; that it says itself.
pub(crate) fn is_cut_off(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<RedisError>());
    error.kind() == ErrorKind::Unavailable
        && cause.is_some_and(|cause| cause.is_io_error() && !cause.to_string().contains("fatal alert"))
}

/// An error of the first words on a new connection.
pub(crate) fn from_greeting(error: &RedisError, address: &str) -> Error {
    if let Some(server) = std::error::Error::source(error).and_then(|e| e.downcast_ref::<ServerError>()) {
        let error = from_server(server, address);
        if server.code() == "ERR" && error.kind() == ErrorKind::Corrupt {
            // No lock was asked for yet: it is about how we introduced ourselves.
            let said = clean(server.details().unwrap_or_default());
            let text = format!("redis at {address} refused the login or its settings: {said}");
            return Error::caused(ErrorKind::Invalid, text, server.clone());
        }
        return error;
    }
    let why = clean(&error.to_string());
    let (kind, text) = match error.kind() {
        redis::ErrorKind::AuthenticationFailed => {
            (ErrorKind::Denied, format!("redis at {address} does not accept the user or password"))
        }
        redis::ErrorKind::RESP3NotSupported => (
            ErrorKind::Unsupported,
            format!("redis at {address} does not speak resp3; redis 7.0 or later is needed"),
        ),
        redis::ErrorKind::Parse => (
            ErrorKind::Unavailable,
            format!(
                "what answers at {address} does not speak like a redis; is it the right port, and does it want tls?"
            ),
        ),
        _ if why.contains("switch database") => (
            ErrorKind::Invalid,
            format!(
                "redis at {address} does not let us use the database of the url ({why}); leave it out, raise databases \
                 there, or permit +select"
            ),
        ),
        redis::ErrorKind::Server(_) | redis::ErrorKind::InvalidClientConfig => {
            (ErrorKind::Invalid, format!("redis at {address} refused the connection's settings: {why}"))
        }
        // With TLS 1.3 the server looks at our certificate when we believe to be connected already.
        _ if why.contains("fatal alert") => (
            ErrorKind::Unavailable,
            format!(
                "redis at {address} does not accept our side of tls ({why}); it may want cert=<file> and key=<file>"
            ),
        ),
        _ => (
            ErrorKind::Unavailable,
            format!(
                "redis at {address} ended the connection at once ({why}); does it want tls, or has it no room?"
            ),
        ),
    };
    Error::caused(kind, text, error.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(line: &str) -> ServerError {
        match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()) {
            Ok(redis::Value::ServerError(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_code_has_its_kind() {
        for (line, kind) in [
            ("NOAUTH Authentication required.", ErrorKind::Denied),
            ("WRONGPASS invalid username-password pair", ErrorKind::Denied),
            ("DENIED Redis is running in protected mode", ErrorKind::Denied),
            ("NOPERM User x has no permissions to run the 'evalsha' command", ErrorKind::Denied),
            ("OOM command not allowed", ErrorKind::Unavailable),
            ("MISCONF Redis is configured to save", ErrorKind::Unavailable),
            ("NOREPLICAS Not enough good replicas", ErrorKind::Unavailable),
            ("LOADING Redis is loading", ErrorKind::Unavailable),
            ("BUSY Redis is busy", ErrorKind::Unavailable),
            ("READONLY You can't write", ErrorKind::Unavailable),
            ("CLUSTERDOWN Hash slot not served", ErrorKind::Unavailable),
            ("WRONGTYPE Operation against a key", ErrorKind::Corrupt),
            ("ERR unknown command 'EVALSHA'", ErrorKind::Unsupported),
            ("ERR user_script:1: boom", ErrorKind::Corrupt),
            ("DAMAGED the line of this name cannot be read", ErrorKind::Corrupt),
        ] {
            let error = from_server(&server(line), "h:1");
            assert_eq!(error.kind(), kind, "{line}");
            assert!(error.to_string().contains("h:1"), "{error}");
        }
    }

    #[test]
    fn a_servers_words_are_cut_and_cannot_move_the_cursor() {
        let hostile = format!("ERR \u{1b}[2J\u{202e}{}", "x".repeat(5000));
        let error = from_server(&server(&hostile), "h:1").to_string();
        assert!(error.len() < 400, "{}", error.len());
        assert!(!error.contains('\u{1b}') && !error.contains('\u{202e}'));
        assert!(error.contains("\\u{1b}"));
    }
}
