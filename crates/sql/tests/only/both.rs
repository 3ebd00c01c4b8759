//! What MySQL and MariaDB alone have.

use bramah_sql::{Error, Strength, cas, for_update, optimistic};

use crate::{
    on::{Pool, admin, pool},
    server::server,
};

/// sqlx asks for the rows that matched. The server's own client counts the ones that changed.
#[tokio::test]
async fn a_row_counts_if_it_matched_also_if_it_did_not_change() {
    admin("create table my_found (id int primary key, n int); insert into my_found values (1, 10)");
    let pool = pool().await;
    let update = "update my_found set n = 10 where id = 1";
    assert_eq!(sqlx::query(update).execute(&pool).await.unwrap().rows_affected(), 1);
    assert_eq!(admin(&format!("{update}; select row_count()")), "0");
    // With a version that is raised both count the same.
    admin("alter table my_found add version int not null default 0");
    let update = "update my_found set n = 10, version = version + 1 where id = 1";
    assert_eq!(sqlx::query(update).execute(&pool).await.unwrap().rows_affected(), 1);
    assert_eq!(admin(&format!("{update}; select row_count()")), "1");
}

/// Two writers that have both read version 0.
async fn both_write(pool: &Pool, update: &'static str) -> [bramah_sql::Result<()>; 2] {
    let write = async |n: i32| {
        let mut tx = pool.begin().await?;
        let update = cas(&mut tx, update).bind(n).version(0);
        update.probe("select version from my_raised where id = 1").execute().await?;
        Ok(tx.commit().await?)
    };
    [write(1).await, write(2).await]
}

#[tokio::test]
async fn a_version_that_is_not_raised_is_no_guard() {
    admin("create table my_raised (id int primary key, n int not null, version int not null)");
    admin("insert into my_raised values (1, 0, 0)");
    let pool = pool().await;
    let lost = both_write(&pool, "update my_raised set n = ? where id = 1 and version = ?").await;
    assert!(matches!(lost, [Ok(()), Ok(())]), "{lost:?}");
    let guarded = "update my_raised set n = ?, version = version + 1 where id = 1 and version = ?";
    let told = both_write(&pool, guarded).await;
    assert!(matches!(told, [Ok(()), Err(Error::Conflict { expected: 0, actual: 1 })]), "{told:?}");
}

#[tokio::test]
async fn a_version_may_be_unsigned() {
    admin("create table my_unsigned (id int primary key, version bigint unsigned not null)");
    admin("insert into my_unsigned values (1, 7)");
    let pool = pool().await;
    let mut tx = pool.begin().await.unwrap();
    let update = cas(&mut tx, "update my_unsigned set version = version + 1 where id = 1 and version = ?");
    let written = update.version(6).probe("select version from my_unsigned where id = 1").execute().await;
    assert!(matches!(written, Err(Error::Conflict { expected: 6, actual: 7 })), "{written:?}");
}

#[tokio::test]
async fn strengths_of_postgres_are_refused() {
    admin("create table my_strength (id int primary key); insert into my_strength values (1)");
    let pool = pool().await;
    let mut tx = pool.begin().await.unwrap();
    for strength in [Strength::NoKeyUpdate, Strength::KeyShare] {
        let asked = for_update(&mut tx, "select id from my_strength").strength(strength);
        let asked = asked.fetch_one::<(i32,)>().await;
        let Err(Error::Unsupported { server, .. }) = &asked else { panic!("{asked:?}") };
        assert!(server.contains("10.") || server.contains("8.") || server.contains("9."), "{server}");
    }
}

/// A duplicate ends the statement alone, so the closure may keep it to itself.
#[tokio::test]
async fn an_error_that_ends_a_statement_alone_may_be_kept() {
    admin("create table my_kept (id int primary key); insert into my_kept values (1)");
    let pool = pool().await;
    let done = optimistic(&pool)
        .run(async |mut tx| {
            sqlx::query("insert into my_kept values (2)").execute(&mut *tx).await?;
            let duplicate = sqlx::query("insert into my_kept values (1)").execute(&mut *tx).await;
            assert!(duplicate.is_err());
            Ok(())
        })
        .await;
    done.unwrap();
    assert_eq!(admin("select count(*) from my_kept"), "2");
}

#[tokio::test]
async fn a_statement_that_commits_by_itself_is_told() {
    let pool = pool().await;
    let done = optimistic(&pool).run(async |mut tx| {
        sqlx::query("create table my_ddl (id int primary key)").execute(&mut *tx).await?;
        Ok(())
    });
    let done = done.await;
    assert!(matches!(done, Err(Error::Ended(_))), "{done:?}");
}

/// It refuses the commit, and has rolled back. A server of its own: others would be refused too.
#[tokio::test]
async fn a_server_that_became_read_only_leaves_no_doubt() {
    let server = bramah_lab::MariaDb::of(server().flavor(), &[]).unwrap();
    server.sql_as_user("create table my_read_only (id int primary key)").unwrap();
    let pool = sqlx::MySqlPool::connect(&server.url()).await.unwrap();
    let done = optimistic(&pool).run(async |mut tx| {
        sqlx::query("insert into my_read_only values (1)").execute(&mut *tx).await?;
        server.sql("set global read_only = on").map_err(Error::other)?;
        Ok(())
    });
    let done = done.await;
    let Err(Error::Sql(why)) = &done else { panic!("{done:?}") };
    assert!(why.to_string().contains("read-only"), "{why}");
    assert_eq!(server.sql("select count(*) from my_read_only").unwrap(), "0");
}
