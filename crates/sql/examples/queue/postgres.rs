//! Jobs on PostgreSQL.

use bramah_sql::{Result, for_update, optimistic};
use sqlx::PgPool;

use super::Worker;

pub(super) async fn run(url: &str, worker: &Worker) -> Result<usize> {
    let pool = PgPool::connect(url).await?;
    worker.ready();
    let mut jobs = 0;
    loop {
        if one(&pool, worker).await? {
            jobs += 1;
            continue;
        }
        let left = sqlx::query_scalar("select count(*) from t_job where done_by is null");
        let left: i64 = left.fetch_one(&pool).await?;
        if left == 0 {
            return Ok(jobs);
        }
        worker.idle().await;
    }
}

/// Does the next job that nobody else is at, if there is one.
async fn one(pool: &PgPool, worker: &Worker) -> Result<bool> {
    optimistic(pool)
        .run(async |mut tx| {
            let next = for_update(&mut tx, "select id from t_job where done_by is null order by id limit 1");
            let Some((job,)) = next.skip_locked().fetch_optional::<(i32,)>().await? else { return Ok(false) };
            worker.work(job).await;
            let result = sqlx::query("insert into t_result (job, worker) values ($1, $2)");
            result.bind(job).bind(&worker.name).execute(&mut *tx).await?;
            let done = sqlx::query("update t_job set done_by = $1 where id = $2");
            done.bind(&worker.name).bind(job).execute(&mut *tx).await?;
            Ok(true)
        })
        .await
}
