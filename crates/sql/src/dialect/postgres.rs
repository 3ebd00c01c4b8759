//! PostgreSQL.

use std::{borrow::Cow, time::Duration};

use sqlx::{
    AssertSqlSafe, PgConnection, Postgres, Row, SqlStr,
    postgres::{PgArguments, PgDatabaseError, PgRow, PgSeverity},
};

use super::{append, words::Words};
use crate::{Result, Strength, Wait};

impl Words for Postgres {
    // The setting ends with the transaction. A savepoint would do so too, but within one the isolation level cannot be set.
    const BEGIN: &'static str = "begin; set local bramah.open = 'on'";

    // After an error everything fails until the rollback, and COMMIT is then a rollback that reports no error. Outside of the
    // transaction the setting is empty, which is no boolean.
    const ALIVE: &'static str = "select current_setting('bramah.open')::boolean";

    fn is_over(why: &sqlx::Error) -> bool {
        // In a failed transaction, an empty setting, and one that was never set on this connection (behind a pooler).
        state(why).is_some_and(|state| matches!(&*state, "25P02" | "22P02" | "42704"))
    }

    /// An `ERROR` is the end of the transaction: once its commit is in the log the server reports no such thing, but warns, or
    /// panics. A `FATAL` is the end of the connection, as when an administrator ends it, and may come after the commit and before its
    /// answer; poolers use it as well. Class 08 and 40003 say themselves that it is not known, and what stands between may report the end
    /// of a server as an error of 57P or 58.
    fn is_rolled_back(answer: &sqlx::Error) -> bool {
        let theirs = answer.as_database_error().and_then(|why| why.try_downcast_ref::<PgDatabaseError>());
        theirs.is_some_and(|why| {
            let is_unknown = ["08", "40003", "57P", "58"].iter().any(|class| why.code().starts_with(class));
            why.severity() == PgSeverity::Error && !is_unknown
        })
    }

    async fn execute(
        connection: &mut PgConnection,
        text: SqlStr,
        arguments: PgArguments,
    ) -> sqlx::Result<u64> {
        Ok(sqlx::query_with(text, arguments).execute(connection).await?.rows_affected())
    }

    async fn rows(
        connection: &mut PgConnection,
        text: SqlStr,
        arguments: PgArguments,
    ) -> sqlx::Result<Vec<PgRow>> {
        sqlx::query_with(text, arguments).fetch_all(connection).await
    }

    async fn raw(connection: &mut PgConnection, text: &'static str) -> sqlx::Result<()> {
        sqlx::raw_sql(text).execute(connection).await.map(drop)
    }

    fn integer(row: &PgRow) -> sqlx::Result<Option<i64>> {
        let wide = row.try_get::<Option<i64>, _>(0);
        wide.or_else(|why| match row.try_get::<Option<i32>, _>(0) {
            Ok(number) => Ok(number.map(i64::from)),
            Err(_) => row.try_get::<Option<i16>, _>(0).map(|number| number.map(i64::from)).map_err(|_| why),
        })
    }

    /// At READ COMMITTED each statement sees what is committed. Above it, the write has failed before with 40001.
    fn current(select: SqlStr) -> SqlStr {
        select
    }

    async fn lock(
        connection: &mut PgConnection,
        select: SqlStr,
        arguments: PgArguments,
        strength: Strength,
        wait: Wait,
    ) -> Result<Vec<PgRow>> {
        let select = append(select, &clause(strength, wait));
        let Wait::AtMost(limit) = wait else { return Ok(Self::rows(connection, select, arguments).await?) };
        let before = set_patience(connection, limit).await?;
        // After an error there is nothing to put back: the rollback does it.
        let rows = Self::rows(connection, select, arguments).await?;
        let put_back = sqlx::query("select set_config('lock_timeout', $1, true)").bind(before);
        put_back.execute(connection).await?;
        Ok(rows)
    }
}

fn state(why: &sqlx::Error) -> Option<Cow<'_, str>> {
    why.as_database_error()?.code()
}

/// Sets the time-out for this transaction, and tells what it was.
async fn set_patience(connection: &mut PgConnection, limit: Duration) -> sqlx::Result<String> {
    let text =
        format!("select current_setting('lock_timeout'); set local lock_timeout = {}", milliseconds(limit));
    sqlx::raw_sql(AssertSqlSafe(text)).fetch_one(connection).await?.try_get(0)
}

/// Zero would be for ever, and more than this the server does not take.
fn milliseconds(limit: Duration) -> u128 {
    limit.as_micros().div_ceil(1000).clamp(1, i32::MAX.unsigned_abs().into())
}

fn clause(strength: Strength, wait: Wait) -> String {
    let strength = match strength {
        Strength::Update => "for update",
        Strength::NoKeyUpdate => "for no key update",
        Strength::Share => "for share",
        Strength::KeyShare => "for key share",
    };
    match wait {
        Wait::Server | Wait::AtMost(_) => strength.to_owned(),
        Wait::No => format!("{strength} nowait"),
        Wait::Skip => format!("{strength} skip locked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_strength_goes_with_each_way_to_wait() {
        assert_eq!(clause(Strength::Update, Wait::Server), "for update");
        assert_eq!(clause(Strength::NoKeyUpdate, Wait::No), "for no key update nowait");
        assert_eq!(clause(Strength::Share, Wait::Skip), "for share skip locked");
        assert_eq!(clause(Strength::KeyShare, Wait::AtMost(Duration::from_secs(1))), "for key share");
    }

    #[test]
    fn a_time_out_is_rounded_up_and_never_none() {
        assert_eq!(milliseconds(Duration::from_nanos(1)), 1);
        assert_eq!(milliseconds(Duration::from_micros(1001)), 2);
        assert_eq!(milliseconds(Duration::from_millis(1500)), 1500);
        assert_eq!(milliseconds(Duration::MAX), 2_147_483_647);
    }
}
