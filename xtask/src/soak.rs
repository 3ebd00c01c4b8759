//! Things that are run for long.

use std::{
    hint,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Instant,
};

use crate::cargo::{cargo, run as run_command, shown};

/// Something to run for long, and how often, or for how many seconds, if nobody says.
#[derive(Debug, PartialEq)]
pub(crate) struct Soak {
    pub(crate) name: &'static str,
    pub(crate) times: u32,
    kind: Kind,
}

#[derive(Debug, PartialEq)]
enum Kind {
    /// One run of this test target over that many seeds.
    Worlds(&'static str),
    /// Eight processes that count, each that often.
    Counting,
    /// Eight processes that count while masters of Redlock are killed, for that many seconds.
    Redlock,
    /// Processes that count through the command while servers fail over, die, freeze and reshard: that many seconds on each topology.
    Topologies,
    /// The conformance suite on every engine, that often.
    Conformance,
    /// The test suite, again and again.
    Suite,
    /// The same, short of CPU.
    Load,
}

pub(crate) const SOAKS: &[Soak] = &[
    Soak { name: "worlds", times: 20_000, kind: Kind::Worlds("worlds") },
    Soak { name: "quorum", times: 5_000, kind: Kind::Worlds("quorum_worlds") },
    Soak { name: "counting", times: 200, kind: Kind::Counting },
    Soak { name: "redlock", times: 120, kind: Kind::Redlock },
    Soak { name: "topologies", times: 300, kind: Kind::Topologies },
    Soak { name: "conformance", times: 10, kind: Kind::Conformance },
    Soak { name: "suite", times: 5, kind: Kind::Suite },
    Soak { name: "load", times: 5, kind: Kind::Load },
];

/// The test targets that are the conformance suite on some engine.
const SUITES: &[&str] = &[
    "conformance",
    "leases",
    "plain",
    "sentinel",
    "plain_sentinel",
    "cluster",
    "plain_cluster",
    "valkey",
    "redis8",
    "redlock",
];

pub(crate) fn find(name: &str) -> Result<&'static Soak, String> {
    SOAKS.iter().find(|soak| soak.name == name).ok_or_else(|| {
        let known: Vec<_> = SOAKS.iter().map(|soak| soak.name).collect();
        format!("unknown soak {name:?}: known are {}", known.join(", "))
    })
}

pub(crate) fn run(soak: &Soak, times: u32) -> Result<(), String> {
    match soak.kind {
        Kind::Worlds(target) => {
            let mut command =
                cargo(["test", "--release", "--package", "bramah-conformance", "--test", target]);
            command.env("BRAMAH_SEEDS", times.to_string());
            repeat(1, || command_line(&mut command))
        }
        Kind::Counting => {
            let mut command = cargo(["test", "--package", "bramah-cli", "--test", "cli", "counting"]);
            command.env("BRAMAH_TEST_ROUNDS", times.to_string());
            repeat(1, || command_line(&mut command))
        }
        Kind::Redlock => {
            let mut command = cargo(["test", "--release", "--package", "bramah-redis"]);
            command.args(["--test", "redlock_chaos", "--", "--nocapture"]);
            command.env("BRAMAH_TEST_SECONDS", times.to_string());
            repeat(1, || command_line(&mut command))
        }
        Kind::Topologies => {
            let mut command = cargo(["test", "--package", "bramah-cli", "--all-features"]);
            // One after another: each has the machine for itself.
            command.args(["--test", "topologies", "--", "--nocapture", "--test-threads", "1"]);
            command.env("BRAMAH_TEST_SECONDS", times.to_string());
            repeat(1, || command_line(&mut command))
        }
        Kind::Conformance => {
            let mut command = cargo(["test", "--workspace"]);
            command.args(SUITES.iter().flat_map(|suite| ["--test", suite]));
            command.env("BRAMAH_CONFORMANCE_REPEAT", times.to_string());
            repeat(1, || command_line(&mut command))
        }
        Kind::Suite => repeat(times, run_suite),
        Kind::Load => under_load(|| repeat(times, run_suite)),
    }
    .map_err(|why| format!("soak {} failed: {why}", soak.name))
}

fn run_suite() -> Result<(), String> {
    command_line(&mut cargo(["test", "--workspace", "--all-features"]))
}

fn command_line(command: &mut Command) -> Result<(), String> {
    println!("== {}", shown(command));
    run_command(command)
}

fn repeat(times: u32, mut work: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    for round in 1..=times {
        let began = Instant::now();
        work().map_err(|why| format!("round {round} of {times}: {why}"))?;
        println!("== round {round} of {times} passed in {:.1} s", began.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Keeps every CPU busy, two at least, for as long as the work lasts.
fn under_load<T>(work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    let loops = thread::available_parallelism().map_or(2, |cpus| cpus.get().max(2));
    thread::scope(|scope| {
        // The scope joins the loops even when the work panics, so the guard has to end them on every way out.
        let ending = Ending(&stop);
        for _ in 0..loops {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        let done = work();
        drop(ending);
        done
    })
}

/// Ends the loops when dropped.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_ends_a_soak_and_tells_the_round() {
        let mut rounds = 0;
        let done = repeat(5, || {
            rounds += 1;
            if rounds == 3 { Err("broken".into()) } else { Ok(()) }
        });
        assert_eq!(done, Err("round 3 of 5: broken".into()));
        assert_eq!(rounds, 3);
    }

    #[test]
    fn the_load_ends_with_the_work() {
        assert_eq!(under_load(|| 7), 7);
    }

    #[test]
    fn the_load_ends_with_a_panic() {
        let panicked = std::panic::catch_unwind(|| under_load(|| panic!("on purpose")));
        assert!(panicked.is_err());
    }
}
