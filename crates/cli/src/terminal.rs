//! How wide the terminal is, and who may read from it: only its foreground process group; the others are stopped when they try.

use std::os::fd::OwnedFd;

use nix::sys::signal::{SigSet, Signal as Blocked};
use rustix::{
    fs::{FileType, Mode, OFlags, fstat, open},
    process::{Pid, getpgrp},
    stdio::stdout,
    termios::{isatty, tcgetpgrp, tcgetwinsize, tcsetpgrp},
};

/// How many columns there are for tables: those of the terminal that stdout is, unless `COLUMNS` says otherwise. What is not
/// read on a terminal may be as wide as it likes.
pub(crate) fn columns() -> Option<usize> {
    if !isatty(stdout()) {
        return None;
    }
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let found = || tcgetwinsize(stdout()).ok().map(|size| usize::from(size.ws_col));
    told.or_else(found).filter(|columns| *columns > 0)
}

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
        true if is_piped() => Group::Ours,
        true => Group::Foreground,
        false => Group::Own,
    }
}

/// Whether somebody reads what the command writes.
fn is_piped() -> bool {
    let kind = fstat(stdout()).map(|found| FileType::from_raw_mode(found.st_mode));
    kind.is_ok_and(|kind| matches!(kind, FileType::Fifo | FileType::Socket))
}

/// The terminal that we belong to, wherever stdin comes from.
fn terminal() -> Option<OwnedFd> {
    open("/dev/tty", OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Whether we have a terminal and are its foreground.
pub(crate) fn in_foreground() -> bool {
    is_of(getpgrp())
}

/// Whether the terminal is that group's.
pub(crate) fn is_of(group: Pid) -> bool {
    terminal().is_some_and(|terminal| tcgetpgrp(terminal) == Ok(group))
}

/// Hands the terminal to a group. That it is gone is for the command to find out.
pub(crate) fn hand_to(group: Pid) {
    if let Some(terminal) = terminal() {
        let _ = tcsetpgrp(terminal, group);
    }
}

/// Takes the terminal back if `group` still has it.
pub(crate) fn take_back(group: Pid) {
    let Some(terminal) = terminal().filter(|terminal| tcgetpgrp(terminal) == Ok(group)) else { return };
    // We are in the background now, and a background process that does this is stopped by SIGTTOU unless it has
    // the signal blocked or ignored.
    let mut set = SigSet::empty();
    set.add(Blocked::SIGTTOU);
    if set.thread_block().is_ok() {
        let _ = tcsetpgrp(terminal, getpgrp());
        let _ = set.thread_unblock();
    }
}
