//! Talk goes to stderr, data to stdout, and neither can panic or be used to play tricks on a terminal.

use std::{
    fs::File,
    io::{self, Write},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FileType, OFlags},
};

use crate::{
    exit::{Exit, Failure},
    inherited,
};

/// One line of talk. Nothing is to be done about a stderr that is gone.
pub(crate) fn say(line: &str) {
    // One write a line, so that the lines of several processes do not mix.
    talk(&format!("bramah: {}\n", clean(line)));
}

/// One line of data about a run, on stderr because stdout belongs to the command.
pub(crate) fn report(json: &str) {
    talk(&format!("{json}\n"));
}

/// Writes to stderr if that can be done now or soon. A reader that has stopped reading must not stop us: signals and
/// deadlines are looked after by the same thread.
pub(crate) fn talk(text: &str) {
    let stderr = rustix::stdio::stderr();
    let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
    let soon = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    if poll(&mut ready, Some(&soon)).is_ok_and(|count| count > 0) {
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

/// A descriptor that somebody reads what became of a run from.
#[derive(Debug)]
pub(crate) struct Status(File);

impl Status {
    /// Takes it, before anything else is opened.
    pub(crate) fn open(number: i32) -> Result<Self, Failure> {
        match inherited::take(number) {
            Ok(descriptor) => Ok(Self(descriptor.into())),
            Err(_) => Err(Failure::usage(format!(
                "--status-fd {number} is not open; open it in the shell, as in {number}>status.json"
            ))),
        }
    }

    /// One line. Nothing is to be done about a reader that is gone.
    pub(crate) fn write(&self, json: &str) {
        let _ = (&self.0).write_all(format!("{json}\n").as_bytes());
    }
}

/// Data.
pub(crate) fn emit(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        // The reader has seen enough, as `head` does; what other tools die of is no news here either.
        io::ErrorKind::BrokenPipe => Failure::silent(Exit::Signal(rustix::process::Signal::PIPE.as_raw())),
        _ => Failure::new(Exit::Output, format!("cannot write: {error}")),
    })
}

/// Refuses a stdout that was closed when we started: what is written there would be gone without an error, because the
/// standard library puts `/dev/null`, open for reading too, in place of a closed stream. `>/dev/null` of a shell is
/// open for writing only.
pub(crate) fn refuse_closed_stdout() -> Result<(), Failure> {
    let stdout = rustix::stdio::stdout();
    let closed = match (rustix::fs::fcntl_getfl(stdout), rustix::fs::fstat(stdout)) {
        (Ok(flags), Ok(stat)) => {
            let null = rustix::fs::stat("/dev/null").is_ok_and(|null| null.st_rdev == stat.st_rdev);
            null && FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
                && flags.contains(OFlags::RDWR)
        }
        _ => true,
    };
    if closed {
        return Err(Failure::new(Exit::Output, "stdout is closed, so nobody would get the handle; open it"));
    }
    Ok(())
}

/// `text` with everything escaped that moves the cursor, starts a line, or turns the direction of writing: owners,
/// reasons and labels come from whoever can write to the store.
pub(crate) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let tricky = c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
        if tricky { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_play_tricks_is_escaped_and_the_rest_is_left_alone() {
        assert_eq!(clean("a\u{1b}[2Jb\n\u{202e}c\u{9b}"), r"a\u{1b}[2Jb\n\u{202e}c\u{9b}");
        assert_eq!(clean("é 漢 \"quoted\" \\ 🔒"), "é 漢 \"quoted\" \\ 🔒");
    }
}
