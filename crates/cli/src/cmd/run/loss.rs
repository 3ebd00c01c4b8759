//! The end of a lock under a command, and what is said of it.

use std::sync::Arc;

use bramah::{Break, Guards, Session};
use rustix::process::Signal;

use crate::{
    args::{self, OnLost},
    exit::Exit,
    guardian::Stopped,
};

/// What is said of a command that could not be ended, behind why it had to.
pub(super) const RUNS_ON: &str = "the command cannot be ended and runs on";

/// What it took to end the command.
pub(super) fn words(how: Stopped, on_lost: OnLost) -> String {
    match how {
        Stopped::ByItself => "the command had just ended by itself".to_owned(),
        Stopped::Asked => {
            let signal = match on_lost {
                OnLost::Signal(signal) => signal,
                OnLost::Kill | OnLost::Keep => Signal::TERM,
            };
            format!("the command was ended with {}", args::signal_name(signal))
        }
        Stopped::Killed => "the command was ended with SIGKILL".to_owned(),
        Stopped::Failed => RUNS_ON.to_owned(),
    }
}

/// 79 says that the command has ended.
pub(super) fn after_loss(how: Stopped) -> Exit {
    if how == Stopped::Failed { Exit::Outlived } else { Exit::Lost }
}

/// The record of a break of one of these, if the store has one.
pub(super) async fn broken(held: Option<(&Session, &Guards)>) -> Option<Arc<Break>> {
    let (session, guards) = held?;
    for guard in guards.iter() {
        let line = session.glance(&guard.name()).await.ok().flatten();
        if let Some(broken) =
            line.and_then(|line| line.broken).filter(|broken| broken.id.tag() == guard.tag())
        {
            return Some(broken.cause);
        }
    }
    None
}

/// Ends when somebody asks for it.
pub(super) async fn asked(held: Option<(&Session, &Guards)>) {
    match held {
        Some((_, guards)) => guards.asked().await,
        None => std::future::pending().await,
    }
}

/// Ends when it is lost.
pub(super) async fn lost(held: Option<(&Session, &Guards)>) {
    match held {
        Some((_, guards)) => guards.lost().await,
        None => std::future::pending().await,
    }
}
