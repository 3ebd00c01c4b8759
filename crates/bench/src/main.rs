//! Benchmarks: `cargo xtask bench core`. Absolute figures belong to the machine; the ratios are what carries over.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures elapsed time and no deadline")]

mod file;
mod handover;
mod many;
mod report;

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("core") => run(),
        other => {
            eprintln!("unknown benchmark {:?}; there is: core", other.unwrap_or(""));
            ExitCode::from(64)
        }
    }
}

fn run() -> ExitCode {
    let mut report = report::Report::default();
    let outcome = many::run(&mut report)
        .and_then(|()| handover::run(&mut report))
        .and_then(|()| file::run(&mut report));
    match outcome {
        Ok(()) if report.met() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
