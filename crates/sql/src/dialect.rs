//! What PostgreSQL and MySQL say differently.

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;

#[cfg(any(feature = "postgres", feature = "mysql"))]
use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

/// A database that this crate knows: `sqlx::Postgres`, or `sqlx::MySql` for MySQL and MariaDB.
pub trait Dialect: words::Words {}

#[cfg(feature = "postgres")]
impl Dialect for sqlx::Postgres {}

#[cfg(feature = "mysql")]
impl Dialect for sqlx::MySql {}

pub(crate) mod words {
    use std::future::Future;

    use sqlx::{Database, SqlStr};

    use crate::{Result, Strength, Wait};

    /// Nobody else can implement it, and nobody else needs to call it.
    pub trait Words: Database {
        /// What begins a transaction of ours.
        const BEGIN: &'static str;

        /// What fails if that transaction has ended, also if another one was begun since, or if the server lets nothing more
        /// happen in it.
        const ALIVE: &'static str;

        /// Whether [`ALIVE`](Self::ALIVE) failed because of that.
        fn is_over(why: &sqlx::Error) -> bool;

        /// Whether this answer to `COMMIT` says for certain that the server has rolled back.
        fn is_rolled_back(answer: &sqlx::Error) -> bool;

        /// Runs a statement and tells how many rows it matched.
        fn execute(
            connection: &mut Self::Connection,
            text: SqlStr,
            arguments: Self::Arguments,
        ) -> impl Future<Output = sqlx::Result<u64>> + Send;

        /// Runs a statement that gives rows.
        fn rows(
            connection: &mut Self::Connection,
            text: SqlStr,
            arguments: Self::Arguments,
        ) -> impl Future<Output = sqlx::Result<Vec<Self::Row>>> + Send;

        /// Runs texts that have no parameters.
        fn raw(
            connection: &mut Self::Connection,
            text: &'static str,
        ) -> impl Future<Output = sqlx::Result<()>> + Send;

        /// The first column, which is an integer of any width.
        fn integer(row: &Self::Row) -> sqlx::Result<Option<i64>>;

        /// A select that sees what is committed now, and not a snapshot.
        fn current(select: SqlStr) -> SqlStr;

        /// Runs a select that locks the rows it gives.
        fn lock(
            connection: &mut Self::Connection,
            select: SqlStr,
            arguments: Self::Arguments,
            strength: Strength,
            wait: Wait,
        ) -> impl Future<Output = Result<Vec<Self::Row>>> + Send;
    }
}

/// Puts a clause behind a select, on a line of its own: the last one may end in a comment.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn append(select: SqlStr, clause: &str) -> SqlStr {
    let select = select.as_str().trim_end_matches(|c: char| c == ';' || c.is_whitespace());
    AssertSqlSafe(format!("{select}\n{clause}")).into_sql_str()
}

#[cfg(all(test, any(feature = "postgres", feature = "mysql")))]
mod tests {
    use super::*;

    #[test]
    fn a_clause_stands_behind_what_ends_a_select() {
        let appended = |select: &'static str| append(select.into_sql_str(), "for update").as_str().to_owned();
        assert_eq!(appended("select 1"), "select 1\nfor update");
        assert_eq!(appended("select 1 ;\n"), "select 1\nfor update");
        assert_eq!(appended("select 1 -- one"), "select 1 -- one\nfor update");
    }
}
