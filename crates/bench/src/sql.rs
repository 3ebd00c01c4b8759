//! Locks in databases against two bare transactions over the same connections, by turns.

mod bonus;
mod crowd;

use std::{
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah::{Clock, Session};
use bramah_lab::{MariaDb, Postgres};
use bramah_relational::{Manners, Pool};
use sqlx::{Connection, Executor, MySqlConnection, PgConnection};

use crate::{
    drive::{Locked, Pairs, Result, drive, runtime, text},
    scores::{Goal, Rounds, Scores, report, rounds},
};

const TASKS: usize = 32;
/// Everybody has as many connections as ours has if nobody says.
const CONNECTIONS: usize = 8;
const SPAN: Duration = Duration::from_millis(1500);
/// How many hand-overs of one lock are timed in a round.
const HANDOVERS: usize = 400;
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn run() -> ExitCode {
    report(|scores| {
        let (rounds, runtime) = (rounds()?, runtime()?);
        let server = Postgres::start()?;
        let name = format!("PostgreSQL {}", server.version());
        let session = runtime.block_on(compare::<PgConnection>(scores, &name, &server.url(), rounds))?;
        runtime.block_on(bonus::run(scores, &server, &session, rounds))?;
        drop((session, server));
        let server = MariaDb::start()?;
        let name = format!("MariaDB {}", server.version());
        runtime.block_on(compare::<MySqlConnection>(scores, &name, &server.url(), rounds)).map(drop)
    })
}

/// Long lines in databases.
pub(crate) fn run_crowd() -> ExitCode {
    report(crowd::run)
}

pub(crate) use crowd::{ENVIRONMENT as WAITERS, wait};

/// Two transactions of one row each: the least that a lock and its release can be, with the same durability.
struct Bare<C: Connection> {
    pool: Arc<Pool<C>>,
    number: usize,
}

impl<C> Pairs for Bare<C>
where
    C: Connection + 'static,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
{
    async fn pair(&mut self) -> Result<()> {
        let n = self.number;
        query(&self.pool, format!("INSERT INTO bare VALUES ({n})")).await?;
        query(&self.pool, format!("DELETE FROM bare WHERE id = {n}")).await
    }
}

async fn query<C>(pool: &Arc<Pool<C>>, text: String) -> Result<()>
where
    C: Connection + 'static,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
{
    pool.query(text, PATIENCE).await.map(drop).map_err(|trouble| format!("{trouble:?}"))
}

/// Ours and the bare transactions by turns, and how long a lock takes from one to the next.
async fn compare<C>(scores: &mut Scores, server: &str, url: &str, rounds: usize) -> Result<Session>
where
    C: Connection + 'static,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
{
    bramah::init(url).await.map_err(text)?;
    let session = bramah::connect(url).await.map_err(text)?;
    let options = url.parse().map_err(text)?;
    let (rest, patience) = (Duration::from_secs(60), Duration::from_secs(5));
    let pool = Arc::new(Pool::<C>::new(options, CONNECTIONS, rest, patience, Manners::NONE));
    query(&pool, "CREATE TABLE bare (id bigint PRIMARY KEY)".into()).await?;
    scores.heading(&format!(
        "{server}: lock + release of names that nobody else wants, {TASKS} tasks, {CONNECTIONS} connections, {rounds} interleaved \
         rounds"
    ));
    let [mut bare, mut ours, mut gap, mut far] = [const { Rounds::new() }; 4];
    for _ in 0..rounds {
        let workers = (0..TASKS).map(|number| Bare { pool: pool.clone(), number }).collect();
        bare.push(drive(workers, SPAN).await?.rate());
        let driven = drive(Locked::workers(&session, TASKS)?, SPAN).await?;
        Locked::check(&driven.workers, scores);
        ours.push(driven.rate());
        let gaps = handovers(&session).await?;
        gap.push(gaps[gaps.len() / 2]);
        far.push(gaps[gaps.len() * 99 / 100]);
    }
    scores.figure("two transactions of one row, pairs a second", &bare, "");
    scores.figure("bramah, pairs a second", &ours, "");
    scores.figure("from a release to the next grant, one lock, 16 tasks, p50", &gap, "ms");
    scores.figure("  p99", &far, "ms");
    let what = format!("pairs/s over two bare transactions, {TASKS} tasks, {server}");
    scores.goal("S1", &what, &ours.over(&bare), Goal::AtLeast(0.6));
    Ok(session)
}

/// The times from the beginning of a release to the next grant, sorted, in milliseconds.
async fn handovers(session: &Session) -> Result<Vec<f64>> {
    let (clock, count) = (Clock::boot(), Arc::new(AtomicU64::new(0)));
    let times: Arc<Mutex<(u64, Vec<f64>)>> = Arc::default();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (session, clock, times, count) = (session.clone(), clock.clone(), times.clone(), count.clone());
        tasks.spawn(async move {
            let mutex = session.mutex("handover").map_err(text)?;
            while count.fetch_add(1, Ordering::Relaxed) < HANDOVERS as u64 {
                let guard = mutex.lock().await.map_err(text)?;
                let now = clock.now().ns();
                if let Ok(mut times) = times.lock() {
                    if times.0 > 0 {
                        let gap = now.saturating_sub(times.0) as f64 / 1e6;
                        times.1.push(gap);
                    }
                    times.0 = clock.now().ns();
                }
                guard.release().await;
            }
            Ok::<_, String>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.map_err(text)??;
    }
    let mut gaps = times.lock().map_err(text)?.1.clone();
    gaps.sort_by(f64::total_cmp);
    Ok(gaps)
}
