//! Where the server is, and how to use it.

use std::{fmt, str::FromStr};

use bramah_core::{Error, ErrorKind, Result};
use bramah_relational::Terms;
use sqlx::{ConnectOptions, mysql::MySqlConnectOptions};

use crate::keys::Keys;

/// What the driver understands.
const DRIVERS: [&str; 5] = ["ssl-mode", "ssl-ca", "ssl-cert", "ssl-key", "socket"];

/// Where a MySQL or a MariaDB is and how to use it.
#[derive(Clone)]
pub struct Config {
    pub(crate) options: MySqlConnectOptions,
    pub(crate) terms: Terms,
    /// Whether it was said that nobody writes to another server of the cluster.
    pub(crate) single_writer: bool,
    /// How names become names of the server's, in session mode.
    pub(crate) keys: Keys,
}

impl Config {
    /// Reads `mysql://[user[:password]@]host[:port]/database[?options]`; `mariadb://` is the same.
    ///
    /// The options, joined by `&`:
    ///
    /// | option | values |
    /// |---|---|
    /// | `mode` | `table` (if not said): locks are rows; `session`: those of `GET_LOCK`, which end with the connection |
    /// | `pool` | 1 to 256 connections for calls, 8 if not said; up to four more renew |
    /// | `connections` | 1 to 256 connections that have locks in session mode, 16 if not said |
    /// | `holds` | how many locks a session may have in session mode, 1000 if not said |
    /// | `keys` | what the server calls locks in session mode: `sha256` (if not said), `plain`, `distributedlock` |
    /// | `pool_idle` | `60s` (if not said): how long a connection may be idle before it is closed |
    /// | `connect_timeout`, `timeout` | `500ms`, `2s` (if not said) |
    /// | `galera` | `single-writer`: every client of a cluster with several writers is pointed at the same server |
    /// | `ssl-mode` | `DISABLED`, `PREFERRED` (if not said), `REQUIRED`, `VERIFY_CA`, `VERIFY_IDENTITY` |
    /// | `ssl-ca`, `ssl-cert`, `ssl-key` | PEM files |
    /// | `socket` | the server's socket, in place of its host and port |
    ///
    /// # Errors
    /// `Invalid`, with what is wrong and what is allowed, never with a password.
    pub fn from_url(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("mysql://").or_else(|| url.strip_prefix("mariadb://"));
        let rest = rest.ok_or_else(|| wrong("it starts with mysql:// or mariadb://"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut single_writer, mut keys) = (false, Keys::default());
        let own = |name: &str, value: &str| {
            match (name, value) {
                ("galera", "single-writer") => single_writer = true,
                ("galera", _) => return Err(wrong("galera= is single-writer")),
                ("keys", word) => {
                    let known = Keys::from_word(word);
                    keys = known.ok_or_else(|| wrong(format!("keys= is {}", Keys::NAMES)))?;
                }
                ("password", _) => {
                    return Err(wrong(
                        "a password among the options would be printed; put it before the host",
                    ));
                }
                _ => return Ok(false),
            }
            Ok(true)
        };
        let (terms, theirs) = Terms::read("mysql", query, "galera, keys", &DRIVERS, own)?;
        let cleaned = format!("mysql://{place}?{}", theirs.join("&"));
        // The driver's words may quote the url, and a password with it.
        let options = MySqlConnectOptions::from_str(&cleaned).map_err(|_| {
            wrong("it is not mysql://user:password@host:port/database; percent-encode / ? # and @ in a password")
        })?;
        if options.get_database().is_none_or(str::is_empty) {
            return Err(wrong("it names no database, as in mysql://user:password@host:port/database"));
        }
        // A connection begins with a greeting of ours, which says all that is needed in one message.
        let options =
            options.pipes_as_concat(false).no_engine_substitution(false).timezone(None).set_names(false);
        // Statements have ids of claims in them, which are handles: whoever reads one in a log can release the lock.
        let options = options.disable_statement_logging();
        Ok(Self { options, terms, single_writer, keys })
    }

    /// `host:port`, for errors.
    pub(crate) fn address(&self) -> String {
        match self.options.get_socket() {
            Some(socket) => socket.display().to_string(),
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
    Error::new(ErrorKind::Invalid, format!("mysql url: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_its_password_is_never_shown() {
        let url = "mysql://ana:s%2Fecret@db:3307/locks?pool=3&ssl-mode=DISABLED&galera=single-writer";
        for url in [url.to_owned(), url.replace("mysql:", "mariadb:")] {
            let config = Config::from_url(&url).unwrap();
            assert_eq!(config.address(), "db:3307");
            assert_eq!(config.options.get_database(), Some("locks"));
            assert_eq!((config.terms.pool, config.single_writer), (3, true));
            let shown = format!("{config:?}");
            assert!(!shown.contains("ecret"), "{shown}");
        }
        let config = Config::from_url("mysql://ana@localhost/locks?socket=/run/mysqld.sock").unwrap();
        assert_eq!(config.address(), "/run/mysqld.sock");
    }

    #[test]
    fn mistakes_are_told_without_the_password() {
        for (url, said) in [
            ("postgres://h/d", "it starts with mysql:// or mariadb://"),
            ("mysql://u:secret@h/d?color=red", "there is no option \"color\""),
            ("mysql://u:secret@h/d?charset=latin1", "there is no option \"charset\""),
            ("mysql://u:secret@h/d?password=secret", "a password among the options would be printed"),
            ("mysql://u:secret@h/d?galera=yes", "galera= is single-writer"),
            ("mysql://u:secret@h/d?mode=session&keys=md5", "keys= is sha256, plain or distributedlock"),
            ("mysql://u:secret@h/d?pool=0", "pool=0: expected 1 to 256"),
            ("mysql://u:secret@h/d?ssl-mode=secret", "percent-encode"),
            ("mysql://u:secret@h:notaport/d", "percent-encode"),
            ("mysql://u:secret@h", "it names no database"),
        ] {
            let error = Config::from_url(url).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
