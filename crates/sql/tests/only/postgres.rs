//! What PostgreSQL alone has.

use std::{sync::Mutex, time::Duration};

use bramah_sql::{Class, Error, Strength, Wait, classify, for_update, optimistic};
use sqlx::Connection;

use crate::on::{admin, pool};

#[tokio::test]
async fn the_time_out_of_the_transaction_is_put_back() {
    admin("create table pg_time_out (id int primary key); insert into pg_time_out values (1)");
    let pool = pool().await;
    let mut tx = pool.begin().await.unwrap();
    sqlx::query("set local lock_timeout = '70s'").execute(&mut *tx).await.unwrap();
    let wait = Wait::AtMost(Duration::from_millis(20));
    for_update(&mut tx, "select id from pg_time_out").wait(wait).fetch_one::<(i32,)>().await.unwrap();
    let patience = "show lock_timeout";
    assert_eq!(sqlx::query_scalar::<_, String>(patience).fetch_one(&mut *tx).await.unwrap(), "70s");

    // In a savepoint it is put back also after it struck.
    let mut other = pool.begin().await.unwrap();
    sqlx::query("set local lock_timeout = '80s'").execute(&mut *other).await.unwrap();
    let mut inner = other.begin().await.unwrap();
    let busy = for_update(&mut inner, "select id from pg_time_out").wait(wait).fetch_one::<(i32,)>().await;
    assert!(matches!(busy, Err(Error::Busy(_))), "{busy:?}");
    inner.rollback().await.unwrap();
    assert_eq!(sqlx::query_scalar::<_, String>(patience).fetch_one(&mut *other).await.unwrap(), "80s");

    // And the session has its own.
    tx.rollback().await.unwrap();
    other.rollback().await.unwrap();
    for _ in 0..4 {
        let mut connection = pool.acquire().await.unwrap();
        assert_eq!(sqlx::query_scalar::<_, String>(patience).fetch_one(&mut *connection).await.unwrap(), "0");
    }
}

#[tokio::test]
async fn strengths_go_together_as_the_manual_says() {
    use Strength::{KeyShare, NoKeyUpdate, Share, Update};
    admin("create table pg_strength (id int primary key); insert into pg_strength values (1)");
    let pool = pool().await;
    let friends = [(KeyShare, KeyShare), (KeyShare, Share), (KeyShare, NoKeyUpdate), (Share, Share)];
    for one in [KeyShare, Share, NoKeyUpdate, Update] {
        let mut tx = pool.begin().await.unwrap();
        let select = "select id from pg_strength";
        for_update(&mut tx, select).strength(one).fetch_one::<(i32,)>().await.unwrap();
        for other in [KeyShare, Share, NoKeyUpdate, Update] {
            let mut second = pool.begin().await.unwrap();
            let asked = for_update(&mut second, select).strength(other).nowait().fetch_one::<(i32,)>().await;
            let is_friend = friends.contains(&(one, other)) || friends.contains(&(other, one));
            assert_eq!(asked.is_ok(), is_friend, "{one:?} {other:?}: {asked:?}");
            // Dropped, it would be rolled back a little later.
            second.rollback().await.unwrap();
        }
        tx.rollback().await.unwrap();
    }
}

#[tokio::test]
async fn a_serialization_failure_is_run_again() {
    admin(
        "create table pg_serial (id int primary key, n int not null); insert into pg_serial values (1, 10)",
    );
    let pool = pool().await;
    let seen = Mutex::new(Vec::new());
    let n = optimistic(&pool).run(async |mut tx| {
        sqlx::query("set transaction isolation level serializable").execute(&mut *tx).await?;
        let n: i32 = sqlx::query_scalar("select n from pg_serial where id = 1").fetch_one(&mut *tx).await?;
        seen.lock().unwrap().push(n);
        if n == 10 {
            admin("update pg_serial set n = 20 where id = 1");
        }
        let written =
            sqlx::query("update pg_serial set n = $1 where id = 1").bind(n + 1).execute(&mut *tx).await;
        if let Err(why) = &written {
            assert_eq!(classify(why), Class::Serialization);
        }
        written?;
        Ok(n + 1)
    });
    assert_eq!(n.await.unwrap(), 21);
    assert_eq!(seen.into_inner().unwrap(), [10, 20]);
}

#[tokio::test]
async fn an_error_that_the_closure_keeps_to_itself_is_told_and_nothing_is_committed() {
    admin("create table pg_kept (id int primary key); insert into pg_kept values (1)");
    let pool = pool().await;
    let done = optimistic(&pool)
        .run(async |mut tx| {
            sqlx::query("insert into pg_kept values (2)").execute(&mut *tx).await?;
            let duplicate = sqlx::query("insert into pg_kept values (1)").execute(&mut *tx).await;
            assert!(duplicate.is_err());
            Ok(())
        })
        .await;
    assert!(matches!(done, Err(Error::Ended(_))), "{done:?}");
    assert_eq!(admin("select count(*) from pg_kept"), "1");
}

#[tokio::test]
async fn a_constraint_that_is_looked_at_in_the_end_leaves_no_doubt() {
    admin(
        "create table pg_late (id int, unique (id) deferrable initially deferred); insert into pg_late values (1)",
    );
    let pool = pool().await;
    let done = optimistic(&pool)
        .run(async |mut tx| {
            sqlx::query("insert into pg_late values (1)").execute(&mut *tx).await?;
            Ok(())
        })
        .await;
    assert!(matches!(done, Err(Error::Sql(_))), "{done:?}");
}

/// A trigger's own complaint, a cancelled statement, a division by zero and a right that is missing, each when COMMIT is carried out.
#[tokio::test]
async fn an_error_of_the_server_to_commit_leaves_no_doubt() {
    admin("create table pg_said (id int)");
    let pool = pool().await;
    let complaints = [
        ("P0001", "raise exception 'no'"),
        ("22012", "perform 1 / 0"),
        ("57014", "perform pg_cancel_backend(pg_backend_pid()); perform pg_sleep(30)"),
        ("42501", "perform pg_read_file('postmaster.pid')"),
        ("BR999", "raise exception 'no' using errcode = 'BR999'"),
    ];
    for (state, complaint) in complaints {
        admin(&format!(
            "create or replace function pg_said() returns trigger language plpgsql as $$ begin {complaint}; return null; end $$; \
             drop trigger if exists pg_said on pg_said; create constraint trigger pg_said after insert on pg_said \
             deferrable initially deferred for each row execute function pg_said()"
        ));
        let done = optimistic(&pool).run(async |mut tx| {
            sqlx::query("insert into pg_said values (1)").execute(&mut *tx).await?;
            Ok(())
        });
        let done = done.await;
        let Err(Error::Sql(why)) = &done else { panic!("{state}: {done:?}") };
        assert_eq!(why.as_database_error().unwrap().code().unwrap(), state);
        assert_eq!(admin("select count(*) from pg_said"), "0");
    }
}

/// The server ends the session, and does not say whether the transaction was committed before; or says itself that it is not known.
#[tokio::test]
async fn an_answer_to_commit_that_does_not_tell_leaves_doubt() {
    admin("create table pg_bye (id int)");
    let pool = pool().await;
    for complaint in [
        "perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(30)",
        "raise exception 'who knows' using errcode = '40003'",
        "raise exception 'who knows' using errcode = '08007'",
    ] {
        admin(&format!(
            "create or replace function pg_bye() returns trigger language plpgsql as $$ begin {complaint}; return null; end $$; \
             drop trigger if exists pg_bye on pg_bye; create constraint trigger pg_bye after insert on pg_bye \
             deferrable initially deferred for each row execute function pg_bye()"
        ));
        let done = optimistic(&pool).run(async |mut tx| {
            sqlx::query("insert into pg_bye values (1)").execute(&mut *tx).await?;
            Ok(())
        });
        let done = done.await;
        assert!(matches!(done, Err(Error::InDoubt(_))), "{complaint}: {done:?}");
    }
}

/// Each reads what the other one writes. The first to commit wins, and the other one is told at its end.
#[tokio::test]
async fn a_write_skew_that_shows_at_the_end_is_run_again() {
    admin(
        "create table pg_skew (id int primary key, n int not null); insert into pg_skew values (1, 10), (2, 10)",
    );
    let pool = pool().await;
    let skew = async |tx: &mut sqlx::PgConnection, read: i32, write: i32| -> sqlx::Result<i32> {
        sqlx::query("set transaction isolation level serializable").execute(&mut *tx).await?;
        let n =
            sqlx::query_scalar("select n from pg_skew where id = $1").bind(read).fetch_one(&mut *tx).await?;
        sqlx::query("update pg_skew set n = n - 1 where id = $1").bind(write).execute(&mut *tx).await?;
        Ok(n)
    };
    let seen = Mutex::new(Vec::new());
    let done = optimistic(&pool).run(async |mut tx| {
        let n = skew(&mut tx, 1, 2).await?;
        seen.lock().unwrap().push(n);
        if n == 10 {
            let mut other = pool.begin().await?;
            skew(&mut other, 2, 1).await?;
            other.commit().await?;
        }
        Ok(())
    });
    done.await.unwrap();
    assert_eq!(seen.into_inner().unwrap(), [10, 9]);
}

#[tokio::test]
async fn a_session_that_is_ended_by_somebody_is_an_error_of_the_database_and_not_run_again() {
    let pool = pool().await;
    let runs = Mutex::new(0);
    let done = optimistic(&pool).run(async |mut tx| {
        *runs.lock().unwrap() += 1;
        let me: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut *tx).await?;
        admin(&format!("select pg_terminate_backend({me}, 30000)"));
        Ok(())
    });
    let done = done.await;
    assert!(matches!(done, Err(Error::Sql(_))), "{done:?}");
    assert_eq!(runs.into_inner().unwrap(), 1);
}
