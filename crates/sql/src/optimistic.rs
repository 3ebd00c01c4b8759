//! Read, compute, write if nobody was faster; otherwise once more from the start.

use std::{fmt, time::Duration};

use bramah_core::Clock;
use sqlx::Pool;

use crate::{Error, Result, dialect::Dialect, transact::Lent, tx::Tx};

/// Runs a transaction that may be in another one's way, and runs it again if it was.
///
/// ```no_run
/// # async fn example(pool: sqlx::PgPool, id: i64) -> bramah_sql::Result<()> {
/// use bramah_sql::{cas, optimistic};
///
/// let left = optimistic(&pool)
///     .run(async |mut tx| {
///         let (left, version): (i32, i64) = sqlx::query_as("select left_count, version from t_bonus where id = $1")
///             .bind(id)
///             .fetch_one(&mut *tx)
///             .await?;
///         if left == 0 {
///             return Ok(None);
///         }
///         cas(&mut tx, "update t_bonus set left_count = $1, version = version + 1 where id = $2 and version = $3")
///             .bind(left - 1)
///             .bind(id)
///             .version(version)
///             .probe("select version from t_bonus where id = $1")
///             .bind(id)
///             .execute()
///             .await?;
///         Ok(Some(left - 1))
///     })
///     .await?;
/// # let _ = left;
/// # Ok(())
/// # }
/// ```
///
/// It is also right for a transaction without a version column at `SERIALIZABLE`, and for one with
/// [`for_update`](crate::for_update) that may end in a deadlock.
pub fn optimistic<DB: Dialect>(pool: &Pool<DB>) -> Optimistic<'_, DB> {
    Optimistic { pool, tries: 8, first: Duration::from_millis(2), longest: Duration::from_millis(200) }
}

/// How often and after which pauses a transaction is tried; see [`optimistic`].
#[must_use = "nothing happens before run"]
pub struct Optimistic<'p, DB: Dialect> {
    pool: &'p Pool<DB>,
    tries: u32,
    first: Duration,
    longest: Duration,
}

impl<DB: Dialect> Optimistic<'_, DB> {
    /// How often it is run at most, the first time included: 8 if nothing is said, and never less than once.
    pub fn tries(mut self, tries: u32) -> Self {
        self.tries = tries;
        self
    }

    /// How long to pause before the second try, and how long at most: 2 ms and 200 ms if nothing is said.
    ///
    /// From try to try it doubles. What is really slept is a random part of it, so that those who met do not meet again.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.first = first;
        self.longest = longest;
        self
    }

    /// Runs `work` in a transaction and commits it. If it was in another one's way, rolls it back, pauses and runs it again in a
    /// new one: it must read again what it goes by, and do nothing outside of the transaction that may not be done twice.
    ///
    /// Run again are [`Error::Conflict`], [`Error::Busy`] and what [`classify`](crate::classify) says may be. Any other error
    /// rolls back and is given at once; [`Error::other`] makes one of yours.
    ///
    /// Hand on every error of the database, and leave the end of the transaction to this call. An error that the closure keeps to
    /// itself, or a `ROLLBACK` or `COMMIT` of its own, has ended the transaction, and is [`Error::Ended`] in the end.
    ///
    /// # Errors
    ///
    /// [`Error::Exhausted`] after the last try, [`Error::InDoubt`] if the answer to `COMMIT` was lost, and those of `work`.
    ///
    /// # Cancel safety
    ///
    /// Dropped before the commit is sent, the transaction is rolled back. Dropped while it is sent, it may be committed.
    pub async fn run<T, F>(self, mut work: impl FnMut(Tx<DB>) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut tries = 0;
        loop {
            tries += 1;
            let lent = Lent::begin(self.pool).await?;
            let done = work(lent.lend().await).await;
            let last = match lent.end(done).await {
                Err(why) if why.is_retryable() => why,
                other => return other,
            };
            if tries >= self.tries {
                return Err(Error::Exhausted { tries, last: Box::new(last) });
            }
            Clock::boot().nap(self.ceiling(tries).mul_f64(fastrand::f64())).await;
        }
    }

    /// The longest pause after so many tries.
    fn ceiling(&self, tries: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(tries.saturating_sub(1));
        self.first.saturating_mul(doubled).min(self.longest)
    }
}

impl<DB: Dialect> fmt::Debug for Optimistic<'_, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Optimistic")
            .field("tries", &self.tries)
            .field("first", &self.first)
            .field("longest", &self.longest)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pauses_double_up_to_the_longest() {
        let pool = sqlx::PgPool::connect_lazy("postgres://nobody@127.0.0.1/nothing").unwrap();
        let optimistic = optimistic(&pool).backoff(Duration::from_millis(3), Duration::from_millis(20));
        let ceilings: Vec<_> =
            [1, 2, 3, 4, u32::MAX].map(|tries| optimistic.ceiling(tries).as_millis()).into();
        assert_eq!(ceilings, [3, 6, 12, 20, 20]);
    }
}
