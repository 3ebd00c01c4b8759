//! The two ends of a transaction. In between, dropping it has sqlx roll back before the connection is used again.

use std::sync::Arc;

use sqlx::{Pool, Transaction};
use tokio::sync::Mutex;

use crate::{Error, Result, dialect::Dialect, tx::Tx};

/// A transaction that is lent out.
pub(crate) struct Lent<DB: Dialect>(Arc<Mutex<Transaction<'static, DB>>>);

impl<DB: Dialect> Lent<DB> {
    pub(crate) async fn begin(pool: &Pool<DB>) -> Result<Self> {
        Ok(Self(Arc::new(Mutex::new(pool.begin_with(DB::BEGIN).await?))))
    }

    pub(crate) async fn lend(&self) -> Tx<DB> {
        Tx(self.0.clone().lock_owned().await)
    }

    /// Commits what went well, and rolls back what did not.
    pub(crate) async fn end<T>(self, done: Result<T>) -> Result<T> {
        let Some(lent) = Arc::into_inner(self.0) else {
            // What keeps it rolls back when it lets go of it.
            return Err(Error::Misuse("the closure has ended and something of it still has the transaction"));
        };
        let mut tx = lent.into_inner();
        let done = match done {
            // A closure that kept an error to itself, or ended the transaction, must not be told that its work is committed.
            Ok(done) => match DB::raw(&mut tx, DB::ALIVE).await {
                Ok(()) => Ok(done),
                Err(why) if DB::is_over(&why) => Err(Error::Ended(why)),
                // It may as well be a conflict that shows only now.
                Err(why) => Err(why.into()),
            },
            Err(why) => Err(why),
        };
        match done {
            Ok(done) => tx.commit().await.map(|()| done).map_err(not_committed::<DB>),
            Err(why) => {
                // If it fails, the connection is broken, and the server has rolled back or will.
                let _ = tx.rollback().await;
                Err(why)
            }
        }
    }
}

/// Whether an error at the end means that nothing was committed, or that nobody knows.
fn not_committed<DB: Dialect>(answer: sqlx::Error) -> Error {
    if DB::is_rolled_back(&answer) { answer.into() } else { Error::InDoubt(answer) }
}
