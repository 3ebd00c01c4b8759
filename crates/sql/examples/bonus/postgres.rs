//! Claims on PostgreSQL.

use std::{error::Error, sync::Arc, time::Duration};

use bramah_sql::{Result, cas, optimistic, with_row};
use sqlx::{PgPool, postgres::PgPoolOptions};
use tokio::sync::Barrier;

use super::{Way, count, start};

pub(super) async fn run(url: &str, way: Way, claims: usize) -> Result<usize, Box<dyn Error + Send + Sync>> {
    // Many claims share few connections, and the last of them waits for long.
    let options = PgPoolOptions::new().max_connections(8).acquire_timeout(Duration::from_secs(120));
    let pool = options.connect(url).await?;
    start().await?;
    Ok(count(claims, |barrier| claim(pool.clone(), way, barrier)).await?)
}

async fn claim(pool: PgPool, way: Way, barrier: Arc<Barrier>) -> Result<bool> {
    match way {
        Way::Optimistic => optimistically(&pool).await,
        Way::Pessimistic => pessimistically(&pool).await,
        Way::Naive => naively(&pool, &barrier).await,
    }
}

async fn optimistically(pool: &PgPool) -> Result<bool> {
    // Everybody wants the same row, so this is the worst case for it: each success is a conflict for all others.
    optimistic(pool)
        .tries(1000)
        .run(async |mut tx| {
            let (left, version): (i32, i64) =
                sqlx::query_as("select left_count, version from t_bonus where id = 1")
                    .fetch_one(&mut *tx)
                    .await?;
            if left == 0 {
                return Ok(false);
            }
            cas(
                &mut tx,
                "update t_bonus set left_count = $1, version = version + 1 where id = 1 and version = $2",
            )
            .bind(left - 1)
            .version(version)
            .probe("select version from t_bonus where id = 1")
            .execute()
            .await?;
            Ok(true)
        })
        .await
}

async fn pessimistically(pool: &PgPool) -> Result<bool> {
    with_row(pool, "select left_count from t_bonus where id = 1")
        .run(async |mut tx, (left,): (i32,)| {
            if left == 0 {
                return Ok(false);
            }
            let update = sqlx::query("update t_bonus set left_count = $1 where id = 1").bind(left - 1);
            update.execute(&mut *tx).await?;
            Ok(true)
        })
        .await
}

/// Wrong: what was read is old by the time it is written.
async fn naively(pool: &PgPool, barrier: &Barrier) -> Result<bool> {
    let read = sqlx::query_scalar("select left_count from t_bonus where id = 1");
    let left: i32 = read.fetch_one(pool).await?;
    // Without it the bug would show now and then. With it, always.
    barrier.wait().await;
    if left == 0 {
        return Ok(false);
    }
    let update = sqlx::query("update t_bonus set left_count = $1 where id = 1").bind(left - 1);
    update.execute(pool).await?;
    Ok(true)
}
