//! MySQL and MariaDB.

mod server;

use std::time::Duration;

use sqlx::{
    AssertSqlSafe, MySql, MySqlConnection, Row, SqlStr,
    mysql::{MySqlArguments, MySqlDatabaseError, MySqlRow},
};

use self::server::Server;
use super::{append, words::Words};
use crate::{Error, Result, Strength, Wait, class::classify};

impl Words for MySql {
    // A deadlock ends the transaction, and what follows would be committed one by one. The savepoint ends with it.
    const BEGIN: &'static str = "begin; savepoint bramah";
    const ALIVE: &'static str = "release savepoint bramah";

    fn is_over(why: &sqlx::Error) -> bool {
        number(why) == Some(1305)
    }

    /// Where it is known: constraints and conflicts (classes 23 and 40), what a trigger signals (45), a server that became
    /// read-only (1290, 1792, 1836), and a plugin that refuses (3100). Everything else may come after the commit: a statement or a
    /// connection that is killed just then (1317, 1927), a shutdown (1053), a log or an engine that failed half-way (1180, 1598).
    fn is_rolled_back(answer: &sqlx::Error) -> bool {
        let state = answer.as_database_error().and_then(|why| why.code()).unwrap_or_default();
        classify(answer).is_retryable()
            || ["23", "40", "45"].iter().any(|class| state.starts_with(class)) && state != "40003"
            || matches!(number(answer), Some(1290 | 1792 | 1836 | 3100))
    }

    async fn execute(
        connection: &mut MySqlConnection,
        text: SqlStr,
        arguments: MySqlArguments,
    ) -> sqlx::Result<u64> {
        Ok(sqlx::query_with(text, arguments).execute(connection).await?.rows_affected())
    }

    async fn rows(
        connection: &mut MySqlConnection,
        text: SqlStr,
        arguments: MySqlArguments,
    ) -> sqlx::Result<Vec<MySqlRow>> {
        sqlx::query_with(text, arguments).fetch_all(connection).await
    }

    async fn raw(connection: &mut MySqlConnection, text: &'static str) -> sqlx::Result<()> {
        sqlx::raw_sql(text).execute(connection).await.map(drop)
    }

    fn integer(row: &MySqlRow) -> sqlx::Result<Option<i64>> {
        let signed = row.try_get::<Option<i64>, _>(0);
        signed.or_else(|why| match row.try_get::<Option<u64>, _>(0) {
            Ok(number) => number.map(i64::try_from).transpose().map_err(|_| why),
            Err(_) => Err(why),
        })
    }

    /// At REPEATABLE READ a plain select sees the row as it was at the first read. A locking one sees it as it is.
    fn current(select: SqlStr) -> SqlStr {
        append(select, "lock in share mode")
    }

    async fn lock(
        connection: &mut MySqlConnection,
        select: SqlStr,
        arguments: MySqlArguments,
        strength: Strength,
        wait: Wait,
    ) -> Result<Vec<MySqlRow>> {
        if let Some(clause) = universal(strength, wait) {
            let rows = Self::rows(connection, append(select, clause), arguments).await;
            let why = match rows {
                Err(why) if number(&why) == Some(1064) => why,
                other => return Ok(other?),
            };
            // An old server does not know the words. It is asked only now, for most do.
            Server::ask(connection).await?.clause(strength, wait)?;
            return Err(why.into());
        }
        let server = Server::ask(connection).await?;
        let select = append(select, &server.clause(strength, wait)?);
        match wait {
            Wait::AtMost(limit) if !server.is_mariadb() => timed(connection, select, arguments, limit).await,
            _ => Ok(Self::rows(connection, select, arguments).await?),
        }
    }
}

/// What all servers write in the same way, if they have it.
fn universal(strength: Strength, wait: Wait) -> Option<&'static str> {
    match (strength, wait) {
        (Strength::Update, Wait::Server) => Some("for update"),
        (Strength::Update, Wait::No) => Some("for update nowait"),
        (Strength::Update, Wait::Skip) => Some("for update skip locked"),
        (Strength::Share, Wait::Server) => Some("lock in share mode"),
        _ => None,
    }
}

fn number(why: &sqlx::Error) -> Option<u16> {
    let why = why.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?;
    Some(why.number())
}

/// MySQL has no time-out in the statement: the session's is changed and put back, also after an error.
async fn timed(
    connection: &mut MySqlConnection,
    select: SqlStr,
    arguments: MySqlArguments,
    limit: Duration,
) -> Result<Vec<MySqlRow>> {
    let before =
        sqlx::raw_sql("select @@session.innodb_lock_wait_timeout").fetch_one(&mut *connection).await?;
    let before =
        MySql::integer(&before)?.ok_or(Error::Misuse("this server has no innodb_lock_wait_timeout"))?;
    set_patience(connection, &seconds(limit).to_string()).await?;
    let rows = MySql::rows(connection, select, arguments).await;
    let put_back = set_patience(connection, &before.to_string()).await;
    let rows = rows?;
    put_back?;
    Ok(rows)
}

async fn set_patience(connection: &mut MySqlConnection, seconds: &str) -> sqlx::Result<()> {
    let text = format!("set session innodb_lock_wait_timeout = {seconds}");
    sqlx::raw_sql(AssertSqlSafe(text)).execute(connection).await.map(drop)
}

/// Whole ones, rounded up. More than this the server does not take.
fn seconds(limit: Duration) -> u64 {
    let up = u64::from(limit.subsec_nanos() > 0);
    limit.as_secs().saturating_add(up).clamp(1, 1 << 30)
}

#[cfg(test)]
mod tests {
    use bramah_lab::MariaDb;
    use sqlx::{Connection, SqlSafeStr};

    use super::*;

    #[test]
    fn a_time_out_is_in_whole_seconds_rounded_up() {
        assert_eq!(seconds(Duration::from_millis(1)), 1);
        assert_eq!(seconds(Duration::from_secs(2)), 2);
        assert_eq!(seconds(Duration::from_millis(2001)), 3);
        assert_eq!(seconds(Duration::MAX), 1 << 30);
    }

    /// MariaDB has the same variable, and so it shows what is done to MySQL.
    #[tokio::test]
    async fn the_time_out_of_the_session_is_put_back_also_after_it_struck() {
        let server = MariaDb::start().unwrap();
        server.sql("create table t (id int primary key); insert into t values (1)").unwrap();
        let mut holder = MySqlConnection::connect(&server.url()).await.unwrap();
        let mut waiter = MySqlConnection::connect(&server.url()).await.unwrap();
        set_patience(&mut waiter, "17").await.unwrap();
        let patience = "select @@session.innodb_lock_wait_timeout";
        let select = || "select id from t for update".into_sql_str();

        let mut held = holder.begin().await.unwrap();
        MySql::rows(&mut held, select(), MySqlArguments::default()).await.unwrap();
        let mut tx = waiter.begin().await.unwrap();
        let asked = timed(&mut tx, select(), MySqlArguments::default(), Duration::from_millis(10)).await;
        assert!(matches!(asked, Err(Error::Busy(_))), "{asked:?}");
        assert_eq!(sqlx::query_scalar::<_, u64>(patience).fetch_one(&mut *tx).await.unwrap(), 17);

        held.rollback().await.unwrap();
        let rows =
            timed(&mut tx, select(), MySqlArguments::default(), Duration::from_secs(30)).await.unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(sqlx::query_scalar::<_, u64>(patience).fetch_one(&mut *tx).await.unwrap(), 17);
    }
}
