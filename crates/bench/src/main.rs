//! Benchmarks: `cargo xtask bench core`, `bench cli`, `bench redis`, `bench redisson`, `bench redlock`, `bench sql`,
//! `bench crowd`, `bench etcd`, `bench zookeeper`. Absolute figures belong to the machine; the ratios are what carries over.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures elapsed time and no deadline")]

mod cli;
mod consistent;
mod drive;
mod file;
mod handover;
mod many;
mod redis;
mod report;
mod scores;
mod sql;

use std::process::ExitCode;

use report::Report;

fn main() -> ExitCode {
    if let Ok(orders) = std::env::var(redis::CROWD) {
        return redis::crowd(&orders);
    }
    if let Ok(orders) = std::env::var(sql::WAITERS) {
        return scores::exit(sql::wait(&orders));
    }
    let mut args = std::env::args().skip(1);
    match (args.next().as_deref(), args.next()) {
        (Some("core"), None) => run(core),
        (Some("cli"), None) => run(cli::run),
        (Some("redis"), None) => redis::run(),
        (Some("redisson"), None) => redis::run_redisson(),
        (Some("redlock"), None) => redis::run_redlock(),
        (Some("sql"), None) => sql::run(),
        (Some("crowd"), None) => sql::run_crowd(),
        (Some("etcd"), None) => consistent::run_etcd(),
        (Some("zookeeper"), None) => consistent::run_zookeeper(),
        (Some("stamp"), Some(file)) => match cli::stamp(&file) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        (other, _) => {
            eprintln!(
                "unknown benchmark {:?}; there are: core, cli, redis, redisson, redlock, sql, crowd, etcd, zookeeper",
                other.unwrap_or("")
            );
            ExitCode::from(64)
        }
    }
}

fn core(report: &mut Report) -> bramah::Result<()> {
    many::run(report)?;
    handover::run(report)?;
    file::run(report)
}

fn run(bench: impl FnOnce(&mut Report) -> bramah::Result<()>) -> ExitCode {
    let mut report = Report::default();
    match bench(&mut report) {
        Ok(()) if report.met() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
