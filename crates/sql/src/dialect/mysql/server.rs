//! Which server it is, and what it can write.

use sqlx::{MySqlConnection, Row};

use super::seconds;
use crate::{Error, Result, Strength, Wait};

/// MySQL or MariaDB, in a version.
pub(super) struct Server {
    kind: Kind,
    version: (u32, u32, u32),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    MySql,
    MariaDb,
}

impl Server {
    pub(super) async fn ask(connection: &mut MySqlConnection) -> sqlx::Result<Self> {
        let row = sqlx::query("select version()").fetch_one(connection).await?;
        Ok(Self::parse(&row.try_get::<String, _>(0)?))
    }

    /// `8.0.36`, `10.11.6-MariaDB-0+deb12u1`, and from behind a proxy `5.5.5-10.6.1-MariaDB`.
    fn parse(text: &str) -> Self {
        let kind = if text.to_ascii_lowercase().contains("mariadb") { Kind::MariaDb } else { Kind::MySql };
        let text = match kind {
            Kind::MariaDb => text.strip_prefix("5.5.5-").unwrap_or(text),
            Kind::MySql => text,
        };
        let digits = |c: char| !c.is_ascii_digit();
        let mut numbers =
            text.split('.').map(|part| part.split(digits).next().unwrap_or("").parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        Self { kind, version: (next(), next(), next()) }
    }

    pub(super) fn is_mariadb(&self) -> bool {
        self.kind == Kind::MariaDb
    }

    /// What locks rows in this way, behind a select.
    pub(super) fn clause(&self, strength: Strength, wait: Wait) -> Result<String> {
        let skipping = wait == Wait::Skip;
        let modern = match self.kind {
            Kind::MySql => self.version >= (8, 0, 1),
            Kind::MariaDb if skipping => self.version >= (10, 6, 0),
            Kind::MariaDb => self.version >= (10, 3, 0),
        };
        let since = match self.kind {
            Kind::MySql => "MySQL 8.0.1",
            Kind::MariaDb if skipping => "MariaDB 10.6",
            Kind::MariaDb => "MariaDB 10.3",
        };
        let strength = match (strength, self.kind) {
            (Strength::Update, _) => "for update",
            (Strength::Share, Kind::MySql) if modern => "for share",
            (Strength::Share, _) => "lock in share mode",
            (Strength::NoKeyUpdate, _) => {
                return Err(self.lacks("FOR NO KEY UPDATE, PostgreSQL alone has it"));
            }
            (Strength::KeyShare, _) => return Err(self.lacks("FOR KEY SHARE, PostgreSQL alone has it")),
        };
        let with = |words: &str| {
            if modern {
                Ok(format!("{strength} {}", words.to_ascii_lowercase()))
            } else {
                Err(self.lacks(&format!("{words}, it came with {since}")))
            }
        };
        match (wait, self.kind) {
            (Wait::Server, _) | (Wait::AtMost(_), Kind::MySql) => Ok(strength.to_owned()),
            (Wait::No, _) => with("NOWAIT"),
            (Wait::Skip, _) => with("SKIP LOCKED"),
            (Wait::AtMost(limit), Kind::MariaDb) => with(&format!("WAIT {}", seconds(limit))),
        }
    }

    fn lacks(&self, what: &str) -> Error {
        let name = match self.kind {
            Kind::MySql => "MySQL",
            Kind::MariaDb => "MariaDB",
        };
        let (major, minor, patch) = self.version;
        Error::Unsupported { what: what.to_owned(), server: format!("{name} {major}.{minor}.{patch}") }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn said(version: &str, strength: Strength, wait: Wait) -> String {
        Server::parse(version).clause(strength, wait).unwrap_or_else(|why| why.to_string())
    }

    const LIMIT: Wait = Wait::AtMost(Duration::from_millis(1200));

    #[test]
    fn versions_are_read_as_servers_write_them() {
        let read = |text: &str| {
            let server = Server::parse(text);
            (server.is_mariadb(), server.version)
        };
        assert_eq!(read("8.0.36-0ubuntu0.22.04.1"), (false, (8, 0, 36)));
        assert_eq!(read("8.4.0"), (false, (8, 4, 0)));
        assert_eq!(read("10.11.6-MariaDB-0+deb12u1"), (true, (10, 11, 6)));
        assert_eq!(read("5.5.5-10.6.1-MariaDB-log"), (true, (10, 6, 1)));
        assert_eq!(read("what"), (false, (0, 0, 0)));
        assert_eq!(read(""), (false, (0, 0, 0)));
    }

    #[test]
    fn mysql_writes_for_share() {
        assert_eq!(said("8.0.36", Strength::Share, Wait::No), "for share nowait");
        assert_eq!(said("8.0.36", Strength::Share, Wait::Skip), "for share skip locked");
        assert_eq!(said("8.0.36", Strength::Share, LIMIT), "for share");
        assert_eq!(said("8.0.36", Strength::Update, LIMIT), "for update");
    }

    #[test]
    fn mariadb_writes_wait_and_lock_in_share_mode() {
        assert_eq!(said("10.11.6-MariaDB", Strength::Share, Wait::No), "lock in share mode nowait");
        assert_eq!(said("10.11.6-MariaDB", Strength::Share, Wait::Skip), "lock in share mode skip locked");
        assert_eq!(said("10.11.6-MariaDB", Strength::Update, LIMIT), "for update wait 2");
        assert_eq!(said("10.11.6-MariaDB", Strength::Share, LIMIT), "lock in share mode wait 2");
    }

    #[test]
    fn what_a_version_lacks_is_told_with_where_it_is() {
        assert_eq!(
            said("10.5.9-MariaDB", Strength::Update, Wait::Skip),
            "unsupported: MariaDB 10.5.9 has no SKIP LOCKED, it came with MariaDB 10.6"
        );
        assert_eq!(said("10.5.9-MariaDB", Strength::Update, Wait::No), "for update nowait");
        assert_eq!(
            said("10.2.1-MariaDB", Strength::Update, LIMIT),
            "unsupported: MariaDB 10.2.1 has no WAIT 2, it came with MariaDB 10.3"
        );
        assert_eq!(
            said("5.7.44", Strength::Update, Wait::No),
            "unsupported: MySQL 5.7.44 has no NOWAIT, it came with MySQL 8.0.1"
        );
        assert_eq!(said("5.7.44", Strength::Share, LIMIT), "lock in share mode");
        assert_eq!(
            said("8.0.36", Strength::KeyShare, Wait::Server),
            "unsupported: MySQL 8.0.36 has no FOR KEY SHARE, PostgreSQL alone has it"
        );
    }
}
