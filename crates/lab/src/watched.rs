//! A process that cannot outlive the one that started it.

use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::patience::until;

const SCRIPT: &str = include_str!("watched.sh");

/// A server under a small watching shell, which kills it when our end of a pipe closes. That happens in `drop`, and the
/// kernel does it when we are killed. (The signal that Linux can send at the death of a parent is sent at the death of
/// the *thread* already, and a test's thread is short-lived.)
#[derive(Debug)]
pub(crate) struct Watched {
    shell: Child,
    server: Pid,
}

/// As whom a server runs, and how it ends when nobody wants it any more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Another user than ours.
    pub(crate) user: Option<u32>,
    /// What it is sent. If that does not end it in a while, it is killed.
    pub(crate) ending: Signal,
}

impl Default for Terms {
    fn default() -> Self {
        Self { user: None, ending: Signal::KILL }
    }
}

impl Watched {
    pub(crate) fn start(
        command: &[OsString],
        log: &Path,
        directory: &Path,
        terms: Terms,
    ) -> Result<Self, String> {
        let mut sh = Command::new("sh");
        if let Some(user) = terms.user {
            sh.uid(user).gid(user);
        }
        let mut shell = sh
            .args(["-c", SCRIPT, "watched"])
            .args([log, directory])
            .arg(terms.ending.as_raw().to_string())
            .args(command)
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // An interrupt at the terminal is for us; we end the servers.
            .process_group(0)
            .spawn()
            .map_err(|why| format!("sh could not be started: {why}"))?;
        let mut line = String::new();
        if let Some(output) = shell.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(|why| format!("no word from sh: {why}"))?;
        }
        match line.trim().parse().ok().and_then(Pid::from_raw) {
            Some(server) => Ok(Self { shell, server }),
            None => Err(format!("sh told no process id but {line:?}")),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.server.as_raw_nonzero().get().unsigned_abs()
    }

    /// The status with which it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<String> {
        self.shell.try_wait().ok().flatten().map(|status| status.to_string())
    }

    pub(crate) fn signal(&mut self, signal: Signal) -> Result<(), String> {
        if let Some(status) = self.ended() {
            return Err(format!("process {} has ended ({status})", self.pid()));
        }
        kill_process(self.server, signal).map_err(|why| format!("process {}: {why}", self.pid()))
    }

    /// Asks it to end by a signal and waits; after `limit` it is killed.
    pub(crate) fn stop(mut self, signal: Signal, limit: Duration) -> Result<(), String> {
        self.signal(signal)?;
        self.signal(Signal::CONT)?;
        until("the server's end", limit, || self.ended().map(drop).ok_or_else(|| "it still runs".into()))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(mut input) = self.shell.stdin.take() {
            // It may have ended by itself.
            let _ = input.write_all(b"keep\nkeep\n");
        }
        let _ = self.shell.wait();
    }
}
