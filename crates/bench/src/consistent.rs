//! Locks on ZooKeeper and etcd against the bare calls of the same clients, by turns, on servers of their own.

mod crowd;
mod etcd;
mod handoff;
mod spy;
mod zookeeper;

use std::time::Duration;

use bramah::Session;

use crate::{
    drive::{Locked, Pairs, Result, burst},
    scores::{Goal, Rounds, Scores},
};

pub(crate) use etcd::run as run_etcd;
pub(crate) use zookeeper::run as run_zookeeper;

const TASKS: usize = 64;
const WARM_UP: Duration = Duration::from_millis(250);
const SPAN: Duration = Duration::from_millis(1500);

/// Which sections are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Pairs,
    HandOff,
    Crowd,
}

impl Part {
    fn is_wanted(self) -> bool {
        let word = match self {
            Self::Pairs => "pairs",
            Self::HandOff => "handoff",
            Self::Crowd => "crowd",
        };
        std::env::var("BRAMAH_BENCH_ONLY").ok().is_none_or(|only| only.split(',').any(|part| part == word))
    }
}

/// Counts what a server was asked.
trait Counts {
    /// Requests of all kinds since it was started.
    fn requests(&self) -> Result<f64>;
}

/// Ours and the bare calls by turns, on names that nobody else wants.
async fn pairs<P: Pairs>(
    scores: &mut Scores,
    server: &str,
    counts: &impl Counts,
    session: &Session,
    rounds: usize,
    bare: impl Fn() -> Vec<P>,
) -> Result<()> {
    scores.heading(&format!(
        "{server}: lock + release of names that nobody else wants, {TASKS} tasks, one session, {rounds} interleaved rounds"
    ));
    // The folders of the names are there, as they are where locks are in use.
    burst(Locked::workers(session, TASKS)?, WARM_UP).await?;
    let [mut floor, mut ours, mut asked, mut least, mut cpu, mut floor_cpu] = [const { Rounds::new() }; 6];
    for _ in 0..rounds {
        let warm = burst(bare(), WARM_UP).await?.workers;
        let before = counts.requests()?;
        let driven = burst(warm, SPAN).await?;
        least.push((counts.requests()? - before) / driven.pairs as f64);
        floor.push(driven.rate());
        floor_cpu.push(driven.cpu_us());
        let warm = burst(Locked::workers(session, TASKS)?, WARM_UP).await?.workers;
        let before = counts.requests()?;
        let driven = burst(warm, SPAN).await?;
        asked.push((counts.requests()? - before) / driven.pairs as f64);
        cpu.push(driven.cpu_us());
        Locked::check(&driven.workers, scores);
        ours.push(driven.rate());
    }
    scores.figure("the bare calls, pairs a second", &floor, "");
    scores.figure("bramah, pairs a second", &ours, "");
    scores.figure("requests a pair, bare", &least, "");
    scores.figure("requests a pair, bramah", &asked, "");
    scores.figure("this process's CPU for a pair, bare", &floor_cpu, "us");
    scores.figure("this process's CPU for a pair, bramah", &cpu, "us");
    let what = format!("pairs/s over the bare calls, {TASKS} tasks, {server}");
    scores.goal("C1", &what, &ours.over(&floor), Goal::AtLeast(0.8));
    Ok(())
}
