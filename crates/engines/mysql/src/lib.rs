//! Locks on MySQL and MariaDB.
//!
//! In table mode a lock is a line of rows in `bramah_claims`; the procedures that change it are in `sql/schema.sql`, and `bramah init` writes
//! them. One call is one `CALL`, so one round trip, and one transaction that begins and ends in it: no lock of the server's waits
//! for a client. Nobody is told anything by these servers, so each process asks one question for all its waiters, from every
//! few milliseconds after something happened to twenty times a second.
//!
//! In session mode a lock is one of the server's own (`GET_LOCK`), for as long as a connection lasts that says something from time
//! to time: see [`Pinned`], and `sql/session.sql`. Waiters are told there, each by the end of its own wait.
//!
//! In table mode:
//!
//! | what happens | what follows |
//! |---|---|
//! | a client crashes | its claims expire, holders after the ttl and waiters after less |
//! | the server crashes | what was committed is there again, fences with it, if `innodb_flush_log_at_trx_commit` is 1 or 2; holders keep what has not expired |
//! | a client is cut off | it declares its locks lost before the server gives them away |
//! | a client pauses for longer than the ttl | the same, as soon as it runs again; its fence is the smaller one |
//! | the server's clock jumps | forward: holds may expire early, and their holders learn of it at the next renewal; back: they expire late |
//! | fail-over to a replica | what it had not received is forgotten, locks and fences; semi-synchronous replication receives first |

mod base;
pub mod checkup;
mod complete;
mod config;
mod error;
mod init;
mod keys;
mod session;
mod state;
mod text;

use std::{sync::Arc, time::Duration};

use bramah_core::{Engine, Name, Result};
use bramah_relational::{Mode, Office, Pinned, Shelf, Table};

use base::Database;
pub use config::Config;
pub use init::script;

/// How long it may take to forget a lock.
const FORGETTING: Duration = Duration::from_secs(5);

/// Locks in MySQL or MariaDB. Clones share their connections.
#[derive(Clone, Debug)]
pub struct MySql(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Table(Table<Database>),
    Session(Pinned<Database>),
}

impl MySql {
    /// The engine for a URL; see [`Config::from_url`]. While one for the same URL is in use in this process, it is the same, with
    /// its connections.
    ///
    /// # Errors
    /// `Invalid` for a URL that is not understood. Nothing is connected to yet.
    pub fn from_url(url: &str) -> Result<Self> {
        static TABLES: Shelf<Table<Database>> = Shelf::new();
        static SESSIONS: Shelf<Pinned<Database>> = Shelf::new();
        let config = Config::from_url(url)?;
        match config.terms.mode {
            Mode::Table => TABLES.get(url, || table(&config)).map(Kind::Table).map(Self),
            Mode::Session => SESSIONS.get(url, || pinned(&config)).map(Kind::Session).map(Self),
        }
    }

    /// The engine for settings of your own.
    ///
    /// # Errors
    /// `Unavailable` if no thread can be had for it. Nothing is connected to yet.
    pub fn new(config: &Config) -> Result<Self> {
        match config.terms.mode {
            Mode::Table => table(config).map(Kind::Table).map(Self),
            Mode::Session => pinned(config).map(Kind::Session).map(Self),
        }
    }

    fn base(&self) -> (&Arc<Database>, &Office) {
        match &self.0 {
            Kind::Table(table) => (table.base(), table.office()),
            Kind::Session(pinned) => (pinned.dialect(), pinned.office()),
        }
    }

    /// Creates the tables and procedures, or brings them up to this version. What is there is kept.
    ///
    /// # Errors
    /// Of a server that cannot be reached, is not fit, or does not allow it.
    pub async fn init(&self) -> Result<()> {
        let (base, office) = self.base();
        let base = base.clone();
        office.run(async move { base.init().await }).await
    }

    /// Removes what is kept of a lock that is out of use: in session mode its key, and with it the count of its fences, which
    /// begins anew if the lock is used again. In table mode nothing is kept.
    ///
    /// # Errors
    /// Of a server that cannot be reached, or does not allow it.
    pub async fn forget(&self, name: &Name) -> Result<()> {
        let Kind::Session(pinned) = &self.0 else { return Ok(()) };
        let base = pinned.dialect().clone();
        let text = format!("DELETE FROM bramah_keys WHERE name = {}", text::bytes(name.as_str()));
        pinned.office().run(async move { base.desk.call(text, FORGETTING).await.map(drop) }).await
    }
}

fn table(config: &Config) -> Result<Table<Database>> {
    Ok(Table::new(Arc::new(Database::new(config)), Office::open("sql")?))
}

fn pinned(config: &Config) -> Result<Pinned<Database>> {
    Ok(Pinned::new(Arc::new(Database::new(config)), Office::open("sql")?))
}

impl From<MySql> for Arc<dyn Engine> {
    fn from(mysql: MySql) -> Self {
        match mysql.0 {
            Kind::Table(table) => Arc::new(table),
            Kind::Session(pinned) => Arc::new(pinned),
        }
    }
}
