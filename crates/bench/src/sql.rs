//! Locks in databases against two bare transactions over the same connections, by turns.

use std::{
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah::{Clock, Session};
use bramah_lab::Postgres;
use bramah_relational::{Manners, Pool};
use sqlx::{PgConnection, postgres::PgConnectOptions};

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
        let server = Postgres::start()?;
        runtime()?.block_on(postgres(scores, &server, rounds()?))
    })
}

/// Two transactions of one row each: the least that a lock and its release can be, with the same durability.
#[derive(Clone)]
struct Bare {
    pool: Arc<Pool<PgConnection>>,
    number: usize,
}

impl Pairs for Bare {
    async fn pair(&mut self) -> Result<()> {
        let n = self.number;
        for text in [format!("INSERT INTO bare VALUES ({n})"), format!("DELETE FROM bare WHERE id = {n}")] {
            self.pool.query(text, PATIENCE).await.map_err(|trouble| format!("{trouble:?}"))?;
        }
        Ok(())
    }
}

async fn postgres(scores: &mut Scores, server: &Postgres, rounds: usize) -> Result<()> {
    bramah::init(&server.url()).await.map_err(text)?;
    let session = bramah::connect(&server.url()).await.map_err(text)?;
    let options: PgConnectOptions = server.url().parse().map_err(text)?;
    let pool = Arc::new(Pool::new(
        options,
        CONNECTIONS,
        Duration::from_secs(60),
        Duration::from_secs(5),
        Manners::NONE,
    ));
    let made = pool.query("CREATE TABLE bare (id bigint PRIMARY KEY)".into(), PATIENCE).await;
    made.map_err(|trouble| format!("{trouble:?}"))?;
    scores.heading(&format!(
        "PostgreSQL {}: lock + release of names that nobody else wants, {TASKS} tasks, {CONNECTIONS} connections, {rounds} \
         interleaved rounds",
        server.version()
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
    scores.goal(
        "S1",
        "pairs/s over two bare transactions, 32 tasks, PostgreSQL",
        &ours.over(&bare),
        Goal::AtLeast(0.6),
    );
    Ok(())
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
