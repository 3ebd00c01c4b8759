//! `bramah completions`: what a shell needs to complete our words.

use clap::CommandFactory;

use crate::{
    args::Args,
    exit::{Exit, Failure},
    say::emit,
};

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "bramah", &mut script);
    emit(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
