//! A row that many want to count down: optimistic, with the row locked, and under a lock of ours.

use std::time::Duration;

use bramah::{Mutex, Session};
use bramah_lab::Postgres;
use bramah_sql::{cas, optimistic, with_row};
use sqlx::{PgPool, postgres::PgPoolOptions};

use crate::{
    drive::{Pairs, Result, drive, text},
    scores::{Rounds, Scores},
};

const TASKS: usize = 32;
const SPAN: Duration = Duration::from_millis(1500);

/// How the row is kept.
#[derive(Clone, Copy)]
enum Way {
    Optimistic,
    Pessimistic,
    Locked,
}

/// One who takes from rows.
struct Taker {
    pool: PgPool,
    way: Way,
    /// One for each row.
    mutexes: Vec<Mutex>,
}

impl Pairs for Taker {
    async fn pair(&mut self) -> Result<()> {
        let row = fastrand::usize(0..self.mutexes.len());
        let id = i64::try_from(row).map_err(text)?;
        match self.way {
            Way::Optimistic => optimistically(&self.pool, id).await,
            Way::Pessimistic => pessimistically(&self.pool, id).await,
            Way::Locked => {
                let guard = self.mutexes[row].lock().await.map_err(text)?;
                let done = plainly(&self.pool, id).await;
                guard.release().await;
                done
            }
        }
    }
}

async fn optimistically(pool: &PgPool, id: i64) -> Result<()> {
    let take = optimistic(pool).tries(10_000).run(async |mut tx| {
        let (left, version): (i64, i64) =
            sqlx::query_as("select left_count, version from t_bonus where id = $1")
                .bind(id)
                .fetch_one(&mut *tx)
                .await?;
        cas(
            &mut tx,
            "update t_bonus set left_count = $1, version = version + 1 where id = $2 and version = $3",
        )
        .bind(left - 1)
        .bind(id)
        .version(version)
        .probe("select version from t_bonus where id = $1")
        .bind(id)
        .execute()
        .await
    });
    take.await.map_err(text)
}

async fn pessimistically(pool: &PgPool, id: i64) -> Result<()> {
    let take = with_row(pool, "select left_count from t_bonus where id = $1").bind(id).run(
        async |mut tx, (left,): (i64,)| {
            let update =
                sqlx::query("update t_bonus set left_count = $1 where id = $2").bind(left - 1).bind(id);
            update.execute(&mut *tx).await?;
            Ok(())
        },
    );
    take.await.map_err(text)
}

/// What needs somebody to keep the others away: read, then write.
async fn plainly(pool: &PgPool, id: i64) -> Result<()> {
    let read = sqlx::query_scalar("select left_count from t_bonus where id = $1").bind(id);
    let left: i64 = read.fetch_one(pool).await.map_err(text)?;
    let write = sqlx::query("update t_bonus set left_count = $1 where id = $2").bind(left - 1).bind(id);
    write.execute(pool).await.map_err(text).map(drop)
}

pub(super) async fn run(
    scores: &mut Scores,
    server: &Postgres,
    session: &Session,
    rounds: usize,
) -> Result<()> {
    let options = PgPoolOptions::new().max_connections(8).acquire_timeout(Duration::from_secs(60));
    let pool = options.connect(&server.url()).await.map_err(text)?;
    server.sql("create table t_bonus (id bigint primary key, left_count bigint not null, version bigint not null default 0)")?;
    server.sql("grant all on t_bonus to bramah")?;
    for rows in [1_usize, 64] {
        scores.heading(&format!(
            "{TASKS} tasks take from {rows} row(s) of a table of PostgreSQL, 8 connections, {rounds} rounds"
        ));
        let ways = [
            (Way::Optimistic, "optimistic, with a version column, a second"),
            (Way::Pessimistic, "pessimistic, FOR UPDATE, a second"),
            (Way::Locked, "under a lock of ours, a second"),
        ];
        let mut rates = [const { Rounds::new() }; 3];
        for _ in 0..rounds {
            for ((way, _), rate) in ways.iter().zip(&mut rates) {
                let last = rows - 1;
                server.sql(&format!(
                    "truncate t_bonus; insert into t_bonus select n, 1000000 from generate_series(0, {last}) n"
                ))?;
                let mutexes = || {
                    let mutex = |row| session.mutex(format!("bonus/{row}")).map_err(text);
                    (0..rows).map(mutex).collect::<Result<Vec<_>>>()
                };
                let takers: Result<Vec<Taker>> = (0..TASKS)
                    .map(|_| Ok(Taker { pool: pool.clone(), way: *way, mutexes: mutexes()? }))
                    .collect();
                let driven = drive(takers?, SPAN).await?;
                let left: i64 = server.sql("select sum(left_count) from t_bonus")?.parse().map_err(text)?;
                // The warm-up took some as well: nothing may be taken twice, and nothing be lost.
                let taken =
                    u64::try_from(i64::try_from(rows).map_err(text)? * 1_000_000 - left).map_err(text)?;
                scores.check(driven.pairs, u64::from(taken < driven.pairs), 0);
                rate.push(driven.rate());
            }
        }
        for ((_, what), rate) in ways.iter().zip(&rates) {
            scores.figure(what, rate, "");
        }
    }
    Ok(())
}
