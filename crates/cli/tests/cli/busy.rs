//! A lock that somebody else has.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Lab, text, timeless, until};

#[test]
fn a_try_says_who_has_it_since_when_and_why() {
    let lab = Lab::new();
    let mut holder = lab.hold("deploy/prod", &["--reason", "hotfix 1.4.2"]);
    let owner = lab.lock("deploy/prod")["holders"][0]["owner"].as_str().unwrap().to_owned();
    assert!(owner.starts_with("ana@") && owner.ends_with(&format!(":{}", holder.pid())), "{owner}");
    for flags in [&["-n"][..], &["-w", "0"], &["-w", "50ms"]] {
        let out = lab.output(&[&["run", "deploy/prod"], flags, &["--", "true"]].concat());
        assert_eq!(out.status.code(), Some(75));
        let said = timeless(&text(&out.stderr), "held ");
        assert_eq!(said, format!("bramah: deploy/prod is busy: held … by {owner} (\"hotfix 1.4.2\")\n"));
    }
    let quiet = lab.output(&["run", "deploy/prod", "-n", "-q", "--", "true"]);
    assert_eq!((quiet.status.code(), text(&quiet.stderr)), (Some(75), String::new()));
    holder.let_go();
    assert_eq!(holder.end(), (0, String::new(), String::new()));
    assert_eq!(lab.output(&["run", "deploy/prod", "-n", "--", "true"]).status.code(), Some(0));
}

#[test]
fn waiting_ends_with_75_when_the_time_is_up() {
    let lab = Lab::new();
    let _holder = lab.hold("a", &[]);
    let start = Instant::now();
    let out = lab.output(&["run", "a", "-w", "0.3", "--json", "--", "true"]);
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert_eq!(out.status.code(), Some(75));
    let said = text(&out.stderr);
    let report: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(report["outcome"], "busy");
    assert_eq!((&report["exit"], &report["name"]), (&75.into(), &"a".into()));
    assert!(report["waited_ms"].as_u64().unwrap() >= 300);
    assert!(report["fence"].is_null() && report["held_ms"].is_null() && report["child_code"].is_null());
    assert!(lab.waiters("a").is_empty());
}

#[test]
fn a_waiter_gets_it_when_the_holder_ends() {
    let lab = Lab::new();
    let mut holder = lab.hold("a", &[]);
    let waiter = lab.start(&["run", "a", "-w", "1m", "--json", "-v", "--", "sh", "-c", "exit 3"]);
    until("the waiter to wait", || (lab.waiters("a") == [waiter.pid()]).then_some(()));
    holder.let_go();
    let (code, _, said) = waiter.end();
    assert_eq!(code, 3);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("bramah: a is ours after "), "{said}");
    assert!(lines[1].starts_with("bramah: a is released after "), "{said}");
    let report: Value = serde_json::from_str(lines[2]).unwrap();
    assert_eq!((&report["outcome"], &report["child_code"]), (&"ran".into(), &3.into()));
    assert!(report["fence"].as_u64().is_some() && report["held_ms"].as_u64().is_some());
}

#[test]
fn the_lock_of_a_killed_bramah_goes_to_the_next() {
    let lab = Lab::new();
    let mut holder = lab.hold("a", &[]);
    let mut waiter = lab.start(&["run", "a", "--", "echo", "mine"]);
    until("the waiter to wait", || (lab.waiters("a") == [waiter.pid()]).then_some(()));
    holder.signal(Signal::KILL);
    assert_eq!(waiter.line(), "mine");
    assert_eq!((holder.code(), waiter.code()), (-9, 0));
}
