//! The connections to a database, and how its answers are read.

use std::{fmt, sync::Arc, time::Duration};

use bramah_core::{Error, ErrorKind, Result};
use sqlx::{Connection, Database, Executor};

use crate::{Manners, Meaning, Pool, Terms};

/// How many connections renew, at the most: one for each session of the process that has to at the same moment.
const KEEPERS: usize = 4;

/// The connections to one database.
pub struct Desk<C: Connection> {
    server: String,
    calls: Arc<Pool<C>>,
    /// Renewals have connections that no call can take.
    keep: Arc<Pool<C>>,
    meaning: Meaning,
}

type Rows<C> = Vec<<<C as Connection>::Database as Database>::Row>;

impl<C: Connection> fmt::Debug for Desk<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("server", &self.server).finish_non_exhaustive()
    }
}

impl<C> Desk<C>
where
    C: Connection + 'static,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
{
    /// For `server`, which is how errors call it: `postgres at db:5432`.
    pub fn new(
        server: String,
        options: &<C as Connection>::Options,
        terms: &Terms,
        manners: Manners,
        meaning: Meaning,
    ) -> Self {
        let pool = |size| {
            Arc::new(Pool::new(options.clone(), size, terms.pool_idle, terms.connect_timeout, manners))
        };
        Self { server, calls: pool(terms.pool), keep: pool(KEEPERS), meaning }
    }

    /// How errors call the server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The connections for calls.
    pub fn calls(&self) -> &Arc<Pool<C>> {
        &self.calls
    }

    /// Carries out a call.
    ///
    /// # Errors
    /// Why not, in a line.
    pub async fn call(&self, text: String, patience: Duration) -> Result<Rows<C>> {
        self.over(&self.calls, text, patience).await
    }

    /// Carries out what renews.
    ///
    /// # Errors
    /// Why not, in a line.
    pub async fn keep(&self, text: String, patience: Duration) -> Result<Rows<C>> {
        self.over(&self.keep, text, patience).await
    }

    /// Carries out a text over connections of the caller's.
    ///
    /// # Errors
    /// Why not, in a line.
    pub async fn over(&self, pool: &Arc<Pool<C>>, text: String, patience: Duration) -> Result<Rows<C>> {
        pool.query(text, patience).await.map_err(|trouble| trouble.explain(&self.server, self.meaning))
    }

    /// Reads every row.
    ///
    /// # Errors
    /// `Corrupt` for one that is not understood.
    pub fn read<R, T>(&self, rows: &[R], read: impl Fn(&R) -> Result<T, sqlx::Error>) -> Result<Vec<T>> {
        rows.iter().map(read).collect::<Result<_, _>>().map_err(|error| self.misread(&error))
    }

    /// Reads the first row.
    ///
    /// # Errors
    /// `Corrupt` if there is none, or it is not understood.
    pub fn read_first<R, T>(&self, rows: &[R], read: impl Fn(&R) -> Result<T, sqlx::Error>) -> Result<T> {
        let first = rows.first().ok_or(sqlx::Error::RowNotFound).and_then(read);
        first.map_err(|error| self.misread(&error))
    }

    /// The error for an answer that is not understood.
    pub fn misread(&self, error: &sqlx::Error) -> Error {
        let text = format!(
            "{}: an answer is not understood ({error}); is what bramah init wrote there of another version? run bramah init",
            self.server
        );
        Error::new(ErrorKind::Corrupt, text)
    }
}
