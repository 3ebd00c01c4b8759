//! This test program again, as a process of its own that runs an example.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    process::{Child, ChildStdout, Command, Stdio},
};

/// It is killed when it is dropped.
pub(super) struct Example {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// What tells a process that it is one.
const CHILD: &str = "BRAMAH_SQL_EXAMPLE";

/// Runs an example if this process was started for it. Otherwise there is nothing to do.
pub(super) fn run_as_child(main: impl FnOnce() -> Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if std::env::var_os(CHILD).is_some() {
        main().unwrap();
    }
}

impl Example {
    /// Starts the test that runs the example by [`run_as_child`].
    pub(super) fn start(test: &str, environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, "1")
            .env("DATABASE_URL", crate::on::url())
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Waits for a line that has this text, and gives what follows it.
    pub(super) fn says(&mut self, text: &str) -> String {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        let found = lines.find_map(|line| line.split_once(text).map(|(_, rest)| rest.trim().to_owned()));
        found.unwrap_or_else(|| panic!("the process ended and did not say {text:?}"))
    }

    /// Presses return.
    pub(super) fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// Kills it, as by `kill -9`.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        assert!(!self.child.wait().unwrap().success());
    }

    /// Waits for its good end.
    pub(super) fn end(&mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
