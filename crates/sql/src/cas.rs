//! Compare and set: a write that goes by the version that was read.

use std::fmt;

use sqlx::{Encode, SqlSafeStr, Type};

use crate::{
    Error,
    dialect::Dialect,
    probe::{Held, Probe, Write},
    statement::Statement,
    tx::InTransaction,
};

/// Writes a row if it is still in the version that was read, and tells what is wrong if it is not.
///
/// The text is yours. It must do three things: name **one** row by its key, compare the version, and raise it.
///
/// ```no_run
/// # async fn example(tx: &mut sqlx::PgTransaction<'_>, id: i64, version: i64) -> bramah_sql::Result<()> {
/// use bramah_sql::cas;
///
/// cas(tx, "update t_bonus set left_count = left_count - 1, version = version + 1 where id = $1 and version = $2")
///     .bind(id)
///     .version(version)
///     .probe("select version from t_bonus where id = $1")
///     .bind(id)
///     .execute()
///     .await
/// # }
/// ```
///
/// # The number of rows on MySQL and MariaDB
///
/// MySQL counts the rows that an update *changed*, unless the client asks by `CLIENT_FOUND_ROWS` for the rows that it
/// *matched*. sqlx always asks. So a row counts even if the update leaves it as it was, and that has two sides:
///
/// - An update that writes the same values again is no conflict.
/// - **An update that does not raise the version is no guard.** Two writers that read version 3 both match it, both count one
///   row, and the second overwrites the first. Without `CLIENT_FOUND_ROWS` the second might have changed nothing and
///   counted none, which is no guard either. With `version = version + 1` both ways of counting say the same.
pub fn cas<X: InTransaction>(tx: &mut X, update: impl SqlSafeStr) -> Cas<'_, X::Db> {
    let held = Err(Error::Misuse("cas was not told which version was read; call version()"));
    Cas { write: Write { connection: tx.connection(), update: Statement::new(update), held } }
}

/// A compare-and-set step under construction; see [`cas`].
#[must_use = "nothing is sent before execute"]
pub struct Cas<'t, DB: Dialect> {
    write: Write<'t, DB>,
}

impl<'t, DB: Dialect> Cas<'t, DB> {
    /// Binds the next parameter of the update.
    pub fn bind<'v, T: Encode<'v, DB> + Type<DB>>(mut self, value: T) -> Self {
        self.write.update.bind(value);
        self
    }

    /// Binds the version that was read as the next parameter of the update, and remembers it for the error.
    pub fn version(mut self, version: i64) -> Self
    where
        for<'v> i64: Encode<'v, DB> + Type<DB>,
    {
        self.write.update.bind(version);
        self.write.held = Ok(Held::Version(version));
        self
    }

    /// The select that gives the version of the row, or no row. It is run only if the update wrote nothing.
    pub fn probe(self, select: impl SqlSafeStr) -> Probe<'t, DB> {
        self.write.probe(select)
    }
}

impl<DB: Dialect> fmt::Debug for Cas<'_, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cas").field("held", &self.write.held).finish_non_exhaustive()
    }
}
