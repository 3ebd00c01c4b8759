//! Where the server is, and how to use it.

use std::{fmt, str::FromStr};

use bramah_core::{Error, ErrorKind, Result};
use bramah_relational::Terms;
use sqlx::{ConnectOptions, postgres::PgConnectOptions};

use crate::keys::Keys;

/// What the driver understands.
const DRIVERS: [&str; 11] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "application_name",
    "options",
];

/// Where a PostgreSQL is and how to use it.
#[derive(Clone)]
pub struct Config {
    pub(crate) options: PgConnectOptions,
    pub(crate) terms: Terms,
    /// Whether waiters are told by NOTIFY.
    pub(crate) listen: bool,
    /// How names become numbers in session mode.
    pub(crate) keys: Keys,
}

impl Config {
    /// Reads `postgres://[user[:password]@]host[:port][/database][?options]`; `postgresql://` is the same.
    ///
    /// What a URL does not say is taken from where libpq's programs take it: `PGHOST`, `PGPORT`, `PGUSER`, `PGDATABASE`, `PGPASSWORD`,
    /// `PGSSLMODE` and so on, and the password from `PGPASSFILE` or `~/.pgpass`.
    ///
    /// The options, joined by `&`:
    ///
    /// | option | values |
    /// |---|---|
    /// | `mode` | `table` (if not said): locks are rows; `session`: advisory locks, which end with the connection |
    /// | `pool` | 1 to 256 connections for calls, 8 if not said; up to four more renew, and one listens |
    /// | `listen` | `on` (if not said), or `off` behind a pooler that hands connections out by transaction: waiters ask then |
    /// | `connections` | 1 to 256 connections that have locks in session mode, 16 if not said |
    /// | `holds` | how many locks a session may have in session mode, 1000 if not said |
    /// | `keys` | how names become numbers in session mode: `sha256` (if not said), `integer`, `with_advisory_lock`, `distributedlock` |
    /// | `pool_idle` | `60s` (if not said): how long a connection may be idle before it is closed |
    /// | `connect_timeout`, `timeout` | `500ms`, `2s` (if not said) |
    /// | `sslmode` | `disable`, `allow`, `prefer` (if not said), `require`, `verify-ca`, `verify-full` |
    /// | `sslrootcert`, `sslcert`, `sslkey` | PEM files |
    /// | `application_name` | as in `pg_stat_activity`; `bramah` if not said |
    /// | `host`, `hostaddr`, `port`, `dbname`, `user`, `options` | as libpq has them; a host that starts with `/` is a socket's folder |
    ///
    /// # Errors
    /// `Invalid`, with what is wrong and what is allowed, never with a password.
    pub fn from_url(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
        let rest = rest.ok_or_else(|| wrong("a postgres url starts with postgres://"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut listen, mut keys) = (true, Keys::default());
        let own = |name: &str, value: &str| {
            match (name, value) {
                ("listen", "on") => listen = true,
                ("listen", "off") => listen = false,
                ("listen", _) => return Err(wrong("listen= is on or off")),
                ("keys", word) => {
                    let known = Keys::from_word(word);
                    keys = known.ok_or_else(|| wrong(format!("keys= is {}", Keys::NAMES)))?;
                }
                ("password", _) => {
                    return Err(wrong(
                        "a password among the options would be printed; put it before the host, or in ~/.pgpass",
                    ));
                }
                _ => return Ok(false),
            }
            Ok(true)
        };
        let (terms, theirs) = Terms::read("postgres", query, "listen, keys", &DRIVERS, own)?;
        let cleaned = format!("postgres://{place}?{}", theirs.join("&"));
        // The driver's words may quote the url, and a password with it.
        let options = PgConnectOptions::from_str(&cleaned)
            .map_err(|_| wrong("it is not postgres://user:password@host:port/database; percent-encode / ? # and @ in a password"))?;
        let options = match options.get_application_name() {
            Some(_) => options,
            None => options.application_name("bramah"),
        };
        // Statements have ids of claims in them, which are handles: whoever reads one in a log can release the lock.
        let options = options.disable_statement_logging();
        // The driver's default, which a PgBouncer with its default settings refuses. No number of ours is a float.
        let options = options.extra_float_digits(None);
        Ok(Self { options, terms, listen, keys })
    }

    /// `host:port`, for errors.
    pub(crate) fn address(&self) -> String {
        match self.options.get_socket() {
            Some(folder) => folder.display().to_string(),
            None => format!("{}:{}", self.options.get_host(), self.options.get_port()),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The driver's options have the password in them.
        f.debug_struct("Config")
            .field("address", &self.address())
            .field("database", &self.options.get_database())
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}

fn wrong(what: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Invalid, format!("postgres url: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_its_password_is_never_shown() {
        let config =
            Config::from_url("postgres://ana:s%2Fecret@db:5433/locks?pool=3&sslmode=disable").unwrap();
        assert_eq!(config.address(), "db:5433");
        assert_eq!(config.options.get_database(), Some("locks"));
        assert_eq!(config.options.get_username(), "ana");
        assert_eq!(config.terms.pool, 3);
        let shown = format!("{config:?}");
        assert!(!shown.contains("ecret"), "{shown}");
    }

    #[test]
    fn mistakes_are_told_without_the_password() {
        for (url, said) in [
            ("mysql://h", "a postgres url starts with postgres://"),
            ("postgres://u:secret@h?color=red", "there is no option \"color\""),
            ("postgres://u:secret@h?password=secret", "a password among the options would be printed"),
            ("postgres://u:secret@h?listen=maybe", "listen= is on or off"),
            ("postgres://u:secret@h?mode=session&keys=md5", "keys= is sha256, integer, "),
            ("postgres://u:secret@h?pool=0", "pool=0: expected 1 to 256"),
            ("postgres://u:secret@h:notaport/", "percent-encode"),
        ] {
            let error = Config::from_url(url).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
