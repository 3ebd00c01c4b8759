//! Locks on PostgreSQL.
//!
//! A lock is a line of rows in `bramah_claims`; the functions that change it are in `sql/schema.sql`, and `bramah init` writes
//! them. One call is one statement in simple query form, so one transaction and one round trip, which any pooler can pass
//! on. Waiters are told by NOTIFY, over one connection for all of a process.

mod base;
pub mod checkup;
mod config;
mod error;
mod init;
mod listener;
mod text;

use std::sync::Arc;

use bramah_core::{Engine, Result};
use bramah_relational::{Office, Shelf, Table};

use base::Database;
pub use config::Config;
pub use init::SCHEMA;

/// Locks in a table of PostgreSQL. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Postgres(Table<Database>);

impl Postgres {
    /// The engine for a URL; see [`Config::from_url`]. While one for the same URL is in use in this process, it is the same, with
    /// its connections.
    ///
    /// # Errors
    /// `Invalid` for a URL that is not understood. Nothing is connected to yet.
    pub fn from_url(url: &str) -> Result<Self> {
        static SHELF: Shelf<Database> = Shelf::new();
        SHELF.get(url, || Ok(Self::new(&Config::from_url(url)?)?.0)).map(Self)
    }

    /// The engine for settings of your own.
    ///
    /// # Errors
    /// `Unavailable` if no thread can be had for it. Nothing is connected to yet.
    pub fn new(config: &Config) -> Result<Self> {
        let office = Office::open()?;
        let base = Arc::new(Database::new(config, office.clone()));
        Ok(Self(Table::new(base, office)))
    }

    /// Creates the tables and functions, or brings them up to this version. What is there is kept.
    ///
    /// # Errors
    /// Of a server that cannot be reached, takes no writes, or does not allow it.
    pub async fn init(&self) -> Result<()> {
        let base = self.0.base().clone();
        self.0.office().run(async move { base.init().await }).await
    }
}

impl From<Postgres> for Arc<dyn Engine> {
    fn from(postgres: Postgres) -> Self {
        Arc::new(postgres.0)
    }
}
