//! Locks that outlive the process that took them.

use std::{
    fs::File,
    io::{Write, pipe},
    process::{Output, Stdio},
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Lab, bramah, text, timeless, until};

/// Takes a lock and gives its handle.
#[track_caller]
fn take(lab: &Lab, args: &[&str]) -> String {
    let out = lab.output(&[&["lock"], args].concat());
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let handle = text(&out.stdout);
    assert_eq!(handle.lines().count(), 1, "{handle}");
    assert!(!text(&out.stderr).contains(handle.trim_end()), "a key, and no talk");
    handle.trim_end().to_owned()
}

/// The code and what was said.
fn answer(out: &Output) -> (Option<i32>, String) {
    (out.status.code(), text(&out.stderr))
}

fn is_free(lab: &Lab, name: &str) -> Option<()> {
    (lab.lock(name)["state"] == "free").then_some(())
}

#[test]
fn a_lock_outlives_its_process_and_is_released_by_whoever_has_the_handle() {
    let lab = Lab::new();
    let out = lab.output(&["lock", "deploy/prod", "--ttl", "4h", "--reason", "freeze", "--owner", "ana"]);
    let handle = text(&out.stdout);
    let said = "bramah: deploy/prod is held for 4h00m; release it with bramah unlock deploy/prod --handle and the \
                handle that was printed\n";
    assert_eq!(answer(&out), (Some(0), said.to_owned()));
    let lock = lab.lock("deploy/prod");
    let holder = &lock["holders"][0];
    assert_eq!((&holder["owner"], &holder["reason"]), (&"ana".into(), &"freeze".into()));
    let left = holder["ttl_left_ms"].as_u64().unwrap();
    assert!((14_000_000..=14_400_000).contains(&left), "{left}");
    assert!(text(&lab.output(&["ls"]).stdout).contains(" 3h59m "));
    let page = text(&lab.output(&["show", "deploy/prod"]).stdout);
    assert!(page.contains(" 3h59m ") && !page.contains(handle.trim_end()), "{page}");
    let busy = lab.output(&["run", "deploy/prod", "-n", "--", "true"]);
    let said = timeless(&text(&busy.stderr), "held ");
    assert_eq!(said, "bramah: deploy/prod is busy: held … by ana (\"freeze\")\n");
    let out = lab.output(&["unlock", "deploy/prod", "--handle", handle.trim_end()]);
    assert_eq!(answer(&out), (Some(0), "bramah: deploy/prod is released\n".into()));
    // What is left of the session ends with its ttl: another process may be using it.
    assert_eq!(lab.lock("deploy/prod")["state"], "free");
    let out = lab.output(&["unlock", "deploy/prod", "--handle", handle.trim_end()]);
    let gone = "bramah: deploy/prod is not held by this handle: it ran out, or was released or broken\n";
    assert_eq!(answer(&out), (Some(1), gone.into()));
    let out = lab.output(&["renew", "deploy/prod", "--handle", handle.trim_end()]);
    assert_eq!(answer(&out), (Some(79), gone.into()));
}

#[test]
fn it_ends_with_its_ttl_by_the_clock() {
    let lab = Lab::new();
    let start = Instant::now();
    let handle = take(&lab, &["a", "--ttl", "700ms"]);
    let mut next = lab.start(&["run", "a", "--", "echo", "mine"]);
    assert_eq!(next.line(), "mine");
    assert!(start.elapsed() >= Duration::from_millis(700), "{:?}", start.elapsed());
    assert_eq!(next.code(), 0);
    until("the end of the lock", || is_free(&lab, "a"));
    assert_eq!(lab.output(&["unlock", "a", "--handle", &handle]).status.code(), Some(1));
    assert_eq!(lab.output(&["renew", "a", "--handle", &handle]).status.code(), Some(79));
}

#[test]
fn a_renewal_gives_it_another_ttl() {
    let lab = Lab::new();
    let handle = take(&lab, &["a", "--ttl", "1m"]);
    let left = || lab.lock("a")["holders"][0]["ttl_left_ms"].as_u64().unwrap();
    let before = until("some time to pass", || Some(left()).filter(|left| *left < 59_900));
    let out = lab.output(&["renew", "a", "--handle", &handle]);
    assert_eq!(answer(&out), (Some(0), "bramah: a is held for 1m00s from now on\n".into()));
    assert_eq!(text(&out.stdout), "");
    let after = left();
    assert!(after > before && after <= 60_000, "{before} {after}");
}

#[test]
fn the_handle_may_come_from_stdin_or_the_environment() {
    let lab = Lab::new();
    let handle = take(&lab, &["a"]);
    let mut renewal = lab.start(&["renew", "a", "--handle", "-"]);
    renewal.write(&format!("{handle}\n"));
    assert_eq!(renewal.code(), 0);
    let mut renewal = lab.bramah(&["renew", "a"]);
    assert_eq!(renewal.env("BRAMAH_HANDLE", &handle).output().unwrap().status.code(), Some(0));
    // A pipe of two commands.
    let (reader, mut writer) = pipe().unwrap();
    writer.write_all(handle.as_bytes()).unwrap();
    drop(writer);
    let mut release = lab.bramah(&["unlock", "a"]);
    let out = release.env("BRAMAH_HANDLE", "-").stdin(reader).output().unwrap();
    assert_eq!(out.status.code(), Some(0));
    until("the lock to be free", || is_free(&lab, "a"));
}

#[test]
fn a_handle_that_is_none_is_refused_and_not_repeated() {
    let lab = Lab::new();
    let handle = take(&lab, &["a"]);
    let refusal = "bramah: that is not a handle; give what `bramah lock` printed\n";
    for verb in ["renew", "unlock"] {
        for garbage in
            ["hush", "", " ", "hush:1", &handle[..20], &lab.lock("a")["holders"][0]["id"].to_string()]
        {
            let out = lab.output(&[verb, "a", "--handle", garbage]);
            assert_eq!(answer(&out), (Some(64), refusal.into()), "{garbage}");
            let mut command = lab.start(&[verb, "a", "--handle", "-"]);
            command.write(garbage);
            command.let_go();
            assert_eq!(command.end(), (64, String::new(), refusal.into()), "{garbage}");
        }
        let out = lab.output(&[verb, "a"]);
        assert_eq!(out.status.code(), Some(64));
        assert!(text(&out.stderr).contains("BRAMAH_HANDLE"));
    }
    assert_eq!(lab.lock("a")["state"], "held");
}

#[test]
fn the_handle_of_another_lock_has_no_power() {
    let lab = Lab::new();
    let (a, b) = (take(&lab, &["a"]), take(&lab, &["b"]));
    let made_up = format!("{:032x}:1", 7);
    for handle in [&b, &made_up] {
        assert_eq!(lab.output(&["renew", "a", "--handle", handle]).status.code(), Some(79));
        let out = lab.output(&["unlock", "a", "--handle", handle]);
        assert_eq!(out.status.code(), Some(1));
        assert!(!text(&out.stderr).contains(handle.as_str()));
    }
    assert_eq!((&lab.lock("a")["state"], &lab.lock("b")["state"]), (&"held".into(), &"held".into()));
    assert_eq!(lab.output(&["unlock", "a", "--handle", &a]).status.code(), Some(0));
    assert_eq!(lab.lock("b")["state"], "held");
}

#[test]
fn a_lock_whose_handle_reaches_nobody_is_released() {
    let lab = Lab::new();
    for flags in [&[][..], &["--json"]] {
        let args = [&["lock", "a"], flags].concat();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let out = lab.bramah(&args).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(74), "{said}");
        assert!(said.contains("cannot write") && said.lines().count() == 1, "{said}");
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let out = lab.bramah(&args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(answer(&out), (Some(141), String::new()));
        assert_eq!(lab.lock("a")["state"], "free");
    }
}

#[test]
fn a_busy_lock_says_who_has_it_and_leaves_nothing() {
    let lab = Lab::new();
    let _holder = lab.hold("a", &["--owner", "bob", "--reason", "hot\u{1b}fix"]);
    let busy = "bramah: a is busy: held … by bob (\"hot\\u{1b}fix\")\n";
    for (flags, code, said) in [
        (&["-n"][..], 75, busy),
        (&["-w", "50ms"], 75, busy),
        (&["-n", "-E", "3"], 3, busy),
        (&["-n", "-q"], 75, ""),
    ] {
        let out = lab.output(&[&["lock", "a", "--ttl", "1h"], flags].concat());
        assert_eq!((out.status.code(), timeless(&text(&out.stderr), "held ").as_str()), (Some(code), said));
        assert_eq!(text(&out.stdout), "");
    }
    assert!(lab.waiters("a").is_empty());
    assert_eq!(lab.sessions(), 1, "the holder's");
}

#[test]
fn a_signal_ends_the_wait_and_gives_the_place_up() {
    let lab = Lab::new();
    let _holder = lab.hold("a", &[]);
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let waiter = lab.start(&["lock", "a", "--ttl", "1h"]);
        until("the waiter to wait", || (lab.waiters("a") == [waiter.pid()]).then_some(()));
        waiter.signal(signal);
        assert_eq!(waiter.end(), (code, String::new(), String::new()));
        assert!(lab.waiters("a").is_empty());
    }
}

#[test]
fn it_waits_in_line_for_longer_than_its_ttl_and_says_for_whom() {
    let lab = Lab::new();
    let mut holder = lab.hold("a", &["--owner", "bob"]);
    let mut waiter = lab.start(&["lock", "a", "--ttl", "500ms"]);
    let said = timeless(&waiter.talk(), "held ");
    assert_eq!(said, "bramah: waiting for a: held … by bob, you are 1st in line");
    assert_eq!(lab.waiters("a"), [waiter.pid()]);
    holder.let_go();
    let (code, handle, _) = waiter.end();
    assert_eq!((code, handle.lines().count()), (0, 1));
}

#[test]
fn a_run_waits_behind_it_and_gets_it_when_it_is_unlocked() {
    let lab = Lab::new();
    let handle = take(&lab, &["a"]);
    let mut waiter = lab.start(&["run", "a", "--", "echo", "mine"]);
    until("the waiter to wait", || (lab.waiters("a") == [waiter.pid()]).then_some(()));
    assert_eq!(lab.output(&["unlock", "a", "--handle", &handle]).status.code(), Some(0));
    assert_eq!((waiter.line(), waiter.code()), ("mine".into(), 0));
}

#[test]
fn shared_locks_and_slots_stand_beside_each_other() {
    let lab = Lab::new();
    let readers = [take(&lab, &["a", "-s"]), take(&lab, &["a", "-s"])];
    assert_eq!(lab.lock("a")["holders"].as_array().unwrap().len(), 2);
    assert_eq!(lab.output(&["lock", "a", "-x", "-n"]).status.code(), Some(75));
    for handle in &readers {
        assert_eq!(lab.output(&["unlock", "a", "--handle", handle]).status.code(), Some(0));
    }
    take(&lab, &["a", "-x", "-n"]);
    let slots = [take(&lab, &["b", "--slots", "2"]), take(&lab, &["b", "--slots", "2"])];
    assert_eq!(lab.output(&["lock", "b", "--slots", "2", "-n"]).status.code(), Some(75));
    assert_eq!(lab.output(&["unlock", "b", "--handle", &slots[0]]).status.code(), Some(0));
    take(&lab, &["b", "--slots", "2", "-n"]);
    assert_eq!(lab.output(&["lock", "b", "--slots", "3", "-n"]).status.code(), Some(64));
    assert_eq!(lab.lock("b")["holders"].as_array().unwrap().len(), 2);
}

#[test]
fn json_is_version_one() {
    let lab = Lab::new();
    let json = |args: &[&str]| {
        let out = lab.output(args);
        let value: Value = serde_json::from_slice(&out.stdout).unwrap();
        (out.status.code(), text(&out.stderr), value)
    };
    let (code, said, left) = json(&["lock", "a", "--ttl", "2m", "--json", "-q"]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let lock = lab.lock("a");
    let (id, fence) = (lock["holders"][0]["id"].clone(), lock["fence"].clone());
    let handle = left["handle"].as_str().unwrap();
    assert_eq!(
        left,
        serde_json::json!({"v": 2, "name": "a", "handle": handle, "id": id, "fence": fence, "ttl_ms": 120_000,
            "store": lab.url()})
    );
    let (code, said, renewed) = json(&["renew", "a", "--handle", handle, "--json"]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert_eq!(renewed, serde_json::json!({"v": 2, "name": "a", "id": id, "ttl_ms": 120_000}));
    for (expected, released) in [(0, true), (1, false)] {
        let (code, said, value) = json(&["unlock", "a", "--handle", handle, "--json"]);
        assert_eq!((code, said.as_str()), (Some(expected), ""));
        assert_eq!(value, serde_json::json!({"v": 2, "name": "a", "id": id, "released": released}));
    }
}

#[test]
fn a_lock_in_memory_is_refused() {
    let handle = format!("{:032x}:1", 7);
    for args in [
        &["lock", "a", "--engine", "memory:"][..],
        &["renew", "a", "--engine", "memory:", "--handle", &handle],
        &["unlock", "a", "--engine", "memory:", "--handle", &handle],
    ] {
        let out = bramah(args).output().unwrap();
        let said =
            "bramah: a lock in memory ends with this process; use another store, such as file:///dir\n";
        assert_eq!(answer(&out), (Some(64), said.into()));
        assert_eq!(text(&out.stdout), "");
    }
}

#[test]
fn while_it_waits_its_place_is_short_lived_whatever_its_ttl() {
    let lab = Lab::new();
    let mut holder = lab.hold("a", &[]);
    let mut waiter = lab.start(&["lock", "a", "--ttl", "4h", "-q"]);
    until("the waiter", || (lab.waiters("a") == [waiter.pid()]).then_some(()));
    let left = lab.lock("a")["waiters"][0]["ttl_left_ms"].as_u64().unwrap();
    assert!(left <= 30_000, "a killed one would stand in line for {left} ms");
    holder.let_go();
    assert_eq!((holder.code(), waiter.line().len() > 32, waiter.code()), (0, true, 0));
    let left = lab.lock("a")["holders"][0]["ttl_left_ms"].as_u64().unwrap();
    assert!(left > 4 * 3_600_000 - 60_000, "it was to be held for four hours, and is for {left} ms");
}
