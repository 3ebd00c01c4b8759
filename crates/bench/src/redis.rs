//! The Redis engine against its floors and peers, on one server of its own.
//!
//! Every goal is a ratio inside of one run: contenders take turns, and what counts is the median of the rounds' ratios.

mod bare;
mod contention;
mod crowd;
mod held;
mod java;
mod pairs;
mod redisson;
mod redlock;
mod server;
mod server_cost;

use std::process::ExitCode;

pub(crate) use crowd::ENVIRONMENT as CROWD;
use server::Server;

use crate::{
    drive::{Result, runtime, text},
    scores::{self, Scores, exit, report, rounds},
};

/// One of a crowd of processes, started by [`run`].
pub(crate) fn crowd(orders: &str) -> ExitCode {
    exit(crowd::run(orders))
}

pub(crate) fn run() -> ExitCode {
    report(measure)
}

/// Redisson itself, in Java, against ours.
pub(crate) fn run_redisson() -> ExitCode {
    report(|scores| java::run(scores, rounds()?))
}

/// Locks on several masters, against rslock.
pub(crate) fn run_redlock() -> ExitCode {
    report(|scores| redlock::run(scores, rounds()?))
}

/// Measures what some goals are about, in so many rounds.
type Part = fn(&mut Scores, &Server, usize) -> Result<()>;

fn measure(scores: &mut Scores) -> Result<()> {
    let rounds = rounds()?;
    let only = std::env::var("BRAMAH_BENCH_ONLY").ok();
    let wanted = |goals: &[&str]| only.as_deref().is_none_or(|only| goals.contains(&only));
    let parts: [(&[&str], Part); 5] = [
        (&["G1", "G2", "G3"], pairs::run),
        (&["G4"], server_cost::run),
        (&["G5"], contention::between_processes),
        (&["G6"], contention::in_one_process),
        (&["G8", "growth"], held::run),
    ];
    if !parts.iter().any(|(goals, _)| wanted(goals)) {
        return Err("BRAMAH_BENCH_ONLY: known are G1, G2, G3, G4, G5, G6, G8, growth".into());
    }
    for (_, part) in parts.iter().filter(|(goals, _)| wanted(goals)) {
        // A server for each, so that none inherits the memory of the one before.
        part(scores, &Server::start()?, rounds)?;
    }
    Ok(())
}
