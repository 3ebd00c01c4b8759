//! Locks on PostgreSQL.
//!
//! In table mode a lock is a line of rows in `bramah_claims`; the functions that change it are in `sql/schema.sql`, and `bramah init` writes
//! them. One call is one statement in simple query form, so one transaction and one round trip, which any pooler can pass
//! on. Waiters are told by NOTIFY, over one connection for all of a process. In session mode a lock is one of the server's own
//! advisory locks, for as long as a connection lasts that says something from time to time: see [`Pinned`].

mod base;
pub mod checkup;
mod complete;
mod config;
mod error;
mod init;
mod keys;
mod listener;
mod session;
mod text;

use std::{sync::Arc, time::Duration};

use bramah_core::{Engine, Name, Result};
use bramah_relational::{Mode, Office, Pinned, Shelf, Table};

use base::Database;
pub use config::Config;
pub use init::SCHEMA;

/// How long it may take to forget a lock.
const FORGETTING: Duration = Duration::from_secs(5);

/// Locks in PostgreSQL. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Postgres(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Table(Table<Database>),
    Session(Pinned<Database>),
}

impl Postgres {
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

    /// Creates the tables and functions, or brings them up to this version. What is there is kept.
    ///
    /// # Errors
    /// Of a server that cannot be reached, takes no writes, or does not allow it.
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
        let text = format!("DELETE FROM bramah_keys WHERE name = {}", text::quoted(name.as_str()));
        pinned.office().run(async move { base.desk.call(text, FORGETTING).await.map(drop) }).await
    }
}

fn table(config: &Config) -> Result<Table<Database>> {
    let office = Office::open("sql")?;
    Ok(Table::new(Arc::new(Database::new(config, office.clone())), office))
}

fn pinned(config: &Config) -> Result<Pinned<Database>> {
    let office = Office::open("sql")?;
    Ok(Pinned::new(Arc::new(Database::new(config, office.clone())), office))
}

impl From<Postgres> for Arc<dyn Engine> {
    fn from(postgres: Postgres) -> Self {
        match postgres.0 {
            Kind::Table(table) => Arc::new(table),
            Kind::Session(pinned) => Arc::new(pinned),
        }
    }
}
