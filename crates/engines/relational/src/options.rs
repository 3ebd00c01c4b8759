//! What a URL says beside where the database is.

use std::time::Duration;

use bramah_core::{Error, ErrorKind, Result};

/// Where the locks are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// In a table.
    #[default]
    Table,
    /// In the server's memory, as long as a connection lives.
    Session,
}

/// How a database is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Where the locks are.
    pub mode: Mode,
    /// The most connections for calls. Others renew, and one listens.
    pub pool: usize,
    /// How long a connection may rest before it ends.
    pub pool_idle: Duration,
    /// How long to wait for a connection to be made.
    pub connect_timeout: Duration,
    /// How long to wait for an answer.
    pub timeout: Duration,
    /// The most connections that have locks, in session mode.
    pub connections: usize,
    /// The most locks that a session has, in session mode.
    pub holds: usize,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            mode: Mode::Table,
            pool: 8,
            pool_idle: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(2),
            timeout: Duration::from_secs(2),
            connections: 16,
            holds: 1000,
        }
    }
}

/// The most connections.
const MOST: usize = 256;

/// The most locks of a session.
const MOST_HOLDS: usize = 1_000_000;

impl Terms {
    /// The names that [`set`](Terms::set) knows, for errors.
    pub const NAMES: &str = "mode, pool, pool_idle, connections, holds, connect_timeout, timeout";

    /// Takes one option. Whether it was one of ours.
    ///
    /// # Errors
    /// `Invalid` for a value that it cannot have.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        match name {
            "mode" => {
                self.mode = match value {
                    "table" => Mode::Table,
                    "session" => Mode::Session,
                    _ => return Err(wrong(name, value, "table or session")),
                }
            }
            "pool" => self.pool = count(name, value, MOST)?,
            "connections" => self.connections = count(name, value, MOST)?,
            "holds" => self.holds = count(name, value, MOST_HOLDS)?,
            "pool_idle" => self.pool_idle = span(name, value)?,
            "connect_timeout" => self.connect_timeout = span(name, value)?,
            "timeout" => self.timeout = span(name, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads the options of a URL for `kind`, such as `postgres`: those of ours, those that `own` takes, whose names are in
    /// `owned`, and those of the driver, which are given back.
    ///
    /// # Errors
    /// `Invalid` for one that nobody knows, and a value that it cannot have.
    pub fn read<'q>(
        kind: &str,
        query: &'q str,
        owned: &str,
        drivers: &[&str],
        mut own: impl FnMut(&str, &str) -> Result<bool>,
    ) -> Result<(Self, Vec<&'q str>)> {
        let mut terms = Self::default();
        let mut theirs = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if terms.set(name, value)? || own(name, value)? {
                continue;
            }
            if !drivers.contains(&name) {
                let shown: String = name.chars().take(40).flat_map(char::escape_debug).collect();
                let text = format!(
                    "{kind} url: there is no option \"{shown}\"; there are {}, {owned}, {}",
                    Self::NAMES,
                    drivers.join(", ")
                );
                return Err(Error::new(ErrorKind::Invalid, text));
            }
            theirs.push(pair);
        }
        Ok((terms, theirs))
    }
}

/// Milliseconds for the database, rounded up: nothing is kept for less than was promised.
pub fn whole_millis(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000))
        .map_or(u64::MAX >> 16, |millis| millis.min(u64::MAX >> 16))
}

fn span(name: &str, value: &str) -> Result<Duration> {
    let expected = "a time such as 500ms or 2s, from 1ms to 1h";
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let unit = match unit {
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        "m" => Duration::from_secs(60),
        _ => return Err(wrong(name, value, expected)),
    };
    let known = number.parse().ok().and_then(|number: u32| unit.checked_mul(number));
    known
        .filter(|span| !span.is_zero() && *span <= Duration::from_secs(3600))
        .ok_or_else(|| wrong(name, value, expected))
}

fn count(name: &str, value: &str, most: usize) -> Result<usize> {
    let count = value.parse().ok().filter(|count| (1..=most).contains(count));
    count.ok_or_else(|| wrong(name, value, &format!("1 to {most}")))
}

fn wrong(name: &str, value: &str, expected: &str) -> Error {
    let shown: String = value.chars().take(40).flat_map(char::escape_debug).collect();
    Error::new(ErrorKind::Invalid, format!("{name}={shown}: expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_refused_by_name() {
        let mut terms = Terms::default();
        for (name, value) in [("mode", "session"), ("pool", "3"), ("pool_idle", "5m"), ("timeout", "250ms")] {
            assert!(terms.set(name, value).unwrap(), "{name}");
        }
        assert_eq!((terms.mode, terms.pool), (Mode::Session, 3));
        assert_eq!((terms.pool_idle, terms.timeout), (Duration::from_secs(300), Duration::from_millis(250)));
        assert!(!terms.set("sslmode", "require").unwrap());
        for (name, value) in
            [("mode", "x"), ("pool", "0"), ("pool", "999"), ("timeout", "5"), ("timeout", "0s")]
        {
            let error = terms.set(name, value).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name}={value}: expected ")), "{error}");
        }
    }
}
