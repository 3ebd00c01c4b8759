use bramah_core::Fence;
use bramah_sql::{Error, Result, fenced};

use crate::on::{Pool, admin, pool, q};

async fn table(name: &str) -> Pool {
    admin(&format!(
        "create table {name} (id int primary key, balance int not null, fence bigint not null default 0)"
    ));
    admin(&format!("insert into {name} (id, balance) values (1, 100), (2, 200)"));
    pool().await
}

/// Both parameters for the fence are bound by themselves, as MySQL wants it, and PostgreSQL does not mind.
async fn write(pool: &Pool, table: &str, id: i32, fence: u64, balance: i32) -> Result<()> {
    let mut tx = pool.begin().await?;
    let update = format!("update {table} set balance = $1, fence = $2 where id = $3 and fence <= $4");
    fenced(&mut tx, Fence::new(fence), q(&update))
        .bind(balance)
        .fence()
        .bind(id)
        .fence()
        .probe(q(&format!("select fence from {table} where id = $1")))
        .bind(id)
        .execute()
        .await?;
    Ok(tx.commit().await?)
}

#[tokio::test]
async fn a_holder_writes_as_often_as_it_likes_and_the_next_one_too() {
    let pool = table("fenced_plain").await;
    for (fence, balance) in [(5, 90), (5, 80), (9, 70)] {
        write(&pool, "fenced_plain", 1, fence, balance).await.unwrap();
    }
    assert_eq!(admin("select fence from fenced_plain where id = 1 and balance = 70"), "9");
    assert_eq!(admin("select fence from fenced_plain where id = 2 and balance = 200"), "0");
}

#[tokio::test]
async fn a_holder_that_lost_the_lock_is_refused_and_changes_nothing() {
    let pool = table("fenced_stale").await;
    write(&pool, "fenced_stale", 1, 9, 70).await.unwrap();
    let written = write(&pool, "fenced_stale", 1, 8, 0).await;
    let Err(Error::Stale { held, known }) = written else { panic!("{written:?}") };
    assert_eq!((held, known), (Fence::new(8), Fence::new(9)));
    assert_eq!(admin("select fence from fenced_stale where id = 1 and balance = 70"), "9");
}

#[tokio::test]
async fn a_row_that_is_not_there_is_missing() {
    let pool = table("fenced_missing").await;
    let written = write(&pool, "fenced_missing", 3, 9, 70).await;
    assert!(matches!(written, Err(Error::Missing)), "{written:?}");
}

#[tokio::test]
async fn a_statement_without_the_fence_is_refused_before_anything_is_sent() {
    let pool = table("fenced_misuse").await;
    let mut tx = pool.begin().await.unwrap();
    let update =
        fenced(&mut tx, Fence::new(9), q("update fenced_misuse set balance = 0 where id = $1")).bind(1);
    let written = update.probe(q("select fence from fenced_misuse where id = 1")).execute().await;
    assert!(matches!(written, Err(Error::Misuse(_))), "{written:?}");
    let too_large =
        fenced(&mut tx, Fence::new(u64::MAX), q("update fenced_misuse set fence = $1 where id = 1"));
    let written = too_large.fence().probe(q("select fence from fenced_misuse where id = 1")).execute().await;
    assert!(matches!(written, Err(Error::Misuse(_))), "{written:?}");
    tx.commit().await.unwrap();
    assert_eq!(admin("select sum(balance) from fenced_misuse"), "300");
}
