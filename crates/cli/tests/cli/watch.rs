//! The stream of what happens.

use std::{
    io::{Read, pipe},
    os::unix::fs::FileExt,
    process::{Child, Stdio},
};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Lab, Running, text, until};

/// The next event.
#[track_caller]
fn next(watch: &mut Running) -> Value {
    let line = watch.line();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// The next event in short: what, where, who.
#[track_caller]
fn brief(watch: &mut Running) -> (String, String, u32) {
    let event = next(watch);
    let word = |key: &str| event[key].as_str().unwrap().to_owned();
    (word("event"), word("name"), u32::try_from(event["pid"].as_u64().unwrap()).unwrap())
}

fn told(what: &str, name: &str, of: &Running) -> (String, String, u32) {
    (what.to_owned(), name.to_owned(), of.pid())
}

/// A process that ends with its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn first_what_is_there_then_what_happens() {
    let lab = Lab::new();
    let mut first = lab.hold("a", &[]);
    let mut second = lab.start(&["run", "a", "--", "sh", "-c", "echo in; cat"]);
    until("the second to wait", || (lab.waiters("a") == [second.pid()]).then_some(()));
    let mut watch = lab.start(&["watch"]);
    assert_eq!(brief(&mut watch), told("held", "a", &first));
    assert_eq!(brief(&mut watch), told("waiting", "a", &second));
    let mut third = lab.start(&["run", "a", "--", "true"]);
    assert_eq!(brief(&mut watch), told("waiting", "a", &third));
    third.signal(Signal::TERM);
    assert_eq!(brief(&mut watch), told("gave_up", "a", &third));
    assert_eq!(third.code(), 143);
    first.let_go();
    assert_eq!(brief(&mut watch), told("released", "a", &first));
    assert_eq!(brief(&mut watch), told("acquired", "a", &second));
    let id = lab.lock("a")["holders"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(lab.output(&["break", "a", "--id", &id, "--reason", "hung"]).status.code(), Some(0));
    assert_eq!(brief(&mut watch), told("broken", "a", &second));
    let fourth = lab.hold("b/c", &[]);
    assert_eq!(brief(&mut watch), told("acquired", "b/c", &fourth));
    fourth.signal(Signal::KILL);
    assert_eq!(brief(&mut watch), told("released", "b/c", &fourth));
    // Long enough to be seen on a busy machine.
    assert_eq!(lab.output(&["lock", "d", "--ttl", "2s"]).status.code(), Some(0));
    for what in ["acquired", "expired"] {
        let (event, name, _) = brief(&mut watch);
        assert_eq!((event.as_str(), name.as_str()), (what, "d"));
    }
    watch.signal(Signal::TERM);
    assert_eq!(watch.end(), (143, String::new(), String::new()));
    second.let_go();
}

#[test]
fn an_event_says_who_what_and_when() {
    let lab = Lab::new();
    let _ready = lab.hold("z", &[]);
    let mut watch = lab.start(&["watch"]);
    assert_eq!(next(&mut watch)["event"], "held");
    let holder = lab.hold("a", &["--owner", "bob", "--reason", "hot\u{1b}fix", "--label", "job=8812"]);
    let acquired = next(&mut watch);
    let lock = lab.lock("a");
    let host = &lock["holders"][0]["host"];
    let id = lock["holders"][0]["id"].as_str().unwrap();
    let mut expected = serde_json::json!({
        "v": 2, "at": acquired["at"], "event": "acquired", "name": "a", "id": id, "owner": "bob", "host": host,
        "pid": holder.pid(), "reason": "hot\u{1b}fix", "labels": {"job": "8812"}, "mode": "mutex", "permits": 1,
        "fence": lock["fence"], "held_ms": acquired["held_ms"], "age_ms": acquired["age_ms"],
        "by": null, "break_reason": null, "store": lab.url(),
    });
    assert_eq!(acquired, expected);
    let at = acquired["at"].as_str().unwrap();
    assert!(at.len() == 24 && at.starts_with("20") && at.ends_with('Z'), "{at}");
    let held = until("some time to pass", || {
        lab.lock("a")["holders"][0]["held_ms"].as_u64().filter(|held| *held >= 100)
    });
    let out = lab.output(&["break", "a", "--id", id, "--reason", "ill", "--owner", "ops"]);
    assert_eq!(out.status.code(), Some(0));
    let broken = next(&mut watch);
    for (key, value) in [("event", "broken"), ("by", "ops"), ("break_reason", "ill")] {
        expected[key] = value.into();
    }
    for key in ["at", "held_ms", "age_ms"] {
        expected[key] = broken[key].clone();
    }
    assert_eq!(broken, expected);
    assert!(broken["held_ms"].as_u64().unwrap() >= held, "until it was gone");
}

#[test]
fn a_new_value_of_a_leader_is_a_change() {
    let lab = Lab::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let session = bramah::connect(&lab.url()).await.unwrap();
        let leader = session.election("billing").unwrap().campaign("10.0.0.7").await.unwrap();
        let mut watch = lab.start(&["watch", "billing"]);
        let held = next(&mut watch);
        assert_eq!((&held["event"], &held["reason"]), (&"held".into(), &"10.0.0.7".into()));
        leader.proclaim("10.0.0.8").await.unwrap();
        let changed = next(&mut watch);
        assert_eq!((&changed["event"], &changed["reason"]), (&"changed".into(), &"10.0.0.8".into()));
        leader.resign().await;
        assert_eq!(next(&mut watch)["event"], "released");
    });
}

#[test]
fn only_what_is_below_the_prefix_is_told() {
    let lab = Lab::new();
    let _one = lab.hold("deploy/prod", &[]);
    let _other = lab.hold("deployment", &[]);
    let mut watch = lab.start(&["watch", "deploy/"]);
    assert_eq!(next(&mut watch)["name"], "deploy/prod");
    let _more = lab.hold("zoo", &[]);
    let two = lab.hold("deploy", &["--slots", "5"]);
    assert_eq!(brief(&mut watch), told("acquired", "deploy", &two));
}

#[test]
fn what_cannot_be_read_is_said_once_and_has_not_ended() {
    let lab = Lab::new();
    let _damaged = lab.hold("a", &[]);
    let mut watch = lab.start(&["watch"]);
    assert_eq!(next(&mut watch)["event"], "held");
    // In one write over what is there: cut to nothing first, it would be a free lock for a moment.
    let ledger = std::fs::File::options().write(true).open(lab.dir.join("store/locks/a")).unwrap();
    ledger.write_all_at(b"\x1bnonsense", 0).unwrap();
    let said = watch.talk();
    assert!(said.contains("locks/a") && !said.contains('\u{1b}'), "{said}");
    for name in ["b", "c"] {
        let holder = lab.hold(name, &[]);
        assert_eq!(brief(&mut watch), told("acquired", name, &holder));
        drop(holder);
        assert_eq!(next(&mut watch)["event"], "released");
    }
    watch.signal(Signal::INT);
    assert_eq!(watch.end(), (130, String::new(), String::new()));
}

#[test]
fn it_ends_when_nobody_reads() {
    let lab = Lab::new();
    let _holder = lab.hold("a", &[]);
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let out = lab.bramah(&["watch"]).stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(141), String::new()));
}

#[test]
fn a_reader_that_has_stopped_reading_does_not_keep_it_from_ending() {
    let lab = Lab::new();
    let reason = "x".repeat(1000);
    for _ in 0..80 {
        let args = ["lock", "a", "--slots", "80", "-n", "-q", "--reason", &reason];
        assert_eq!(lab.output(&args).status.code(), Some(0));
    }
    let (mut reader, writer) = pipe().unwrap();
    let mut command = lab.bramah(&["watch"]);
    let mut watch = Ended(command.stdout(writer).stderr(Stdio::null()).spawn().unwrap());
    // It has the other end of the pipe as well.
    drop(command);
    until("the pipe to be full", || (rustix::io::ioctl_fionread(&reader).unwrap() > 60_000).then_some(()));
    rustix::process::kill_process(rustix::process::Pid::from_child(&watch.0), Signal::TERM).unwrap();
    let status = until("its end", || watch.0.try_wait().unwrap());
    assert_eq!(status.code(), Some(143));
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    assert!(rest.len() < 80 * 1000, "it was not through");
}

#[test]
fn a_store_that_goes_away_is_69() {
    let lab = Lab::new();
    let _holder = lab.hold("a", &[]);
    let mut watch = lab.start(&["watch"]);
    assert_eq!(next(&mut watch)["event"], "held");
    std::fs::rename(lab.dir.join("store"), lab.dir.join("away")).unwrap();
    let (code, out, said) = watch.end();
    assert_eq!((code, out.as_str(), said.lines().count()), (69, "", 1), "{said}");
}
