//! The repository's own tasks: `cargo xtask --help`.
#![expect(clippy::disallowed_methods, reason = "how long a step took is only shown: no lock hangs on it")]

mod affected;
mod args;
mod bench;
mod cargo;
mod deny;
mod interop;
mod manifest;
mod proto;
mod report;
mod runner;
mod servers;
mod soak;
mod test;
mod tidy;

use std::process::ExitCode;

use args::Task;

/// What sysexits.h calls `EX_USAGE`, as in the `bramah` command.
const USAGE: u8 = 64;

/// What a task that has told its own story found. An error is a story still to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
}

fn main() -> ExitCode {
    let typed: Vec<String> = std::env::args().skip(1).collect();
    let task = match args::parse(&typed) {
        Ok(task) => task,
        Err(what) => {
            eprintln!("xtask: {what}");
            return ExitCode::from(USAGE);
        }
    };
    let done = match task {
        Task::Help(text) => {
            print!("{text}");
            Ok(Verdict::Passed)
        }
        Task::Test(extent) => Ok(test::run(extent)),
        Task::Servers => Ok(servers::run()),
        Task::Proto => proto::run(),
        Task::Bench(bench) => bench::run(bench).map(|()| Verdict::Passed),
        Task::Soak { soak, times } => soak::run(soak, times).map(|()| Verdict::Passed),
        Task::Tidy => tidy::run(),
    };
    match done {
        Ok(Verdict::Passed) => ExitCode::SUCCESS,
        Ok(Verdict::Failed) => ExitCode::FAILURE,
        Err(what) => {
            eprintln!("xtask: {what}");
            ExitCode::FAILURE
        }
    }
}
