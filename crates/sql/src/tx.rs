//! A transaction, whoever began it.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use sqlx::Transaction;
use tokio::sync::OwnedMutexGuard;

use crate::dialect::Dialect;

/// The transaction that [`optimistic`](crate::optimistic) and [`with_row`](crate::with_row) lend to a closure.
///
/// For statements of sqlx it is used as sqlx's own: `query.execute(&mut *tx)`. It is given back by being dropped, and
/// committed or rolled back then by whoever lent it.
// It is lent by value: a future that borrows it could not be spawned, for the compiler asks that it be Send for any lifetime.
pub struct Tx<DB: Dialect>(pub(crate) OwnedMutexGuard<Transaction<'static, DB>>);

impl<DB: Dialect> Deref for Tx<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.0
    }
}

impl<DB: Dialect> DerefMut for Tx<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.0
    }
}

impl<DB: Dialect> fmt::Debug for Tx<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").finish_non_exhaustive()
    }
}

/// What a lock on a row lasts in: a `sqlx::Transaction`, or a [`Tx`]. A pool or a connection is none.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transaction",
    label = "a transaction is needed",
    note = "outside of a transaction a row lock ends with its own statement; begin one: `let mut tx = pool.begin().await?`"
)]
pub trait InTransaction: inside::Inside {}

impl<DB: Dialect> InTransaction for Transaction<'_, DB> {}

impl<DB: Dialect> InTransaction for Tx<DB> {}

pub(crate) mod inside {
    use sqlx::{Database, Transaction};

    use super::{Dialect, Tx};

    /// Nobody else can implement it, and nobody else needs to call it.
    pub trait Inside {
        type Db: Dialect;

        fn connection(&mut self) -> &mut <Self::Db as Database>::Connection;
    }

    impl<DB: Dialect> Inside for Transaction<'_, DB> {
        type Db = DB;

        fn connection(&mut self) -> &mut DB::Connection {
            self
        }
    }

    impl<DB: Dialect> Inside for Tx<DB> {
        type Db = DB;

        fn connection(&mut self) -> &mut DB::Connection {
            self
        }
    }
}
