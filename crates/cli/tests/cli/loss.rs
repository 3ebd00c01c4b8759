//! A lock that is lost while its command runs.

use std::time::Duration;

use rustix::process::{Pid, Signal, test_kill_process_group};
use serde_json::Value;

use crate::support::{Running, bramah};

/// A machine may stand still for a second.
const TTL: Duration = Duration::from_secs(3);

/// A run on a store with leases, its command started; what it prints first is the number of its group.
fn lease(script: &str) -> (Running, Pid) {
    let script = format!("echo $$; {script}");
    let mut running = Running::of(bramah(&[
        "run", "a", "--engine", "memory:", "--ttl", "3s", "--json", "-q", "--", "sh", "-c", &script,
    ]));
    let group = Pid::from_raw(running.line().parse().unwrap()).unwrap();
    (running, group)
}

/// Frozen for twice its ttl, which takes that long.
fn freeze(running: &Running) {
    running.signal(Signal::STOP);
    std::thread::sleep(2 * TTL);
    running.signal(Signal::CONT);
}

fn report(talk: &str) -> (String, Value) {
    let (said, report) = talk.trim_end().split_once('\n').unwrap();
    (said.to_owned(), serde_json::from_str(report).unwrap())
}

#[test]
fn a_run_frozen_for_twice_its_ttl_ends_with_79_and_its_command_is_gone() {
    let (running, group) = lease("cat");
    freeze(&running);
    let (code, _, talk) = running.end();
    assert_eq!(code, 79, "{talk}");
    let (said, report) = report(&talk);
    assert!(said.starts_with("bramah: a was lost after "), "{said}");
    assert!(said.contains("the command was ended with SIGTERM"), "{said}");
    assert_eq!((&report["outcome"], &report["child_code"]), (&"lost".into(), &143.into()));
    assert!(test_kill_process_group(group).is_err());
}

#[test]
fn a_command_that_ignores_sigterm_is_killed_with_everything_it_started() {
    let (running, group) =
        lease("trap '' TERM; (while :; do sleep 0.05; done) & while :; do sleep 0.05; done");
    freeze(&running);
    let (code, _, talk) = running.end();
    assert_eq!(code, 79, "{talk}");
    let (said, report) = report(&talk);
    assert!(said.contains("the command was ended with SIGKILL"), "{said}");
    assert_eq!(report["child_code"], 137);
    assert!(test_kill_process_group(group).is_err());
}

#[test]
fn a_command_that_ended_while_we_were_frozen_was_not_protected_to_its_end() {
    let (mut running, _) = lease("cat");
    running.signal(Signal::STOP);
    running.let_go();
    std::thread::sleep(2 * TTL);
    running.signal(Signal::CONT);
    let (code, _, talk) = running.end();
    assert_eq!(code, 79, "{talk}");
    let (said, report) = report(&talk);
    assert!(said.contains("a was lost after ") && said.contains("ended by itself"), "{said}");
    assert_eq!(report["child_code"], 0);
}

#[test]
fn renewals_keep_a_lock_for_many_times_its_ttl() {
    let (mut running, _) = lease("cat");
    std::thread::sleep(4 * TTL);
    assert!(!running.has_ended());
    running.let_go();
    assert_eq!(running.end().0, 0);
}
