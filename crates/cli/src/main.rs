//! The `bramah` command: hold a lock while a command runs, see who holds what.
//!
//! What was typed ([`args`]) becomes what it means ([`plan`]), and that is done ([`cmd`]).

mod args;
mod check;
mod cmd;
mod config;
mod descriptors;
mod env;
mod event;
mod exit;
mod guardian;
mod holder;
mod inherited;
mod json;
mod lookout;
mod plan;
#[cfg(test)]
mod sample;
mod say;
mod settings;
mod signals;
mod span;
mod stamp;
mod store;
mod table;
mod take;
mod terminal;
mod wait;
mod waiter;

use std::process::ExitCode;

use crate::{
    args::Args,
    env::Env,
    exit::{Exit, Failure},
    plan::Plan,
};

fn main() -> ExitCode {
    if std::env::args_os().next().is_some_and(|name| name == guardian::NAME) {
        return guardian::main();
    }
    let exit = start().unwrap_or_else(Failure::tell);
    ExitCode::from(exit.code())
}

fn start() -> Result<Exit, Failure> {
    let args = match Args::read(std::env::args_os()) {
        Ok(args) => args,
        Err(error) => {
            say::emit(&args::refusal(&error)?)?;
            return Ok(Exit::Done);
        }
    };
    let plan = Plan::new(args, &Env::real()?)?;
    log()?;
    descriptors::ensure(match &plan {
        Plan::On(..) => descriptors::FOR_A_STORE,
        Plan::Here(_) => descriptors::FOR_A_RUNTIME,
    })?;
    // One thread is enough for one lock; its keeper has another.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Unreachable, format!("cannot start: {error}")))?;
    Ok(runtime.block_on(cmd::execute(plan)))
}

/// The library's log on stderr, if `BRAMAH_LOG` asks for it.
fn log() -> Result<(), Failure> {
    let Some(level) = std::env::var_os("BRAMAH_LOG").filter(|level| !level.is_empty()) else { return Ok(()) };
    let level: tracing_subscriber::filter::LevelFilter = level
        .to_str()
        .and_then(|level| level.parse().ok())
        .ok_or_else(|| Failure::usage("BRAMAH_LOG is not a level; use error, warn, info, debug or trace"))?;
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).init();
    Ok(())
}
