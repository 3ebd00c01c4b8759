//! Who may read from the terminal: only its foreground process group; the others are stopped when they try.

use nix::sys::signal::{SigSet, Signal as Blocked};
use rustix::{
    process::{Pid, getpgrp},
    stdio::{stdin, stdout},
    termios::{isatty, tcgetpgrp, tcsetpgrp},
};

/// Where a command is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// In a group of its own.
    Own,
    /// In a group of its own, to which the terminal is handed.
    Foreground,
    /// In ours: we share the terminal with a pipeline (`bramah run a -- b | less`) that we cannot take it from.
    Ours,
}

/// Where a command is to run that we start now.
pub(crate) fn group() -> Group {
    match in_foreground() {
        true if isatty(stdout()) => Group::Foreground,
        true => Group::Ours,
        false => Group::Own,
    }
}

/// Whether stdin is a terminal and we are its foreground.
pub(crate) fn in_foreground() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|foreground| foreground == getpgrp())
}

/// Whether the terminal is that group's.
pub(crate) fn is_of(group: Pid) -> bool {
    tcgetpgrp(stdin()) == Ok(group)
}

/// Hands the terminal to a group. That it is gone is for the command to find out.
pub(crate) fn hand_to(group: Pid) {
    let _ = tcsetpgrp(stdin(), group);
}

/// Takes the terminal back if `group` still has it.
pub(crate) fn take_back(group: Pid) {
    if tcgetpgrp(stdin()) != Ok(group) {
        return;
    }
    // We are in the background now, and a background process that does this is stopped by SIGTTOU unless it has
    // the signal blocked or ignored.
    let mut set = SigSet::empty();
    set.add(Blocked::SIGTTOU);
    if set.thread_block().is_ok() {
        let _ = tcsetpgrp(stdin(), getpgrp());
        let _ = set.thread_unblock();
    }
}
