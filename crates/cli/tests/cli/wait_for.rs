//! Waiting until nobody holds a lock.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Lab, Running, bramah, text, timeless, until};

/// A wait for `a` that is under way for certain.
fn waiting(lab: &Lab, flags: &[&str]) -> (Running, String) {
    let mut waiter = lab.start(&[&["wait", "a"], flags].concat());
    let said = timeless(&waiter.talk(), "held ");
    (waiter, said)
}

#[test]
fn a_free_lock_is_no_wait() {
    let lab = Lab::new();
    assert_eq!(lab.output(&["run", "used/once", "--", "true"]).status.code(), Some(0));
    for args in [&["wait", "a"][..], &["wait", "a", "-n"], &["wait", "used/once", "-w", "1h"]] {
        let out = lab.output(args);
        assert_eq!((out.status.code(), out.stdout.len(), text(&out.stderr)), (Some(0), 0, String::new()));
    }
    assert_eq!(bramah(&["wait", "a", "--engine", "memory:"]).output().unwrap().status.code(), Some(0));
}

#[test]
fn it_ends_when_the_holder_does() {
    let lab = Lab::new();
    let mut holder = lab.hold("a", &["--owner", "bob", "--reason", "hot\u{1b}fix"]);
    let start = Instant::now();
    let (waiter, said) = waiting(&lab, &["-w", "1h"]);
    assert!(start.elapsed() >= Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(said, "bramah: waiting for a: held … by bob (\"hot\\u{1b}fix\")");
    assert!(lab.waiters("a").is_empty(), "it has no place in line");
    holder.let_go();
    assert_eq!(waiter.end(), (0, String::new(), String::new()));
    assert_eq!(holder.code(), 0);
}

#[test]
fn it_ends_when_the_holder_is_killed() {
    let lab = Lab::new();
    let holder = lab.hold("a", &[]);
    let (mut waiter, _) = waiting(&lab, &[]);
    holder.signal(Signal::KILL);
    assert_eq!(waiter.code(), 0);
}

#[test]
fn it_ends_when_a_detached_lock_runs_out() {
    let lab = Lab::new();
    let start = Instant::now();
    assert_eq!(lab.output(&["lock", "a", "--ttl", "800ms"]).status.code(), Some(0));
    let out = lab.output(&["wait", "a"]);
    assert_eq!(out.status.code(), Some(0));
    assert!(start.elapsed() >= Duration::from_millis(800), "{:?}", start.elapsed());
}

#[test]
fn a_held_lock_is_busy_when_the_time_is_up() {
    let lab = Lab::new();
    let _holder = lab.hold("a", &["--owner", "bob", "--reason", "hotfix"]);
    let next = lab.start(&["run", "a", "--", "true"]);
    until("somebody to wait", || (lab.waiters("a") == [next.pid()]).then_some(()));
    let busy = "bramah: a is busy: held … by bob (\"hotfix\"), 1 waiting\n";
    for (flags, code, said) in [
        (&["-n"][..], 75, busy),
        (&["-w", "0"], 75, busy),
        (&["-w", "300ms"], 75, busy),
        (&["-n", "-E", "3"], 3, busy),
        (&["-n", "-E", "0"], 0, ""),
        (&["-n", "-q"], 75, ""),
    ] {
        let start = Instant::now();
        let out = lab.output(&[&["wait", "a"], flags].concat());
        assert_eq!((out.status.code(), timeless(&text(&out.stderr), "held ").as_str()), (Some(code), said));
        assert!(!flags.contains(&"300ms") || start.elapsed() >= Duration::from_millis(300));
    }
}

#[test]
fn a_quiet_wait_says_nothing() {
    let lab = Lab::new();
    let _holder = lab.hold("a", &[]);
    let out = lab.output(&["wait", "a", "-q", "-w", "2.5"]);
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(75), String::new()));
}

#[test]
fn a_signal_ends_it() {
    let lab = Lab::new();
    let _holder = lab.hold("a", &[]);
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let (waiter, _) = waiting(&lab, &[]);
        waiter.signal(signal);
        assert_eq!(waiter.end(), (code, String::new(), String::new()));
    }
}

#[test]
fn a_store_that_cannot_be_read_is_no_free_lock() {
    let lab = Lab::new();
    assert_eq!(lab.output(&["run", "a", "--", "true"]).status.code(), Some(0));
    let path = lab.dir.join("store/locks/a");
    std::fs::write(&path, "nonsense").unwrap();
    let damaged = lab.output(&["wait", "a"]);
    assert_eq!(damaged.status.code(), Some(65), "{}", text(&damaged.stderr));
    // Somebody who writes and does not come to an end.
    let ledger = std::fs::File::open(&path).unwrap();
    ledger.lock().unwrap();
    for flags in [&["-n"][..], &["-w", "300ms"]] {
        let out = lab.output(&[&["wait", "a"], flags].concat());
        assert_eq!(out.status.code(), Some(69), "{}", text(&out.stderr));
        assert_eq!(text(&out.stderr).lines().count(), 1);
    }
}
