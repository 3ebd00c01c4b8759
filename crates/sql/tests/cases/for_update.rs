use std::time::Duration;

use bramah_core::Clock;
use bramah_sql::{Error, Result, Strength, Wait, for_update};

use crate::on::{Pool, admin, pool, q};

async fn table(name: &str) -> Pool {
    admin(&format!("create table {name} (id int primary key, n int not null)"));
    admin(&format!("insert into {name} values (1, 10), (2, 20), (3, 30)"));
    pool().await
}

/// Tries to lock row 1 in a transaction of its own.
async fn ask(pool: &Pool, table: &str, strength: Strength, wait: Wait) -> Result<Option<(i32,)>> {
    let mut tx = pool.begin().await?;
    let select = for_update(&mut tx, q(&format!("select n from {table} where id = $1"))).bind(1);
    let row = select.strength(strength).wait(wait).fetch_optional().await;
    tx.rollback().await?;
    row
}

#[tokio::test]
async fn a_row_is_locked_until_the_end_of_the_transaction() {
    let pool = table("lock_held").await;
    let mut tx = pool.begin().await.unwrap();
    let row: (i32,) =
        for_update(&mut tx, q("select n from lock_held where id = $1")).bind(1).fetch_one().await.unwrap();
    assert_eq!(row, (10,));
    let began = Clock::boot().now();
    let asked = ask(&pool, "lock_held", Strength::Update, Wait::No).await;
    assert!(matches!(asked, Err(Error::Busy(_))), "{asked:?}");
    let asked = ask(&pool, "lock_held", Strength::Update, Wait::AtMost(Duration::ZERO)).await;
    assert!(matches!(asked, Err(Error::Busy(_))), "{asked:?}");
    // MariaDB would wait for 50 seconds, and PostgreSQL for ever.
    assert!(Clock::boot().now().since(began) < Duration::from_secs(40));
    tx.commit().await.unwrap();
    assert_eq!(ask(&pool, "lock_held", Strength::Update, Wait::No).await.unwrap(), Some((10,)));
}

#[tokio::test]
async fn a_write_of_somebody_else_waits_for_the_lock() {
    let pool = table("lock_write").await;
    let mut tx = pool.begin().await.unwrap();
    for_update(&mut tx, q("select n from lock_write where id = 1")).fetch_one::<(i32,)>().await.unwrap();
    let other = pool.clone();
    let writer = tokio::spawn(async move {
        sqlx::query(q("update lock_write set n = n + 1 where id = 1")).execute(&other).await.unwrap();
    });
    // What was read is what is there when it is written.
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(!writer.is_finished());
    }
    sqlx::query(q("update lock_write set n = 100 where id = 1")).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    writer.await.unwrap();
    assert_eq!(admin("select n from lock_write where id = 1"), "101");
}

#[tokio::test]
async fn locked_rows_are_passed_over_on_request() {
    let pool = table("lock_skip").await;
    let select = "select id from lock_skip order by id limit 2";
    let (mut first, mut second) = (pool.begin().await.unwrap(), pool.begin().await.unwrap());
    let held: Vec<(i32,)> = for_update(&mut first, q(select)).skip_locked().fetch_all().await.unwrap();
    assert_eq!(held, [(1,), (2,)]);
    let left: Vec<(i32,)> = for_update(&mut second, q(select)).skip_locked().fetch_all().await.unwrap();
    assert_eq!(left, [(3,)]);
    let mut third = pool.begin().await.unwrap();
    let none: Option<(i32,)> =
        for_update(&mut third, q(select)).skip_locked().fetch_optional().await.unwrap();
    assert_eq!(none, None);
}

#[tokio::test]
async fn patience_ends_after_the_time_out() {
    let pool = table("lock_time_out").await;
    let mut tx = pool.begin().await.unwrap();
    for_update(&mut tx, q("select n from lock_time_out where id = 1")).fetch_one::<(i32,)>().await.unwrap();
    let began = Clock::boot().now();
    let asked = ask(&pool, "lock_time_out", Strength::Update, Wait::AtMost(Duration::from_secs(1))).await;
    let waited = Clock::boot().now().since(began);
    assert!(matches!(asked, Err(Error::Busy(_))), "{asked:?}");
    assert!((Duration::from_millis(900)..Duration::from_secs(40)).contains(&waited), "{waited:?}");
}

#[tokio::test]
async fn patience_that_is_long_enough_gets_the_row() {
    let pool = table("lock_patient").await;
    let mut tx = pool.begin().await.unwrap();
    for_update(&mut tx, q("select n from lock_patient where id = 1")).fetch_one::<(i32,)>().await.unwrap();
    let other = pool.clone();
    let patient = tokio::spawn(async move {
        ask(&other, "lock_patient", Strength::Update, Wait::AtMost(Duration::from_secs(60))).await
    });
    sqlx::query(q("update lock_patient set n = 11 where id = 1")).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(patient.await.unwrap().unwrap(), Some((11,)));
}

#[tokio::test]
async fn readers_share_and_writers_do_not() {
    let pool = table("lock_share").await;
    let mut tx = pool.begin().await.unwrap();
    let shared = for_update(&mut tx, q("select n from lock_share where id = 1")).strength(Strength::Share);
    shared.fetch_one::<(i32,)>().await.unwrap();
    let ways = [Wait::Server, Wait::No, Wait::Skip, Wait::AtMost(Duration::from_secs(60))];
    for wait in ways {
        let shared = ask(&pool, "lock_share", Strength::Share, wait).await;
        assert!(matches!(shared, Ok(Some((10,)))), "{wait:?}: {shared:?}");
    }
    let written = ask(&pool, "lock_share", Strength::Update, Wait::No).await;
    assert!(matches!(written, Err(Error::Busy(_))), "{written:?}");
}

#[tokio::test]
async fn a_row_that_is_not_there_is_missing_and_not_busy() {
    let pool = table("lock_missing").await;
    let mut tx = pool.begin().await.unwrap();
    let row = for_update(&mut tx, q("select n from lock_missing where id = 99")).fetch_one::<(i32,)>().await;
    assert!(matches!(row, Err(Error::Missing)), "{row:?}");
    let rows = for_update(&mut tx, q("select n from lock_missing where id = 99")).fetch_all::<(i32,)>().await;
    assert!(rows.unwrap().is_empty());
}

#[tokio::test]
async fn a_select_may_end_in_a_semicolon_or_a_comment() {
    let pool = table("lock_ends").await;
    for select in
        ["select n from lock_ends where id = 1;\n", "select n from lock_ends where id = 1 -- the first"]
    {
        let mut tx = pool.begin().await.unwrap();
        for_update(&mut tx, q(select)).fetch_one::<(i32,)>().await.unwrap();
        let asked = ask(&pool, "lock_ends", Strength::Update, Wait::No).await;
        assert!(matches!(asked, Err(Error::Busy(_))), "{asked:?}");
    }
}

#[tokio::test]
async fn an_error_in_the_text_is_told_in_one_line() {
    let pool = table("lock_error").await;
    let mut tx = pool.begin().await.unwrap();
    let row = for_update(&mut tx, q("selec n from lock_error")).nowait().fetch_one::<(i32,)>().await;
    let Err(why @ Error::Sql(_)) = row else { panic!("{row:?}") };
    assert!(!why.to_string().contains('\n'), "{why}");
}
