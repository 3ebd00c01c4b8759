//! A process that does with locks what it is told, for tests that do more to a process than to kill it.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use crate::CHILD;

/// The binary of this test, started again as a child of the suite: it has to serve as one where [`CHILD`] is set. Killed when it
/// is dropped.
#[derive(Debug)]
pub struct Puppet {
    process: Child,
    answers: Receiver<String>,
}

impl Puppet {
    /// Starts one on the store at an address. `dress` changes the command before: what it finds in its environment.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn start(address: &str, dress: impl FnOnce(&mut Command)) -> Result<Self, String> {
        let failed = |why: std::io::Error| format!("the test could not be started as a child: {why}");
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.env(CHILD, address).stdin(Stdio::piped()).stdout(Stdio::piped());
        dress(&mut command);
        let mut process = command.spawn().map_err(failed)?;
        let (sender, answers) = channel();
        let output = process.stdout.take().ok_or("a child without output")?;
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines();
            lines.map_while(std::io::Result::ok).try_for_each(|line| sender.send(line)).ok()
        });
        Ok(Self { process, answers })
    }

    /// Tells it a line: `open 3000` (a ttl in milliseconds), `lock name`, `state`, `release`. It answers each with one.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn tell(&mut self, line: &str) -> Result<(), String> {
        let input = self.process.stdin.as_mut().ok_or("a child without input")?;
        writeln!(input, "{line}").and_then(|()| input.flush()).map_err(|why| format!("{line:?}: {why}"))
    }

    /// Its next answer, if it comes within `patience`.
    pub fn heard(&self, patience: Duration) -> Option<String> {
        self.answers.recv_timeout(patience).ok()
    }

    /// Tells it a line, and waits for what it answers.
    ///
    /// # Errors
    ///
    /// When it answers nothing in half a minute.
    pub fn ask(&mut self, line: &str) -> Result<String, String> {
        self.tell(line)?;
        self.heard(Duration::from_secs(30)).ok_or_else(|| format!("no answer to {line:?}"))
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
