use bramah_sql::{Error, Result, Strength, with_row};
use tokio::sync::oneshot;

use crate::on::{Pool, admin, pool, q};

async fn table(name: &str) -> Pool {
    admin(&format!("create table {name} (id int primary key, n int not null)"));
    admin(&format!("insert into {name} values (1, 10), (2, 20)"));
    pool().await
}

/// Adds to row 1, and then does as it is told.
async fn add(pool: &Pool, table: &str, end: Result<()>) -> Result<i32> {
    with_row(pool, q(&format!("select n from {table} where id = $1")))
        .bind(1)
        .run(async |mut tx, (n,): (i32,)| {
            let update = q(&format!("update {table} set n = $1 where id = 1"));
            sqlx::query(update).bind(n + 1).execute(&mut *tx).await?;
            end.map(|()| n + 1)
        })
        .await
}

#[tokio::test]
async fn what_was_done_with_a_row_is_committed() {
    let pool = table("row_plain").await;
    assert_eq!(add(&pool, "row_plain", Ok(())).await.unwrap(), 11);
    assert_eq!(admin("select n from row_plain where id = 1"), "11");
}

#[tokio::test]
async fn many_that_add_to_a_row_lose_nothing() {
    let pool = table("row_many").await;
    let tasks: Vec<_> = (0..40)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { add(&pool, "row_many", Ok(())).await.unwrap() })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(admin("select n from row_many where id = 1"), "50");
}

#[tokio::test]
async fn an_error_rolls_back() {
    let pool = table("row_error").await;
    let done = add(&pool, "row_error", Err(Error::other("no"))).await;
    assert_eq!(done.unwrap_err().to_string(), "no");
    assert_eq!(admin("select n from row_error where id = 1"), "10");
}

#[tokio::test]
async fn no_row_and_several_rows_are_refused_before_the_work() {
    let pool = table("row_count").await;
    let ask = async |select: &str| {
        with_row(&pool, q(select))
            .run(async |_, (_,): (i32,)| -> Result<()> { panic!("there is no one row") })
            .await
    };
    let none = ask("select n from row_count where id = 99").await;
    assert!(matches!(none, Err(Error::Missing)), "{none:?}");
    let both = ask("select n from row_count").await;
    assert!(matches!(both, Err(Error::TooMany { rows: 2 })), "{both:?}");
}

#[tokio::test]
async fn a_row_that_is_locked_is_busy_and_dropped_in_the_middle_it_is_free() {
    let pool = table("row_dropped").await;
    let (locked, is_locked) = oneshot::channel();
    let other = pool.clone();
    let holder = tokio::spawn(async move {
        with_row(&other, q("select n from row_dropped where id = 1"))
            .run(async |mut tx, (_,): (i32,)| {
                sqlx::query(q("update row_dropped set n = 0 where id = 1")).execute(&mut *tx).await?;
                locked.send(()).unwrap();
                std::future::pending::<Result<()>>().await
            })
            .await
    });
    is_locked.await.unwrap();
    let busy = with_row(&pool, q("select n from row_dropped where id = 1"))
        .strength(Strength::Share)
        .nowait()
        .run(async |_, (_,): (i32,)| Ok(()))
        .await;
    assert!(matches!(busy, Err(Error::Busy(_))), "{busy:?}");
    holder.abort();
    assert!(holder.await.unwrap_err().is_cancelled());
    assert_eq!(add(&pool, "row_dropped", Ok(())).await.unwrap(), 11);
}
