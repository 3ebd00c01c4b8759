//! Your own tables: optimistic and pessimistic concurrency, and writes under a fence.
//!
//! A row in a database of yours often needs no lock beside the database. This crate is for those: PostgreSQL, MySQL and
//! MariaDB over sqlx, with the text of each statement yours. It adds what is easily forgotten: that the number of rows is
//! looked at, that a conflict is told from a row that is gone, that a deadlock is tried again from the start and a lost answer to
//! `COMMIT` is not, and that a row is locked in a transaction and nowhere else.
//!
//! | | when | if somebody is faster |
//! |---|---|---|
//! | [`optimistic`] with [`cas`] | conflicts are rare, or a person thinks between read and write | run again from the start, then [`Error::Exhausted`] |
//! | [`for_update`], [`with_row`] | conflicts are common, the work is short and inside the database | wait, or [`Error::Busy`] |
//! | [`fenced`] | the work is long or outside, under a lock of Bramah | [`Error::Stale`] for the one who lost the lock |
//!
//! The guide `optimistic-pessimistic-or-a-lock.md` has more on the choice, with the failure of each.
//!
//! ```no_run
//! # async fn example(pool: sqlx::PgPool, id: i64) -> bramah_sql::Result<()> {
//! use std::time::Duration;
//!
//! use bramah_sql::{Wait, with_row};
//!
//! with_row(&pool, "select left_count from t_bonus where id = $1")
//!     .bind(id)
//!     .wait(Wait::AtMost(Duration::from_millis(500)))
//!     .run(async |mut tx, (left,): (i32,)| {
//!         let take = sqlx::query("update t_bonus set left_count = $1 where id = $2").bind(left - 1).bind(id);
//!         take.execute(&mut *tx).await?;
//!         Ok(())
//!     })
//!     .await
//! # }
//! ```
//!
//! [`optimistic`] and [`with_row`] ask the server once before `COMMIT` whether the transaction still lives. On PostgreSQL a
//! `COMMIT` after an error that nobody looked at rolls back and reports success; on MySQL a deadlock ends the transaction, and
//! what follows is committed statement by statement. Both are [`Error::Ended`] here. It costs one round trip.
//!
//! # Features
//!
//! `postgres` and `mysql` (which is also MariaDB), both on by default.

mod cas;
mod class;
mod dialect;
mod error;
mod fenced;
mod for_update;
mod optimistic;
mod probe;
mod statement;
mod transact;
mod tx;
mod with_row;

pub use cas::{Cas, cas};
pub use class::{Class, classify};
pub use dialect::Dialect;
pub use error::{Error, Result};
pub use fenced::{Fenced, fenced};
pub use for_update::{ForUpdate, Strength, Wait, for_update};
pub use optimistic::{Optimistic, optimistic};
pub use probe::Probe;
pub use tx::{InTransaction, Tx};
pub use with_row::{WithRow, with_row};

/// The examples of the guide compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/optimistic-pessimistic-or-a-lock.md")]
struct Guide;
