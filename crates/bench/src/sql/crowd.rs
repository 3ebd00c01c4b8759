//! One lock in a database, and waiters of four processes: are all served, in order, and what does a long line cost?
//!
//! Each process is this program again, with its orders in an environment variable. Its waiters write down every hold, a line each, in
//! nanoseconds of the boot clock, which is the same to every process of the machine.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use bramah::{Clock, Session};
use bramah_lab::{MariaDb, Postgres, servers::Flavor};

use crate::{
    drive::{Result, runtime, text},
    scores::{Goal, Rounds, Scores},
};

/// Where the orders are: `URL NAME WAITERS`.
pub(crate) const ENVIRONMENT: &str = "BRAMAH_BENCH_WAITERS";

/// How long the lines are.
const LINES: [usize; 4] = [10, 100, 1_000, 5_000];
const PROCESSES: usize = 4;
/// How long it is watched what idle waiters cost.
const IDLE: Duration = Duration::from_secs(10);
/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(900);

/// A server, and how many claims wait there for a name.
struct Stage {
    name: String,
    url: String,
    waiting: Box<dyn Fn() -> Result<usize>>,
}

pub(crate) fn run(scores: &mut Scores) -> Result<()> {
    let runtime = runtime()?;
    let count = |rows: String| rows.trim().parse::<usize>().map_err(text);
    let server = std::sync::Arc::new(Postgres::start()?);
    let counted = server.clone();
    let stage = Stage {
        name: format!("PostgreSQL {}", server.version()),
        url: server.url(),
        waiting: Box::new(move || count(counted.sql("SELECT count(*) FROM bramah_claims WHERE NOT held")?)),
    };
    runtime.block_on(stage.lines(scores))?;
    drop((stage, server));
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let server = std::sync::Arc::new(MariaDb::of(flavor, &[])?);
        let counted = server.clone();
        let stage = Stage {
            name: format!("{flavor:?} {}", server.version()),
            url: server.url(),
            waiting: Box::new(move || {
                count(counted.sql("SELECT COUNT(*) FROM bramah_claims WHERE held = 0")?)
            }),
        };
        runtime.block_on(stage.lines(scores))?;
    }
    Ok(())
}

/// One hold: its fence, when it began and when it ended.
type Hold = (u64, u64, u64);

impl Stage {
    async fn lines(&self, scores: &mut Scores) -> Result<()> {
        bramah::init(&self.url).await.map_err(text)?;
        let session = bramah::connect(&self.url).await.map_err(text)?;
        let server = &self.name;
        scores.heading(&format!("{server}: one lock, waiters of {PROCESSES} processes"));
        let mut first = None;
        for count in LINES {
            let gap = self.line(scores, &session, count).await?;
            let first: &Rounds = first.get_or_insert_with(|| gap.clone());
            if count > LINES[0] {
                let what = format!("release to grant over that of {}, {count} waiters, {server}", LINES[0]);
                scores.goal("S2", &what, &gap.over(first), Goal::AtMost(2.0));
            }
        }
        Ok(())
    }

    /// How long the lock takes from one to the next.
    async fn line(&self, scores: &mut Scores, session: &Session, count: usize) -> Result<Rounds> {
        let (clock, name) = (Clock::boot(), format!("crowd/{count}"));
        let guard = session.mutex(&*name).map_err(text)?.lock().await.map_err(text)?;
        let began = clock.now();
        let mut crowds = Vec::new();
        for process in 0..PROCESSES {
            let waiters = count / PROCESSES + usize::from(process < count % PROCESSES);
            crowds.push(Waiters::start(&self.url, &name, waiters)?);
        }
        loop {
            if (self.waiting)()? == count {
                break;
            }
            if clock.now().since(began) > LONG {
                return Err(format!("{name}: not all came to stand in line"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let entered = clock.now().since(began);
        let busy = busy_seconds()?;
        tokio::time::sleep(IDLE).await;
        let idle = (busy_seconds()? - busy) / IDLE.as_secs_f64();
        let began = clock.now();
        let released = began.ns();
        guard.release().await;
        let mut holds: Vec<Hold> = Vec::new();
        for crowd in crowds {
            holds.extend(crowd.end()?);
        }
        let served = clock.now().since(began);
        holds.sort_unstable_by_key(|hold| hold.1);
        if holds.len() != count {
            return Err(format!("{name}: {} of {count} were served", holds.len()));
        }
        let pairs = || holds.iter().zip(holds.iter().skip(1));
        let overlaps = pairs().filter(|(one, next)| next.1 < one.2).count();
        let out_of_order = pairs().filter(|(one, next)| next.0 <= one.0).count();
        scores.check(count as u64, overlaps as u64, out_of_order as u64);
        let ends = std::iter::once(released).chain(holds.iter().map(|hold| hold.2));
        let mut gaps: Vec<f64> =
            ends.zip(&holds).map(|(end, hold)| hold.1.saturating_sub(end) as f64 / 1e6).collect();
        gaps.sort_by(f64::total_cmp);
        println!("  {count} waiters");
        scores.figure("  until all stand in line", &Rounds::of(entered.as_secs_f64()), "s");
        scores.figure(
            "  all of them idle, CPU of the whole machine",
            &Rounds::of(idle * 100.0),
            "% of a core",
        );
        scores.figure("  from a release to the next grant, p50", &Rounds::of(gaps[gaps.len() / 2]), "ms");
        scores.figure("  p99", &Rounds::of(gaps[gaps.len() * 99 / 100]), "ms");
        scores.figure("  until all were served", &Rounds::of(served.as_secs_f64()), "s");
        Ok(Rounds::of(gaps[gaps.len() / 2]))
    }
}

/// A process with waiters.
struct Waiters {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Waiters {
    fn start(url: &str, name: &str, waiters: usize) -> Result<Self> {
        let program = std::env::current_exe().map_err(text)?;
        let mut child = Command::new(program)
            .env(ENVIRONMENT, format!("{url} {name} {waiters}"))
            .stdout(Stdio::piped())
            .spawn()
            .map_err(text)?;
        let output = child.stdout.take().ok_or("a process without output")?;
        Ok(Self { child, output: BufReader::new(output) })
    }

    fn end(mut self) -> Result<Vec<Hold>> {
        let mut holds = Vec::new();
        for line in (&mut self.output).lines() {
            let line = line.map_err(text)?;
            let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
            let [fence, held, left] = numbers[..] else { return Err(format!("not understood: {line}")) };
            holds.push((fence, held, left));
        }
        let status = self.child.wait().map_err(text)?;
        if status.success() { Ok(holds) } else { Err("a waiter has failed".to_owned()) }
    }
}

impl Drop for Waiters {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One of the processes.
pub(crate) fn wait(orders: &str) -> Result<()> {
    let orders: Vec<&str> = orders.split(' ').collect();
    let [url, name, waiters] = orders[..] else { return Err("orders are URL NAME WAITERS".to_owned()) };
    let waiters: usize = waiters.parse().map_err(text)?;
    runtime()?.block_on(async {
        let session = bramah::connect(url).await.map_err(text)?;
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..waiters {
            let mutex = session.mutex(name).map_err(text)?;
            tasks.spawn(async move {
                let guard = mutex.lock_within(LONG).await.map_err(text)?;
                let (clock, fence) = (Clock::boot(), guard.fence().map_or(0, bramah::Fence::get));
                let held = clock.now().ns();
                let left = clock.now().ns();
                guard.release().await;
                Ok::<_, String>((fence, held, left))
            });
        }
        while let Some(done) = tasks.join_next().await {
            let (fence, held, left) = done.map_err(text)??;
            println!("{fence} {held} {left}");
        }
        let _ = session.close(Duration::from_secs(10)).await;
        Ok(())
    })
}

/// Seconds of CPU that the machine has spent, over all cores.
fn busy_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/stat").map_err(text)?;
    let first = stat.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = first.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    let idle: f64 = ticks.iter().skip(3).take(2).sum();
    // Guest time is in user time already.
    let all: f64 = ticks.iter().take(8).sum();
    Ok((all - idle) / 100.0)
}
