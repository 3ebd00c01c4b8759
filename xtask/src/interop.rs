//! What tests noted: the clients of other people that they were run with, and what this machine did not have.

use std::{fs, path::PathBuf};

pub(crate) use bramah_lab::note::FILE;
use bramah_lab::note::{self, Note, PEER};

use crate::{cargo::ci, report::Report};

/// The file in which tests note it.
pub(crate) fn path() -> PathBuf {
    note::usual_file()
}

/// Forgets the run before.
pub(crate) fn begin() {
    // There may have been none.
    let _ = fs::remove_file(path());
}

/// Adds what was noted to the summary.
pub(crate) fn tell(report: &mut Report) {
    // No test that notes anything may have been run.
    let text = fs::read_to_string(path()).unwrap_or_default();
    summarize(&note::read(&text), ci(), report);
}

fn summarize(notes: &[Note], ci: bool, report: &mut Report) {
    let (peers, servers): (Vec<_>, Vec<_>) = notes.iter().partition(|note| note.kind == PEER);
    let lacking = whys(&servers);
    let absent = whys(&peers);
    for (name, whys) in [("tests of some servers", &lacking), ("interop", &absent)] {
        let whys = whys.join("; ");
        match (whys.is_empty(), ci) {
            (true, _) => {}
            (false, true) => report.fail(name, &whys),
            // The peers have a line of their own.
            (false, false) if name == "interop" => {}
            (false, false) => report.skip(name, &whys),
        }
    }
    let ran = peers.iter().filter(|note| note.missing.is_none()).count();
    let why = if absent.is_empty() { String::new() } else { format!(" ({})", absent.join("; ")) };
    report.remark(format!("interop: {ran} run, {} not run{why}", absent.len()));
}

/// What is missing, each once however many tests said so, with the first reason.
fn whys(notes: &[&Note]) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    let mut whys = Vec::new();
    for note in notes {
        if let Some(why) = &note.missing
            && !names.contains(&note.name.as_str())
        {
            names.push(&note.name);
            whys.push(format!("{}: {why}", note.name));
        }
    }
    whys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(text: &str, ci: bool) -> Vec<String> {
        let mut report = Report::default();
        summarize(&note::read(text), ci, &mut report);
        report.to_string().lines().map(String::from).collect()
    }

    #[test]
    fn nothing_noted_is_nothing_run() {
        assert_eq!(summary("", true), ["interop: 0 run, 0 not run", "0 passed, 0 failed"]);
    }

    #[test]
    fn every_peer_counts_once_with_its_first_reason() {
        let text = "peer\tran\tredis-py 6.4.0\npeer\tmissing\tjedis\tno java\npeer\tran\tredis-py 6.4.0\n\
                    peer\tmissing\tjedis\tno maven\n";
        let lines = ["interop: 1 run, 1 not run (jedis: no java)", "0 passed, 0 failed"];
        assert_eq!(summary(text, false), lines);
    }

    #[test]
    fn a_server_that_tests_missed_is_told() {
        let lines = summary("server\tmissing\tredis8\tno network\n", false);
        assert_eq!(lines[0], "not run: tests of some servers: redis8: no network");
    }

    #[test]
    fn in_ci_what_was_not_run_is_a_failure() {
        let lines = summary("server\tmissing\tredis8\tno network\npeer\tmissing\tjedis\tno java\n", true);
        assert!(lines[0].starts_with("FAILED: tests of some servers:"), "{lines:?}");
        assert!(lines[1].starts_with("FAILED: interop:"), "{lines:?}");
        assert_eq!(lines[2..], ["interop: 0 run, 1 not run (jedis: no java)", "0 passed, 2 failed"]);
    }
}
