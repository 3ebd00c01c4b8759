//! A write that a holder who lost the lock cannot do.

use std::fmt;

use bramah_core::Fence;
use sqlx::{Encode, SqlSafeStr, Type};

use crate::{
    Error,
    dialect::Dialect,
    probe::{Held, Probe, Write},
    statement::Statement,
    tx::InTransaction,
};

/// Writes a row under the fence of a lock, unless the row has seen a later one.
///
/// The text is yours. It must do three things: name **one** row by its key, compare the fence, and set it. The column is
/// `bigint not null default 0`.
///
/// ```no_run
/// # async fn example(tx: &mut sqlx::PgTransaction<'_>, fence: bramah_core::Fence) -> bramah_sql::Result<()> {
/// use bramah_sql::{Error, fenced};
///
/// let written = fenced(tx, fence, "update account set balance = $1, fence = $2 where id = $3 and fence <= $2")
///     .bind(90_i64)
///     .fence()
///     .bind(7_i64)
///     .probe("select fence from account where id = $1")
///     .bind(7_i64)
///     .execute()
///     .await;
/// if let Err(Error::Stale { held, known }) = &written {
///     eprintln!("we were too slow: {held} is behind {known}");
/// }
/// # written
/// # }
/// ```
///
/// On MySQL and MariaDB each `?` is bound by itself, so [`fence`](Fenced::fence) is called for each of the two:
/// `update account set balance = ?, fence = ? where id = ? and fence <= ?`.
///
/// The same fence may write again, as a holder does. What is refused is a smaller one: [`Error::Stale`].
pub fn fenced<X: InTransaction>(tx: &mut X, fence: Fence, update: impl SqlSafeStr) -> Fenced<'_, X::Db> {
    let held = Err(Error::Misuse("the fence is not in the statement; call fence() where it is bound"));
    Fenced { fence, write: Write { connection: tx.connection(), update: Statement::new(update), held } }
}

/// A fenced write under construction; see [`fenced`].
#[must_use = "nothing is sent before execute"]
pub struct Fenced<'t, DB: Dialect> {
    fence: Fence,
    write: Write<'t, DB>,
}

impl<'t, DB: Dialect> Fenced<'t, DB> {
    /// Binds the next parameter of the update.
    pub fn bind<'v, T: Encode<'v, DB> + Type<DB>>(mut self, value: T) -> Self {
        self.write.update.bind(value);
        self
    }

    /// Binds the fence as the next parameter of the update.
    pub fn fence(mut self) -> Self
    where
        for<'v> i64: Encode<'v, DB> + Type<DB>,
    {
        self.write.held = match i64::try_from(self.fence.get()) {
            Ok(fence) => {
                self.write.update.bind(fence);
                Ok(Held::Fence(fence))
            }
            Err(_) => Err(Error::Misuse("the fence does not fit a bigint; no engine makes such a one")),
        };
        self
    }

    /// The select that gives the fence of the row, or no row. It is run only if the update wrote nothing.
    pub fn probe(self, select: impl SqlSafeStr) -> Probe<'t, DB> {
        self.write.probe(select)
    }
}

impl<DB: Dialect> fmt::Debug for Fenced<'_, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fenced").field("fence", &self.fence).finish_non_exhaustive()
    }
}
