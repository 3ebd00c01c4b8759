//! cargo-deny, where it is installed.

use std::{
    io::Read,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    cargo::{cargo, run},
    report::Outcome,
};

pub(crate) const MISSING: &str =
    "cargo-deny is not installed; install it with `cargo install cargo-deny --locked`";

/// A machine without a route to the database must not hold up everything else.
const FETCH_LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn installed() -> bool {
    run(cargo(["deny", "--version"]).stdout(Stdio::null()).stderr(Stdio::null())).is_ok()
}

/// Licences, bans and sources: needs no network.
pub(crate) fn policy() -> Outcome {
    run(&mut cargo(["deny", "check", "licenses", "bans", "sources"])).into()
}

/// Known vulnerabilities. Fetching the database is a call of its own, so that no network is told from a finding.
pub(crate) fn advisories() -> Outcome {
    match within(FETCH_LIMIT, &mut cargo(["deny", "fetch", "db"])) {
        Err(why) => Outcome::NotRun(format!("the advisory database could not be fetched: {why}")),
        Ok(()) => run(&mut cargo(["deny", "--offline", "check", "advisories"])).into(),
    }
}

/// Runs a command for `limit` at most; an error is what it complained about, in one line.
fn within(limit: Duration, command: &mut Command) -> Result<(), String> {
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|why| format!("it could not be started: {why}"))?;
    let (said, hear) = mpsc::channel();
    if let Some(mut pipe) = child.stderr.take() {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // What was read before an error still tells something. Nobody may be listening any more.
            let _ = pipe.read_to_end(&mut bytes);
            let _ = said.send(String::from_utf8_lossy(&bytes).into_owned());
        });
    }
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => {
                // A grandchild may keep the pipe open for ever.
                let text = hear.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
                return Err(complaint(&text).unwrap_or_else(|| status.to_string()));
            }
            Ok(None) if began.elapsed() < limit => thread::sleep(Duration::from_millis(20)),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no answer within {} s", limit.as_secs()));
            }
        }
    }
}

/// The line that says what went wrong: where git was asked its own, or the first marked as an error, or the last.
fn complaint(text: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let after = |mark: &str| lines.clone().find_map(|line| line.split_once(mark).map(|(_, rest)| rest));
    after("fatal: ").or(after("[ERROR] ")).or_else(|| lines.next_back()).map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_fetch_is_told_in_one_line() {
        let text = "2026-01-01 [INFO] fetching\n2026-01-01 [ERROR] failed to fetch x: no route\n\nmore\n";
        assert_eq!(complaint(text).as_deref(), Some("failed to fetch x: no route"));
        let git = format!("{text}fatal: could not resolve host\n");
        assert_eq!(complaint(&git).as_deref(), Some("could not resolve host"));
        assert_eq!(complaint("a\nb\n").as_deref(), Some("b"));
        assert_eq!(complaint("\n"), None);
    }

    #[test]
    fn a_command_that_hangs_is_ended_at_the_limit() {
        let hung = within(Duration::from_millis(50), Command::new("sleep").arg("30"));
        assert!(hung.is_err_and(|why| why.contains("no answer")));
        assert_eq!(within(Duration::from_secs(30), &mut Command::new("true")), Ok(()));
    }

    #[test]
    fn a_command_that_fails_is_quoted() {
        let failed = within(Duration::from_secs(30), &mut cargo(["no-such-command"]));
        assert!(failed.is_err_and(|why| why.contains("no-such-command")));
    }
}
