//! What bramah and its guardian say to each other: a line of JSON a message.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    time::Duration,
};

use rustix::process::Signal;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use crate::{args::OnLost, exit::Exit};

/// To the guardian.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The first: the command to run.
    Start(Start),
    /// Until when the lock is certain, on the boot clock.
    Deadline(u64),
    /// A signal for the command's group.
    Signal(i32),
    /// The lock is lost: end the command, with so many nanoseconds from the first signal to the last.
    Stop(u64),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    /// The program and its arguments, as bytes.
    pub(crate) words: Vec<Vec<u8>>,
    /// The process group to run in; none for one of its own.
    pub(crate) group: Option<i32>,
    /// Until when the lock is certain, on the boot clock.
    pub(crate) deadline_ns: u64,
    /// How long before that the last process has to be gone.
    pub(crate) margin_ns: u64,
    pub(crate) grace_ns: u64,
    pub(crate) max_run_ns: Option<u64>,
    pub(crate) on_lost: Lost,
    /// Where to answer `bramah check`: an abstract socket.
    pub(crate) socket: Option<String>,
}

/// [`OnLost`] in numbers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Lost {
    Signal(i32),
    Keep,
}

/// From the guardian.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum News {
    /// It runs, as this process.
    Started(i32),
    /// It could not be started.
    NotStarted { found: bool, why: String },
    /// The terminal has stopped it.
    Stopped(i32),
    /// It had to end for this reason, and some of it runs on: this user may not signal it.
    Outlives(Cause),
    /// It has ended, and so has the guardian.
    Ended { code: Option<u8>, signal: i32, cause: Cause, how: Stopped },
}

/// Why a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cause {
    /// Of its own accord.
    Itself,
    /// The lock was lost.
    Lost,
    /// Its time was up.
    OverTime,
    /// Who held the lock is gone.
    Orphaned,
}

/// What it took to end a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stopped {
    /// Nothing: it had ended.
    ByItself,
    /// A signal that it could answer.
    Asked,
    /// SIGKILL.
    Killed,
    /// Nothing did: this user may not signal it.
    Failed,
}

impl From<OnLost> for Lost {
    fn from(on_lost: OnLost) -> Self {
        match on_lost {
            OnLost::Signal(signal) => Self::Signal(signal.as_raw()),
            OnLost::Kill => Self::Signal(Signal::KILL.as_raw()),
            OnLost::Keep => Self::Keep,
        }
    }
}

/// One end of the line between the two.
pub(crate) struct Wire {
    lines: Lines<BufReader<OwnedReadHalf>>,
    out: OwnedWriteHalf,
}

impl Wire {
    pub(crate) fn new(stream: std::os::unix::net::UnixStream) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        let (read, out) = UnixStream::from_std(stream)?.into_split();
        Ok(Self { lines: BufReader::new(read).lines(), out })
    }

    /// The next message; `None` when the other side is gone.
    ///
    /// # Cancel safety
    /// None is lost when this is dropped.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> Option<T> {
        let line = self.lines.next_line().await.ok()??;
        serde_json::from_str(&line).ok()
    }

    /// Sends a message of any length. That the other side is gone is found out by [`next`](Wire::next).
    pub(crate) async fn send(&mut self, message: &impl Serialize) {
        let _ = self.out.write_all(line(message).as_bytes()).await;
    }

    /// Sends a short message without waiting. One that does not fit is dropped: who does not read for so long is
    /// frozen, and dealt with as such.
    pub(crate) fn post(&self, message: &impl Serialize) {
        let _ = self.out.try_write(line(message).as_bytes());
    }
}

fn line(message: &impl Serialize) -> String {
    serde_json::to_string(message).unwrap_or_default() + "\n"
}

pub(crate) fn bytes(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Vec<Vec<u8>> {
    words.into_iter().map(|word| word.as_ref().as_bytes().to_vec()).collect()
}

pub(crate) fn words(bytes: Vec<Vec<u8>>) -> impl Iterator<Item = OsString> {
    bytes.into_iter().map(OsString::from_vec)
}

pub(crate) fn ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn exit(code: Option<u8>, signal: i32) -> Exit {
    code.map_or(Exit::Signal(signal), Exit::Command)
}

pub(crate) fn signal(number: i32) -> Option<Signal> {
    Signal::from_named_raw(number)
}
