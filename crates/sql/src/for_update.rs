//! A select that locks the rows it gives.

use std::{fmt, time::Duration};

use sqlx::{Encode, FromRow, SqlSafeStr, Type};

use crate::{Error, Result, dialect::Dialect, statement::Statement, tx::InTransaction};

/// How strongly a row is locked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strength {
    /// `FOR UPDATE`: nobody else can lock, change or delete it.
    #[default]
    Update,
    /// `FOR NO KEY UPDATE`: like it, but rows that refer to this one by a foreign key can still be added. PostgreSQL only.
    NoKeyUpdate,
    /// `FOR SHARE`, or `LOCK IN SHARE MODE`: others can lock it in the same way, and nobody can change it.
    Share,
    /// `FOR KEY SHARE`: nobody can delete it or change its key. PostgreSQL only.
    KeyShare,
}

/// What to do about rows that somebody else has locked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wait {
    /// Wait as long as the server is set to: for ever on PostgreSQL, 50 seconds on MySQL and MariaDB.
    #[default]
    Server,
    /// `NOWAIT`: [`Error::Busy`] at once.
    No,
    /// `SKIP LOCKED`: as if they were not there. For queues.
    Skip,
    /// [`Error::Busy`] after this time, which counts for each row that is waited for. Zero is [`Wait::No`]. PostgreSQL has
    /// milliseconds. **MySQL and MariaDB have whole seconds**, and it is rounded up.
    AtMost(Duration),
}

/// Locks the rows of a select until the end of the transaction.
///
/// The select is yours; the clause that locks is put behind it. It takes a transaction and nothing else, because outside of
/// one a row lock ends with its own statement and protects nothing:
///
/// ```compile_fail,E0277
/// # async fn example(pool: &mut sqlx::PgPool) {
/// bramah_sql::for_update(pool, "select 1 from t_bonus");
/// # }
/// ```
///
/// ```compile_fail,E0277
/// # async fn example(connection: &mut sqlx::PgConnection) {
/// bramah_sql::for_update(connection, "select 1 from t_bonus");
/// # }
/// ```
///
/// ```no_run
/// # async fn example(pool: sqlx::PgPool) -> bramah_sql::Result<()> {
/// use bramah_sql::{Error, for_update};
///
/// let mut tx = pool.begin().await?;
/// let bonus = for_update(&mut tx, "select left_count from t_bonus where id = $1").bind(7_i64).nowait();
/// match bonus.fetch_one::<(i32,)>().await {
///     Ok((left,)) => println!("{left} left, and nobody else can change it"),
///     Err(Error::Busy(_)) => println!("somebody is at it"),
///     Err(why) => return Err(why),
/// }
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
pub fn for_update<X: InTransaction>(tx: &mut X, select: impl SqlSafeStr) -> ForUpdate<'_, X::Db> {
    ForUpdate { connection: tx.connection(), ask: Ask::new(select) }
}

/// A locking select under construction; see [`for_update`].
#[must_use = "nothing is sent before fetch"]
pub struct ForUpdate<'t, DB: Dialect> {
    connection: &'t mut DB::Connection,
    ask: Ask<DB>,
}

impl<DB: Dialect> ForUpdate<'_, DB> {
    /// Binds the next parameter of the select.
    pub fn bind<'v, T: Encode<'v, DB> + Type<DB>>(mut self, value: T) -> Self {
        self.ask.select.bind(value);
        self
    }

    /// How strongly rows are locked: [`Strength::Update`] if nothing is said.
    pub fn strength(mut self, strength: Strength) -> Self {
        self.ask.strength = strength;
        self
    }

    /// What to do about rows that somebody else has locked: [`Wait::Server`] if nothing is said.
    ///
    /// A time-out is for this statement alone. PostgreSQL's `lock_timeout` is set for the transaction and put back; MariaDB
    /// has it in the statement; the `innodb_lock_wait_timeout` of a MySQL session is changed and put back.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.ask.wait = wait;
        self
    }

    /// [`Wait::No`].
    pub fn nowait(self) -> Self {
        self.wait(Wait::No)
    }

    /// [`Wait::Skip`].
    pub fn skip_locked(self) -> Self {
        self.wait(Wait::Skip)
    }

    /// Locks the rows and gives the first one.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if there is none, [`Error::Busy`] if somebody else has one locked, [`Error::Unsupported`] if the
    /// server has no such lock, and what else the database says. After an error PostgreSQL lets nothing more happen in the
    /// transaction: roll back, or take the lock in a savepoint (`tx.begin()`).
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits, the server goes on waiting, and the rollback queues behind it: the connection is of no use
    /// until then. Prefer [`Wait::AtMost`] to a time-out around it. On MySQL with [`Wait::AtMost`] the session may keep the
    /// changed time-out; close the connection then.
    pub async fn fetch_one<T>(self) -> Result<T>
    where
        T: for<'r> FromRow<'r, DB::Row>,
    {
        self.fetch_optional().await?.ok_or(Error::Missing)
    }

    /// Locks the rows and gives the first one, if there is any. With [`Wait::Skip`] there may be others that are locked.
    ///
    /// # Errors
    ///
    /// As [`fetch_one`](Self::fetch_one), without [`Error::Missing`].
    ///
    /// # Cancel safety
    ///
    /// As [`fetch_one`](Self::fetch_one).
    pub async fn fetch_optional<T>(self) -> Result<Option<T>>
    where
        T: for<'r> FromRow<'r, DB::Row>,
    {
        let rows = self.ask.run(self.connection).await?;
        Ok(rows.first().map(T::from_row).transpose()?)
    }

    /// Locks the rows and gives all of them.
    ///
    /// # Errors
    ///
    /// As [`fetch_one`](Self::fetch_one), without [`Error::Missing`].
    ///
    /// # Cancel safety
    ///
    /// As [`fetch_one`](Self::fetch_one).
    pub async fn fetch_all<T>(self) -> Result<Vec<T>>
    where
        T: for<'r> FromRow<'r, DB::Row>,
    {
        let rows = self.ask.run(self.connection).await?;
        Ok(rows.iter().map(T::from_row).collect::<sqlx::Result<_>>()?)
    }
}

impl<DB: Dialect> fmt::Debug for ForUpdate<'_, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ask.fmt(f)
    }
}

/// What is to be locked, and how.
pub(crate) struct Ask<DB: Dialect> {
    pub(crate) select: Statement<DB>,
    pub(crate) strength: Strength,
    pub(crate) wait: Wait,
}

impl<DB: Dialect> Ask<DB> {
    pub(crate) fn new(select: impl SqlSafeStr) -> Self {
        Self { select: Statement::new(select), strength: Strength::default(), wait: Wait::default() }
    }

    pub(crate) async fn run(self, connection: &mut DB::Connection) -> Result<Vec<DB::Row>> {
        let (select, keys) = self.select.ready()?;
        let wait = match self.wait {
            Wait::AtMost(Duration::ZERO) => Wait::No,
            wait => wait,
        };
        DB::lock(connection, select, keys, self.strength, wait).await
    }
}

impl<DB: Dialect> fmt::Debug for Ask<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForUpdate")
            .field("strength", &self.strength)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}
