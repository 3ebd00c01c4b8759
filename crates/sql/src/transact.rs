//! One transaction around a closure: committed if it went well, and rolled back if it did not.

use sqlx::{Pool, Transaction};

use crate::{Error, Result, class::classify, dialect::Dialect};

/// Dropped, the transaction is dropped, and sqlx rolls it back before the connection is used again.
pub(crate) async fn transact<DB: Dialect, T>(
    pool: &Pool<DB>,
    work: impl AsyncFnOnce(&mut Transaction<'static, DB>) -> Result<T>,
) -> Result<T> {
    let mut tx = pool.begin_with(DB::BEGIN).await?;
    let done = match work(&mut tx).await {
        // A closure that kept an error to itself must not be told that its work is committed.
        Ok(done) => DB::raw(&mut tx, DB::ALIVE).await.map(|()| done).map_err(Error::RolledBack),
        Err(why) => Err(why),
    };
    match done {
        Ok(done) => tx.commit().await.map(|()| done).map_err(not_committed),
        Err(why) => {
            // If it fails, the connection is broken, and the server has rolled back or will.
            let _ = tx.rollback().await;
            Err(why)
        }
    }
}

/// Whether an error at the end means that nothing was committed, or that nobody knows.
fn not_committed(why: sqlx::Error) -> Error {
    let state = why.as_database_error().and_then(|why| why.code()).unwrap_or_default();
    // A constraint that is looked at in the end, and a transaction that was rolled back; not "completion unknown".
    let is_certain = state.starts_with("23") || (state.starts_with("40") && state != "40003");
    if classify(&why).is_retryable() || is_certain { why.into() } else { Error::InDoubt(why) }
}
