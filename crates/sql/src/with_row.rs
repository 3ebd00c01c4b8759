//! The common case of a locked row: transaction, lock, work, commit.

use std::fmt;

use sqlx::{Encode, FromRow, Pool, SqlSafeStr, Type};

use crate::{
    Error, Result,
    dialect::Dialect,
    for_update::{Ask, Strength, Wait},
    transact::Lent,
    tx::Tx,
};

/// Locks a row, works with it, and commits.
///
/// ```no_run
/// # async fn example(pool: sqlx::MySqlPool, id: i64) -> bramah_sql::Result<()> {
/// use bramah_sql::{Error, with_row};
///
/// let left = with_row(&pool, "select left_count from t_bonus where id = ?")
///     .bind(id)
///     .run(async |mut tx, (left,): (i32,)| {
///         if left == 0 {
///             return Err(Error::other("none left"));
///         }
///         let take = sqlx::query("update t_bonus set left_count = left_count - 1 where id = ?").bind(id);
///         take.execute(&mut *tx).await?;
///         Ok(left - 1)
///     })
///     .await?;
/// # let _ = left;
/// # Ok(())
/// # }
/// ```
pub fn with_row<DB: Dialect>(pool: &Pool<DB>, select: impl SqlSafeStr) -> WithRow<'_, DB> {
    WithRow { pool, ask: Ask::new(select) }
}

/// A row to be locked, and how; see [`with_row`].
#[must_use = "nothing happens before run"]
pub struct WithRow<'p, DB: Dialect> {
    pool: &'p Pool<DB>,
    ask: Ask<DB>,
}

impl<DB: Dialect> WithRow<'_, DB> {
    /// Binds the next parameter of the select.
    pub fn bind<'v, T: Encode<'v, DB> + Type<DB>>(mut self, value: T) -> Self {
        self.ask.select.bind(value);
        self
    }

    /// How strongly the row is locked: [`Strength::Update`] if nothing is said.
    pub fn strength(mut self, strength: Strength) -> Self {
        self.ask.strength = strength;
        self
    }

    /// What to do if somebody else has it locked: [`Wait::Server`] if nothing is said.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.ask.wait = wait;
        self
    }

    /// [`Wait::No`].
    pub fn nowait(self) -> Self {
        self.wait(Wait::No)
    }

    /// Locks the row, hands it to `work`, and commits. An error of `work` rolls back. It is run once: for deadlocks put
    /// [`for_update`](crate::for_update) into [`optimistic`](crate::optimistic).
    ///
    /// Hand on every error of the database, and leave the end of the transaction to this call. An error that the closure keeps to
    /// itself, or a `ROLLBACK` or `COMMIT` of its own, has ended the transaction, and is [`Error::Ended`] in the end.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if there is no row, [`Error::TooMany`] if there are several, [`Error::Busy`] if somebody else has it
    /// locked, [`Error::InDoubt`] if the answer to `COMMIT` was lost, and those of `work`.
    ///
    /// # Cancel safety
    ///
    /// Dropped before the commit is sent, the transaction is rolled back. Dropped while it is sent, it may be committed. Dropped
    /// while it waits for the row, see [`fetch_one`](crate::ForUpdate::fetch_one).
    pub async fn run<R, T, F>(self, work: impl FnOnce(Tx<DB>, R) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
        R: for<'r> FromRow<'r, DB::Row>,
    {
        let lent = Lent::begin(self.pool).await?;
        let mut tx = lent.lend().await;
        let done = match self.ask.run(&mut tx).await.and_then(only::<DB, R>) {
            Ok(row) => work(tx, row).await,
            Err(why) => {
                drop(tx);
                Err(why)
            }
        };
        lent.end(done).await
    }
}

/// The one row.
fn only<DB: Dialect, R: for<'r> FromRow<'r, DB::Row>>(rows: Vec<DB::Row>) -> Result<R> {
    match rows.as_slice() {
        [row] => Ok(R::from_row(row)?),
        [] => Err(Error::Missing),
        rows => Err(Error::TooMany { rows: u64::try_from(rows.len()).unwrap_or(u64::MAX) }),
    }
}

impl<DB: Dialect> fmt::Debug for WithRow<'_, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ask.fmt(f)
    }
}
