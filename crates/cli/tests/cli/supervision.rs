//! How long a command may run, what its lock's loss does to it, and what is told of it.

use std::{
    fs::File,
    os::fd::AsRawFd,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, Signal, test_kill_process},
};
use serde_json::Value;

use crate::support::{Lab, Running, bramah, path, text, until};

#[test]
fn a_command_that_runs_for_too_long_is_ended_with_124() {
    let lab = Lab::new();
    let out = lab.output(&["run", "a", "--max-run", "200ms", "--json", "--", "sleep", "1000"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(124), "{said}");
    assert!(said.contains("sleep ran for 200ms, which is the most"), "{said}");
    let report: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!((&report["outcome"], &report["child_code"]), (&"over_time".into(), &143.into()));
    let script = "trap '' TERM; while :; do sleep 0.05; done";
    let stubborn = ["run", "a", "--max-run", "100ms", "--grace", "100ms", "--", "sh", "-c", script];
    assert_eq!(lab.output(&stubborn).status.code(), Some(124));
    assert_eq!(
        lab.output(&["run", "a", "--max-run", "1h", "--", "sh", "-c", "exit 3"]).status.code(),
        Some(3)
    );
}

#[test]
fn a_lock_is_held_for_as_long_as_it_has_to_be_at_least() {
    let lab = Lab::new();
    let start = Instant::now();
    let mut holder = lab.start(&["run", "a", "--min-hold", "700ms", "--", "sh", "-c", "echo done; exit 5"]);
    assert_eq!(holder.line(), "done");
    assert_eq!(lab.output(&["run", "a", "-n", "--", "true"]).status.code(), Some(75), "it is held yet");
    assert_eq!(lab.output(&["run", "a", "--", "true"]).status.code(), Some(0));
    assert!(start.elapsed() >= Duration::from_millis(700));
    assert_eq!(holder.end().0, 5);
}

#[test]
fn a_signal_after_the_command_has_ended_ends_the_holding_on() {
    let lab = Lab::new();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1] {
        let mut holder = lab.start(&["run", "a", "--min-hold", "1h", "--", "sh", "-c", "echo $$; exit 5"]);
        let command: i32 = holder.line().parse().unwrap();
        until("the command's end", || Pid::from_raw(command).filter(|pid| test_kill_process(*pid).is_err()));
        // Whether bramah has heard of that is not to be seen from outside; what comes before goes to the command, which is gone.
        let ended = until("the end of the run", || {
            if !holder.has_ended() {
                holder.signal(signal);
            }
            holder.has_ended().then(|| holder.code())
        });
        assert_eq!(ended, 5, "{signal:?}: the command's own code");
        assert_eq!(lab.output(&["run", "a", "-n", "--", "true"]).status.code(), Some(0), "it is free");
    }
}

#[test]
fn a_run_that_is_told_to_end_does_not_hold_on_after_its_command() {
    let lab = Lab::new();
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::QUIT, 131)] {
        let mut holder =
            lab.start(&["run", "a", "--min-hold", "1h", "--", "sh", "-c", "echo in; exec sleep 1000"]);
        assert_eq!(holder.line(), "in");
        holder.signal(signal);
        // Once: it is passed on to the command, and it is meant for the whole run.
        assert_eq!(holder.code(), code, "{signal:?}");
        assert_eq!(lab.output(&["run", "a", "-n", "--", "true"]).status.code(), Some(0), "it is free");
    }
}

#[test]
fn a_lost_lock_can_end_a_command_by_another_signal_or_not_at_all() {
    let lab = Lab::new();
    let lose = |what: &str, script: &str| {
        let args = ["run", "a", "--ttl", "600ms", "--on-lost", what, "--json", "--", "sh", "-c", script];
        let mut holder = lab.start(&args);
        assert_eq!(holder.line(), "in");
        let id = lab.lock("a")["holders"][0]["id"].as_str().unwrap().to_owned();
        assert_eq!(lab.output(&["break", "a", "--id", &id, "--reason", "a test"]).status.code(), Some(0));
        holder
    };
    let trap =
        "trap 'echo hup; exit 3' HUP; trap 'echo term; exit 4' TERM; echo in; while :; do sleep 0.01; done";
    let (code, out, talk) = lose("signal:HUP", trap).end();
    assert_eq!((code, &*out), (79, "hup\n"), "{talk}");
    assert!(talk.contains("the command was ended with SIGHUP"), "{talk}");
    let (code, out, talk) = lose("term", trap).end();
    assert_eq!((code, &*out), (79, "term\n"), "{talk}");
    let (code, out, talk) = lose("kill", trap).end();
    assert_eq!((code, &*out), (79, ""), "{talk}");
    assert!(talk.contains("SIGKILL"), "{talk}");
    let check = "echo in; cat; bramah check -q; echo $?; exit 6";
    let mut kept = lose("keep", check);
    let said = kept.talk();
    assert!(said.contains("a was broken by") && said.contains("(\"a test\")"), "{said}");
    assert!(said.contains("runs on"), "{said}");
    kept.let_go();
    let (code, out, talk) = kept.end();
    assert_eq!((code, &*out), (6, "1\n"), "who asks is told that it is lost");
    let report: Value = serde_json::from_str(talk.lines().last().unwrap()).unwrap();
    assert_eq!((&report["outcome"], &report["child_code"]), (&"lost".into(), &6.into()));
}

#[test]
fn what_became_of_it_is_told_on_a_descriptor_that_the_command_does_not_have() {
    let lab = Lab::new();
    let script =
        "echo before >&3; bramah run a --status-fd 3 -- sh -c 'readlink /proc/$$/fd/3; exit 7'; echo $? >&3";
    let shell = Command::new("sh")
        .args(["-c", &format!("({script}) 3>status")])
        .env("PATH", path())
        .env("BRAMAH_ENGINE", lab.url())
        .current_dir(&lab.dir)
        .output()
        .unwrap();
    assert_eq!(text(&shell.stdout), "", "the command has it");
    let status = std::fs::read_to_string(lab.dir.join("status")).unwrap();
    let lines: Vec<&str> = status.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[2]), (3, "before", "7"), "{status}");
    let report: Value = serde_json::from_str(lines[1]).unwrap();
    assert_eq!((&report["outcome"], &report["exit"], &report["v"]), (&"ran".into(), &7.into(), &2.into()));
    let out = lab.output(&["run", "a", "--status-fd", "77", "--", "true"]);
    assert_eq!(out.status.code(), Some(64));
    assert!(text(&out.stderr).contains("--status-fd 77 is not open"));
    let out = lab.output(&["run", "a", "--status-fd", "1", "--", "echo", "mixed"]);
    assert!(text(&out.stdout).starts_with("mixed\n{\"v\":2,"));
}

#[test]
fn busy_has_the_code_that_was_asked_for_and_zero_says_nothing() {
    let lab = Lab::new();
    let _holder = lab.hold("a", &[]);
    let out = lab.output(&["run", "a", "-n", "-E", "9", "--", "true"]);
    assert_eq!(out.status.code(), Some(9));
    assert!(text(&out.stderr).contains("a is busy"));
    let out = lab.output(&["run", "a", "-n", "-E", "0", "--", "true"]);
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()));
}

#[test]
fn a_command_can_ask_whether_its_lock_is_held() {
    let lab = Lab::new();
    let bramah_check = "bramah check";
    let out = lab.output(&[
        "run",
        "a",
        "--",
        "sh",
        "-c",
        &format!("{bramah_check} && {bramah_check} -q && {bramah_check} --json"),
    ]);
    let out = text(&out.stdout);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "held", "a file lock does not go by time");
    let answer: Value = serde_json::from_str(lines[1]).unwrap();
    assert_eq!(
        (&answer["held"], &answer["name"], &answer["left_ms"]),
        (&true.into(), &"a".into(), &Value::Null)
    );
    let timed = bramah(&["run", "a", "--engine", "memory:", "--ttl", "20s", "--", "sh", "-c", bramah_check]);
    let left: u64 = text(&{ timed }.output().unwrap().stdout).trim().parse().unwrap();
    assert!((1..=20_000).contains(&left), "{left}");
    let outside = bramah(&["check"]).output().unwrap();
    assert_eq!(outside.status.code(), Some(64));
    assert!(text(&outside.stderr).contains("not inside"));
    let mut late = bramah(&["check"]);
    late.env("BRAMAH_SOCKET", "bramah-nobody").env("BRAMAH_LOCK", "a");
    let late = late.output().unwrap();
    assert_eq!((late.status.code(), &*text(&late.stderr)), (Some(1), "bramah: a is not held any more\n"));
}

#[test]
fn a_command_that_is_being_ended_is_told_that_it_does_not_hold_the_lock() {
    let lab = Lab::new();
    let script = "trap 'bramah check; echo code $?; exit 0' TERM; echo in; while :; do sleep 0.01; done";
    let mut holder = lab.start(&[
        "run",
        "a",
        "--ttl",
        "6s",
        "--grace",
        "2s",
        "--max-run",
        "100ms",
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(holder.line(), "in");
    assert_eq!(holder.line(), "code 1");
    assert_eq!(holder.end().0, 124);
}

/// Somebody keeps the ledger of a lock to himself, so the store does not answer: for as long as this lives.
fn outage(lab: &Lab) -> File {
    assert_eq!(lab.output(&["run", "a", "--", "true"]).status.code(), Some(0));
    let ledger = File::options().read(true).write(true).open(lab.dir.join("store/locks/a")).unwrap();
    flock(&ledger, FlockOperation::LockExclusive).unwrap();
    assert!(ledger.as_raw_fd() > 2);
    ledger
}

#[test]
fn without_a_store_a_run_fails_or_waits_or_runs_as_it_was_told() {
    let lab = Lab::new();
    let ledger = outage(&lab);
    let mut fails = lab.start(&["run", "a", "-w", "2s", "--", "touch", "never"]);
    let script = "echo ran:$BRAMAH_FENCE";
    let mut runs =
        lab.start(&["run", "a", "-w", "2s", "--if-down", "run", "--json", "--", "sh", "-c", script]);
    let mut waits = lab.start(&["run", "a", "--", "echo", "had"]);
    assert_eq!(runs.line(), "ran:");
    assert_eq!((fails.code(), runs.code()), (69, 0));
    let said = runs.end().2;
    assert!(said.contains("running WITHOUT the lock a"), "{said}");
    assert!(said.contains("\"outcome\":\"ran_unlocked\""), "{said}");
    assert!(waits.talk().starts_with("bramah: waiting for the store: "));
    assert!(!waits.has_ended());
    drop(ledger);
    assert_eq!(waits.line(), "had");
    assert_eq!(waits.code(), 0);
    assert!(!lab.dir.join("never").exists());
}

#[test]
fn a_loser_of_an_election_leads_when_the_leader_ends_and_campaigns_again_after_a_loss() {
    let lab = Lab::new();
    let script = "echo lead $BRAMAH_LOCK; cat";
    let elect = |value: &str| {
        lab.start(&["elect", "boss", "--ttl", "600ms", "--value", value, "--", "sh", "-c", script])
    };
    let mut one = elect("one");
    assert_eq!(one.line(), "lead boss");
    let mut two = elect("two");
    until("a candidate", || (lab.waiters("boss") == [two.pid()]).then_some(()));
    let leader = lab.lock("boss")["holders"][0].clone();
    assert_eq!(leader["reason"], "one");
    assert_eq!(lab.lock("boss")["waiters"][0]["reason"], "two");
    // Deposed: its command is ended, and it stands in line again.
    let id = leader["id"].as_str().unwrap();
    assert_eq!(lab.output(&["break", "boss", "--id", id, "--reason", "a test"]).status.code(), Some(0));
    assert_eq!(two.line(), "lead boss");
    assert!(one.talk().contains("boss was broken by"));
    until("the first to campaign again", || (lab.waiters("boss") == [one.pid()]).then_some(()));
    two.let_go();
    assert_eq!(two.end().0, 0);
    assert_eq!(one.line(), "lead boss");
    one.let_go();
    assert_eq!(one.end().0, 0, "the command's own end ends it");
}

#[test]
fn a_candidate_ends_with_a_signal_and_leaves_the_line() {
    let lab = Lab::new();
    let _leader = lab.hold("boss", &[]);
    let mut candidate = lab.start(&["elect", "boss", "--", "true"]);
    until("a candidate", || (lab.waiters("boss") == [candidate.pid()]).then_some(()));
    candidate.signal(Signal::TERM);
    assert_eq!(candidate.code(), 143);
    assert!(lab.waiters("boss").is_empty());
}

#[test]
fn the_size_of_a_window_ends_no_wait() {
    let lab = Lab::new();
    let mut holder = lab.hold("a", &[]);
    let mut command = lab.bramah(&["run", "a", "--", "echo", "mine"]);
    command.stdin(Stdio::null());
    let mut waiter = Running::of(command);
    until("the waiter", || (lab.waiters("a") == [waiter.pid()]).then_some(()));
    waiter.signal(Signal::WINCH);
    waiter.signal(Signal::WINCH);
    holder.let_go();
    assert_eq!((&*waiter.line(), waiter.code()), ("mine", 0));
}

#[test]
fn a_command_that_ends_before_bramah_learns_of_a_break_was_not_protected() {
    let lab = Lab::new();
    let mut holder = lab.start(&["run", "a", "--json", "--", "sh", "-c", "echo $$; cat"]);
    let command = holder.line();
    // A break is told at once, so bramah is frozen until its command has ended.
    holder.signal(Signal::STOP);
    let id = lab.lock("a")["holders"][0]["id"].as_str().unwrap().to_owned();
    let out = lab.output(&["break", "a", "--id", &id, "--reason", "a test", "--owner", "eve"]);
    assert_eq!(out.status.code(), Some(0));
    assert_eq!(lab.lock("a")["state"], "free");
    let page = text(&lab.output(&["show", "a"]).stdout);
    assert!(page.contains("state  free") && page.contains("by eve (\"a test\")"), "{page}");
    holder.let_go();
    until("the command's end", || {
        let stat = std::fs::read_to_string(format!("/proc/{command}/stat")).unwrap_or_default();
        (stat.is_empty() || stat.contains(") Z ")).then_some(())
    });
    holder.signal(Signal::CONT);
    let (code, _, talk) = holder.end();
    assert_eq!(code, 79, "{talk}");
    assert!(talk.contains("a was broken by eve (\"a test\") after "), "{talk}");
    assert!(talk.contains("\"outcome\":\"lost\"") && talk.contains("\"child_code\":0"), "{talk}");
}

#[test]
fn an_election_has_the_owner_as_its_value_unless_another_is_given() {
    let lab = Lab::new();
    let mut leader = lab.start(&["elect", "boss", "--", "sh", "-c", "echo in; cat"]);
    assert_eq!(leader.line(), "in");
    let held = lab.lock("boss")["holders"][0].clone();
    assert_eq!(held["reason"], held["owner"]);
    leader.let_go();
    assert_eq!(leader.code(), 0);
}
