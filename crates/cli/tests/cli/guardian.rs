//! What happens to a command when bramah is killed or frozen.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Lab, Running, bramah, path, text, until};

/// Prints the pids of those in the file that are alive: what is left of a command.
const WHO_IS_LEFT: &str =
    "for pid in $(cat pids); do kill -0 $pid 2>/dev/null && echo $pid; done; echo asked";

fn alive(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn pids(lab: &Lab) -> Vec<i32> {
    let text = std::fs::read_to_string(lab.dir.join("pids")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn kill(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// A run of `script`, which writes `count` pids to a file, and a next one in line that looks who of them is left.
fn run_and_next(lab: &Lab, script: &str, count: usize) -> (Running, Running) {
    let holder = lab.start(&["run", "a", "--grace", "300ms", "--", "sh", "-c", script]);
    until("the command and what it starts", || (pids(lab).len() == count).then_some(()));
    let next = lab.start(&["run", "a", "--", "sh", "-c", WHO_IS_LEFT]);
    until("the next in line", || (lab.waiters("a") == [next.pid()]).then_some(()));
    (holder, next)
}

/// After `kill -9` of bramah nobody of these is left when the next one gets the lock.
fn killed(script: &str, count: usize) {
    let lab = Lab::new();
    let (mut holder, mut next) = run_and_next(&lab, script, count);
    assert!(pids(&lab).into_iter().all(alive));
    holder.signal(Signal::KILL);
    assert_eq!(next.line(), "asked", "somebody was left");
    assert_eq!((holder.code(), next.code()), (-9, 0));
}

#[test]
fn after_kill_9_nobody_of_the_group_is_left_when_the_lock_moves_on() {
    killed(
        "echo $$ >> pids; (echo $$; sleep 1000) & sh -c 'echo $$ >> pids; sleep 1000 & echo $! >> pids; wait'",
        3,
    );
}

#[test]
fn after_kill_9_a_command_that_ignores_sigterm_is_gone_before_the_lock_moves_on() {
    killed(
        "trap '' TERM; echo $$ >> pids; sh -c 'echo $$ >> pids; while :; do sleep 0.05; done' & while :; do sleep 0.05; done",
        2,
    );
}

#[test]
fn after_kill_9_a_daemon_that_left_the_group_is_gone_before_the_lock_moves_on() {
    let daemon = "trap \"\" TERM HUP; echo $$ >> pids; while :; do sleep 0.05; done";
    killed(&format!("echo $$ >> pids; setsid sh -c '{daemon}' & wait; cat"), 2);
}

#[test]
fn after_kill_9_a_stopped_command_is_gone_before_the_lock_moves_on() {
    killed("echo $$ >> pids; kill -STOP $$; sleep 1000", 1);
}

#[test]
fn the_guardian_of_a_killed_process_group_is_not_in_it() {
    let lab = Lab::new();
    // What a supervisor does that gives up: the whole group of bramah, with SIGKILL.
    let mut shell = Command::new("setsid");
    shell.args([env!("CARGO_BIN_EXE_bramah"), "run", "a", "--", "sh", "-c", "echo $$ >> pids; sleep 1000"]);
    shell.env("BRAMAH_ENGINE", lab.url()).current_dir(&lab.dir);
    let mut running = Running::of(shell);
    until("the command", || (pids(&lab).len() == 1).then_some(()));
    let bramah = lab.lock("a")["holders"][0]["pid"].as_i64().unwrap();
    let group = Pid::from_raw(i32::try_from(bramah).unwrap()).unwrap();
    rustix::process::kill_process_group(group, Signal::KILL).unwrap();
    let next = lab.output(&["run", "a", "--", "sh", "-c", WHO_IS_LEFT]);
    assert_eq!(text(&next.stdout), "asked\n");
    running.let_go();
}

#[test]
fn bramah_may_be_killed_at_any_moment() {
    let lab = Lab::new();
    // While it starts, takes the lock, starts the guardian, starts the command, runs it, releases.
    for script in ["echo $$ >> pids; sleep 1000", "echo $$ >> pids"] {
        for step in 0..40 {
            std::fs::write(lab.dir.join("pids"), "").unwrap();
            let mut running = lab.start(&["run", "a", "--grace", "0", "--", "sh", "-c", script]);
            std::thread::sleep(Duration::from_micros(500 * step));
            running.signal(Signal::KILL);
            running.code();
            let next = lab.output(&["run", "a", "-w", "20s", "--", "sh", "-c", WHO_IS_LEFT]);
            assert_eq!((next.status.code(), &*text(&next.stdout)), (Some(0), "asked\n"), "step {step}");
            // One that was about to start is not started later either.
            assert!(pids(&lab).into_iter().all(|pid| !alive(pid)), "step {step}");
        }
    }
    assert!(lab.waiters("a").is_empty());
}

#[test]
fn a_waiter_that_is_killed_is_passed_over() {
    let lab = Lab::new();
    let mut holder = lab.hold("a", &[]);
    let first = lab.start(&["run", "a", "--", "touch", "never"]);
    until("the first", || (lab.waiters("a") == [first.pid()]).then_some(()));
    let mut second = lab.start(&["run", "a", "--", "echo", "mine"]);
    until("the second", || (lab.waiters("a").len() == 2).then_some(()));
    first.signal(Signal::KILL);
    holder.let_go();
    assert_eq!(second.line(), "mine");
    assert_eq!((holder.code(), second.code()), (0, 0));
    assert!(!lab.dir.join("never").exists());
}

/// Long enough that a busy machine keeps it, as the margin is a twentieth of it.
const TTL: Duration = Duration::from_secs(4);

/// Frozen from shortly after its start on: the command has to be gone before the lease can have run out.
fn frozen(script: &str, code: i64, word: &str) {
    let lab = Lab::new();
    let mut command =
        bramah(&["run", "a", "--engine", "memory:", "--ttl", "4s", "--grace", "500ms", "--json", "-q"]);
    command.args(["--", "sh", "-c", script]).current_dir(&lab.dir);
    let running = Running::of(command);
    until("the command", || (pids(&lab).len() == 2).then_some(()));
    let start = Instant::now();
    running.signal(Signal::STOP);
    until("the end of the command", || pids(&lab).into_iter().all(|pid| !alive(pid)).then_some(()));
    let took = start.elapsed();
    assert!(took < TTL, "the command was there for {took:?} after the last renewal; the ttl is {TTL:?}");
    running.signal(Signal::CONT);
    let (status, _, talk) = running.end();
    assert_eq!(status, 79, "{talk}");
    assert!(talk.starts_with("bramah: a was lost after ") && talk.contains(word), "{talk}");
    let report: serde_json::Value = serde_json::from_str(talk.lines().last().unwrap()).unwrap();
    assert_eq!((&report["outcome"], &report["child_code"]), (&"lost".into(), &code.into()));
}

#[test]
fn while_bramah_is_frozen_the_guardian_ends_the_command_in_time() {
    frozen("echo $$ >> pids; sleep 1000 & echo $! >> pids; wait", 143, "SIGTERM");
}

#[test]
fn while_bramah_is_frozen_a_command_that_ignores_sigterm_is_killed_in_time() {
    frozen(
        "trap '' TERM; echo $$ >> pids; sh -c 'echo $$ >> pids; while :; do sleep 0.05; done' & while :; do sleep 0.05; done",
        137,
        "SIGKILL",
    );
}

#[test]
fn a_guardian_that_is_killed_takes_the_command_along() {
    let lab = Lab::new();
    let script = "echo $$ >> pids; sleep 1000 & echo $! >> pids; echo $PPID; wait";
    let mut holder = lab.start(&["run", "a", "--json", "--", "sh", "-c", script]);
    let guardian: i32 = holder.line().parse().unwrap();
    until("the command", || (pids(&lab).len() == 2).then_some(()));
    kill(guardian, Signal::KILL);
    let (code, _, talk) = holder.end();
    // 255 if it had not even told whom it has started.
    assert!([143, 255].contains(&code), "{code}: {talk}");
    assert!(talk.contains("the guardian of the command was killed"), "{talk}");
    assert!(talk.contains("\"outcome\":\"guardian_killed\""), "{talk}");
    assert!(pids(&lab).into_iter().all(|pid| !alive(pid)));
    assert_eq!(lab.output(&["run", "a", "-n", "--", "true"]).status.code(), Some(0));
}

#[test]
fn without_its_guardian_a_command_that_ignores_sigterm_is_killed_however_often_we_are_disturbed() {
    let lab = Lab::new();
    let script = "trap '' TERM USR1; echo $$ >> pids; echo $PPID; while :; do sleep 0.05; done";
    // Renewals come far more often than the grace is long.
    let args = ["run", "a", "--engine", "memory:", "--ttl", "6s", "--grace", "2s", "--", "sh", "-c", script];
    let mut command = bramah(&args);
    command.current_dir(&lab.dir);
    let mut holder = Running::of(command);
    let guardian: i32 = holder.line().parse().unwrap();
    kill(guardian, Signal::KILL);
    until("the end of the command", || {
        holder.signal(Signal::USR1);
        pids(&lab).into_iter().all(|pid| !alive(pid)).then_some(())
    });
    assert!([137, 255].contains(&holder.end().0));
}

#[test]
fn children_that_we_had_before_are_nobodys_business() {
    let lab = Lab::new();
    let line = "sleep 1000 & echo $!; exec bramah run a -- sh -c 'echo $PPID; sleep 1000'";
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).env("PATH", path()).env("BRAMAH_ENGINE", lab.url());
    let mut holder = Running::of(shell);
    let stranger: i32 = holder.line().parse().unwrap();
    let guardian: i32 = holder.line().parse().unwrap();
    kill(guardian, Signal::KILL);
    assert!([143, 255].contains(&holder.code()));
    assert!(alive(stranger));
    kill(stranger, Signal::KILL);
}

#[test]
fn a_guardian_that_is_frozen_does_not_save_the_command_of_a_lost_lock() {
    let lab = Lab::new();
    // The command does it, as soon as it can: the guardian may not have told yet that it has started it.
    let script = "trap '' TERM; kill -STOP $PPID; echo $$ >> pids; echo in; while :; do sleep 0.05; done";
    let names = ["a", "b", "c", "d", "e", "f"];
    let run = |name| lab.start(&["run", name, "--ttl", "600ms", "--", "sh", "-c", script]);
    let mut holders = names.map(run);
    for (holder, name) in holders.iter_mut().zip(names) {
        assert_eq!(holder.line(), "in");
        let id = lab.lock(name)["holders"][0]["id"].as_str().unwrap().to_owned();
        assert_eq!(lab.output(&["break", name, "--id", &id, "--reason", "a test"]).status.code(), Some(0));
    }
    for holder in holders {
        let (code, _, talk) = holder.end();
        assert_eq!(code, 79, "{talk}");
    }
    assert!(pids(&lab).len() == names.len() && pids(&lab).into_iter().all(|pid| !alive(pid)));
}

#[test]
fn nothing_of_the_guardian_is_left_after_a_normal_end() {
    let lab = Lab::new();
    let out = lab.output(&["run", "a", "--", "sh", "-c", "echo $PPID; cat /proc/$PPID/comm"]);
    let out = text(&out.stdout);
    let (guardian, name) = out.trim().split_once('\n').unwrap();
    assert!(!alive(guardian.parse().unwrap()));
    assert!(!name.contains("bramah"), "pkill bramah would hit it: {name}");
}

#[test]
fn a_daemon_that_a_command_leaves_behind_lives_on_and_does_not_hold_the_lock() {
    let lab = Lab::new();
    let script =
        "setsid sleep 1000 > /dev/null 2>&1 < /dev/null & echo $!; sleep 1000 > /dev/null 2>&1 & echo $!";
    let out = lab.output(&["run", "a", "--", "sh", "-c", script]);
    assert_eq!(out.status.code(), Some(0));
    let left: Vec<i32> = text(&out.stdout).lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(lab.output(&["run", "a", "-n", "--", "true"]).status.code(), Some(0), "it is free");
    for pid in left {
        assert!(alive(pid));
        let open = Command::new("sh").args(["-c", &format!("readlink /proc/{pid}/fd/*")]).output().unwrap();
        assert!(!text(&open.stdout).contains("store"), "{}", text(&open.stdout));
        kill(pid, Signal::KILL);
    }
}

#[test]
fn orphans_are_collected_while_the_command_runs() {
    let lab = Lab::new();
    // The middle process dies at once, and its child is the guardian's from then on.
    let script = "sh -c 'sh -c \"exit 3\" & exec true'; echo $PPID; cat";
    let mut holder = lab.start(&["run", "a", "--", "sh", "-c", script]);
    let guardian = holder.line();
    until("no zombie of the guardian", || {
        let list = Command::new("ps").args(["-o", "stat=", "--ppid", &guardian]).output().unwrap();
        (!text(&list.stdout).contains('Z')).then_some(())
    });
    holder.let_go();
    assert_eq!(holder.end().0, 0);
}
