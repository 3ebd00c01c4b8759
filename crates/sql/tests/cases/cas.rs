use bramah_sql::{Error, Result, cas, optimistic};
use sqlx::Connection;

use crate::on::{Pool, admin, pool, q};

async fn table(name: &str) -> Pool {
    admin(&format!("create table {name} (id int primary key, n int not null, version bigint not null)"));
    admin(&format!("insert into {name} values (1, 10, 0), (2, 20, 0)"));
    pool().await
}

/// Reads row 1, lets `meanwhile` happen to it, and then writes it by the version that was read.
async fn read_and_write(pool: &Pool, table: &str, meanwhile: &str) -> Result<()> {
    let mut tx = pool.begin().await?;
    let read = q(&format!("select version from {table} where id = 1"));
    let version: i64 = sqlx::query_scalar(read).fetch_one(&mut *tx).await?;
    if !meanwhile.is_empty() {
        admin(meanwhile);
    }
    cas(
        &mut tx,
        q(&format!("update {table} set n = $1, version = version + 1 where id = $2 and version = $3")),
    )
    .bind(11)
    .bind(1)
    .version(version)
    .probe(q(&format!("select version from {table} where id = $1")))
    .bind(1)
    .execute()
    .await?;
    Ok(tx.commit().await?)
}

#[tokio::test]
async fn a_row_in_the_version_that_was_read_is_written() {
    let pool = table("cas_plain").await;
    read_and_write(&pool, "cas_plain", "").await.unwrap();
    read_and_write(&pool, "cas_plain", "").await.unwrap();
    assert_eq!(admin("select version from cas_plain where id = 1 and n = 11"), "2");
    assert_eq!(admin("select version from cas_plain where id = 2 and n = 20"), "0");
}

#[tokio::test]
async fn a_row_that_was_written_meanwhile_is_a_conflict_with_both_versions() {
    let pool = table("cas_conflict").await;
    let meanwhile = "update cas_conflict set n = 7, version = version + 1 where id = 1";
    let written = read_and_write(&pool, "cas_conflict", meanwhile).await;
    assert!(matches!(written, Err(Error::Conflict { expected: 0, actual: 1 })), "{written:?}");
    assert_eq!(admin("select n from cas_conflict where id = 1"), "7", "the write of the other one is there");
}

#[tokio::test]
async fn a_row_that_was_deleted_meanwhile_is_missing() {
    let pool = table("cas_missing").await;
    let written = read_and_write(&pool, "cas_missing", "delete from cas_missing where id = 1").await;
    assert!(matches!(written, Err(Error::Missing)), "{written:?}");
}

#[tokio::test]
async fn another_condition_that_does_not_hold_is_no_conflict_and_not_tried_again() {
    let pool = table("cas_unmatched").await;
    let mut runs = 0;
    let written = optimistic(&pool)
        .run(|mut tx| {
            runs += 1;
            async move {
                cas(
                &mut tx,
                q("update cas_unmatched set version = version + 1 where id = $1 and version = $2 and n > 50"),
            )
            .bind(1)
            .version(0)
            .probe(q("select version from cas_unmatched where id = $1"))
            .bind(1)
            .execute()
            .await
            }
        })
        .await;
    assert!(matches!(written, Err(Error::Unmatched { known: 0 })), "{written:?}");
    assert_eq!(runs, 1);
}

#[tokio::test]
async fn a_write_to_two_rows_is_refused_and_rolled_back() {
    let pool = table("cas_two").await;
    let written = optimistic(&pool)
        .run(async |mut tx| {
            cas(&mut tx, q("update cas_two set version = version + 1 where version = $1"))
                .version(0)
                .probe(q("select 0"))
                .execute()
                .await
        })
        .await;
    assert!(matches!(written, Err(Error::TooMany { rows: 2 })), "{written:?}");
    assert_eq!(admin("select sum(version) from cas_two"), "0");
}

#[tokio::test]
async fn a_version_that_was_not_given_is_refused_before_anything_is_sent() {
    let pool = table("cas_misuse").await;
    let mut connection = pool.acquire().await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    let update = cas(&mut tx, q("update cas_misuse set n = 99")).probe(q("select version from cas_misuse"));
    let written = update.execute().await;
    assert!(matches!(written, Err(Error::Misuse(_))), "{written:?}");
    tx.commit().await.unwrap();
    assert_eq!(admin("select count(*) from cas_misuse where n = 99"), "0");
}

#[tokio::test]
async fn a_version_may_be_a_short_integer() {
    let pool = table("cas_short").await;
    for width in ["smallint", "int", "bigint"] {
        let table = format!("cas_short_{width}");
        admin(&format!(
            "create table {table} (id int primary key, n int not null, version {width} not null)"
        ));
        admin(&format!("insert into {table} values (1, 10, 5)"));
        let mut tx = pool.begin().await.unwrap();
        let update = format!("update {table} set n = 1, version = version + 1 where id = 1 and version = $1");
        let update = cas(&mut tx, q(&update)).version(3);
        let written = update.probe(q(&format!("select version from {table} where id = 1"))).execute().await;
        assert!(matches!(written, Err(Error::Conflict { expected: 3, actual: 5 })), "{width}: {written:?}");
    }
}

#[tokio::test]
async fn a_version_that_is_null_is_told() {
    let pool = table("cas_null").await;
    admin(
        "create table cas_nullable (id int primary key, version int); insert into cas_nullable values (1, null)",
    );
    let mut tx = pool.begin().await.unwrap();
    let update =
        cas(&mut tx, q("update cas_nullable set version = 1 where id = 1 and version = $1")).version(0);
    let written = update.probe(q("select version from cas_nullable where id = 1")).execute().await;
    assert!(matches!(written, Err(Error::Misuse(_))), "{written:?}");
}
