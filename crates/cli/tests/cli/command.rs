//! The command that runs under a lock.

use std::{os::unix::fs::PermissionsExt, process::Command};

use rustix::process::Signal;

use crate::support::{Lab, Running, text};

#[test]
fn its_exit_code_is_ours() {
    let lab = Lab::new();
    for code in [0, 1, 7, 64, 75, 255] {
        let out = lab.output(&["run", "a", "--", "sh", "-c", &format!("exit {code}")]);
        assert_eq!(out.status.code(), Some(code));
        assert_eq!(text(&out.stderr), "");
    }
}

#[test]
fn its_death_by_a_signal_is_128_and_the_signal() {
    let lab = Lab::new();
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("INT", 130)] {
        let out = lab.output(&["run", "a", "--", "sh", "-c", &format!("kill -{signal} $$")]);
        assert_eq!(out.status.code(), Some(code));
    }
}

#[test]
fn a_command_that_is_not_there_is_127_and_one_that_cannot_run_126() {
    let lab = Lab::new();
    let out = lab.output(&["run", "a", "--", "no-such-command"]);
    assert_eq!(out.status.code(), Some(127));
    assert_eq!(text(&out.stderr), "bramah: cannot run no-such-command: not found\n");
    let file = lab.dir.join("plain");
    std::fs::write(&file, "text").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let out = lab.output(&["run", "a", "--", "./plain"]);
    assert_eq!(out.status.code(), Some(126));
    assert_eq!(
        lab.output(&["run", "a", "-n", "--", "true"]).status.code(),
        Some(0),
        "the lock is free again"
    );
}

#[test]
fn it_knows_its_lock_also_inside_of_another() {
    let lab = Lab::new();
    let print = "echo \"$BRAMAH_LOCK|$BRAMAH_FENCE|$BRAMAH_ID|$BRAMAH_STORE|$BRAMAH_TTL_MS\"";
    let inner = format!("bramah run inner --ttl 5s -- sh -c '{print}'");
    let out = lab.output(&["run", "outer/x", "--", "sh", "-c", &format!("{print}; {inner}")]);
    let out = text(&out.stdout);
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split('|').collect()).collect();
    let [outer, inner] = &lines[..] else { panic!("{out}") };
    assert_eq!((outer[0], outer[4]), ("outer/x", "30000"));
    assert_eq!((inner[0], inner[4]), ("inner", "5000"));
    assert_eq!(outer[3], lab.url());
    assert!(outer[2].starts_with('h') && outer[2].len() == 13 && outer[2] != inner[2]);
    assert!(outer[1].parse::<u64>().unwrap() < inner[1].parse::<u64>().unwrap());
}

#[test]
fn its_id_is_the_one_that_show_lists() {
    let lab = Lab::new();
    let mut holder = lab.start(&["run", "a", "--", "sh", "-c", "echo $BRAMAH_ID $BRAMAH_FENCE; cat"]);
    let line = holder.line();
    let lock = lab.lock("a");
    assert_eq!(line, format!("{} {}", lock["holders"][0]["id"].as_str().unwrap(), lock["fence"]));
    holder.let_go();
    assert_eq!(holder.end().0, 0);
}

#[test]
fn its_stdin_and_arguments_are_passed_without_a_shell() {
    let lab = Lab::new();
    let mut echo = lab.start(&["run", "a", "cat", "-"]);
    echo.write("through\n");
    echo.let_go();
    assert_eq!(echo.end(), (0, "through\n".into(), String::new()));
    let out = lab.output(&["run", "a", "--", "printf", "%s|", "$HOME", "a b", "--json", "-n"]);
    assert_eq!(text(&out.stdout), "$HOME|a b|--json|-n|");
}

#[test]
fn signals_reach_its_whole_group() {
    let lab = Lab::new();
    // The subshell is a grandchild; both answer.
    let script = "trap 'echo outer' USR1; trap 'exit 9' TERM
        (trap 'echo inner' USR1; trap 'exit 0' TERM; echo in; while :; do sleep 0.01; done) &
        while :; do sleep 0.01; done";
    let mut running = lab.start(&["run", "a", "--", "sh", "-c", script]);
    assert_eq!(running.line(), "in");
    running.signal(Signal::USR1);
    let mut heard = [running.line(), running.line()];
    heard.sort();
    assert_eq!(heard, ["inner", "outer"]);
    running.signal(Signal::TERM);
    assert_eq!(running.end().0, 9);
}

#[test]
fn what_we_were_told_to_ignore_it_ignores_too() {
    let lab = Lab::new();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_bramah")]);
    shell.args(["run", "a", "--", "sh", "-c", "grep SigIgn /proc/self/status; cat"]);
    shell.env("BRAMAH_ENGINE", lab.url());
    let mut running = Running::of(shell);
    let set = u64::from_str_radix(running.line().trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert_eq!(set & 1, 1, "SIGHUP is ignored");
    running.signal(Signal::HUP);
    running.let_go();
    assert_eq!(running.end().0, 0);
}

#[test]
fn nothing_of_the_lock_leaks_into_it() {
    let lab = Lab::new();
    let out = lab.output(&["run", "a", "--", "sh", "-c", "readlink /proc/$$/fd/*"]);
    let open = text(&out.stdout);
    assert!(open.lines().count() >= 3, "{open}");
    for word in ["store", "inotify", "eventpoll", "eventfd"] {
        assert!(!open.contains(word), "{open}");
    }
}
