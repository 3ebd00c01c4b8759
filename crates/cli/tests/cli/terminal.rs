//! Commands that talk to a person. `script` makes the terminal.

use std::process::Command;

use crate::support::{Lab, Running, path, until};

/// A shell with a terminal of its own that runs `line`, in which `bramah` is the command under test.
fn on_a_terminal(lab: &Lab, line: &str) -> Running {
    let mut script = Command::new("script");
    script.args(["-qec", line, "/dev/null"]).env("SHELL", "/bin/sh").env("PATH", path());
    script.env("BRAMAH_ENGINE", lab.url()).current_dir(&lab.dir);
    Running::of(script)
}

/// Reads what the terminal shows, the echo of what was typed included, until a line starts with `word`.
fn shows(terminal: &mut Running, word: &str) -> String {
    until(word, || Some(terminal.line()).filter(|line| line.starts_with(word)))
}

#[test]
fn a_command_reads_from_the_terminal_and_gives_it_back() {
    let lab = Lab::new();
    let line =
        "bramah run a -- sh -c 'echo ready; read x; echo got:$x; exit 5'; echo code:$?; read y; echo then:$y";
    let mut terminal = on_a_terminal(&lab, line);
    shows(&mut terminal, "ready");
    terminal.write("one\n");
    assert_eq!(shows(&mut terminal, "got:"), "got:one");
    assert_eq!(shows(&mut terminal, "code:"), "code:5");
    terminal.write("two\n");
    assert_eq!(shows(&mut terminal, "then:"), "then:two");
    assert_eq!(terminal.code(), 0);
}

#[test]
fn a_command_that_reads_before_the_terminal_is_its_own_is_not_left_stopped() {
    let lab = Lab::new();
    let read = "bramah run a -- sh -c 'read x; echo got:$x'";
    let mut terminal = on_a_terminal(&lab, &format!("for i in 1 2 3 4 5 6 7 8; do {read}; done; echo over"));
    for number in 1..=8 {
        terminal.write(&format!("{number}\n"));
        assert_eq!(shows(&mut terminal, "got:"), format!("got:{number}"));
    }
    shows(&mut terminal, "over");
    assert_eq!(terminal.code(), 0);
}

#[test]
fn the_rest_of_a_pipeline_keeps_the_terminal() {
    let lab = Lab::new();
    let line = "bramah run a -- echo piped | { read x; echo ready; read y < /dev/tty; echo $x:$y; }";
    let mut terminal = on_a_terminal(&lab, line);
    shows(&mut terminal, "ready");
    terminal.write("typed\n");
    shows(&mut terminal, "piped:typed");
    assert_eq!(terminal.code(), 0);
}

/// Says that it is ready when the terminal is its own: until then a key is for the shell that started us, too.
const READY: &str = "until [ $(cut -d\" \" -f8 /proc/$$/stat) = $$ ]; do :; done; echo ready";

#[test]
fn ctrl_c_reaches_the_command_once() {
    let lab = Lab::new();
    let script = format!("trap \"echo hit\" INT; {READY}; while ! read x; do :; done; echo got:$x");
    let mut terminal = on_a_terminal(&lab, &format!("bramah run a -- sh -c '{script}'; echo code:$?"));
    shows(&mut terminal, "ready");
    terminal.write("\u{3}");
    until("the trap", || Some(terminal.line()).filter(|line| line.ends_with("hit")));
    terminal.write("x\n");
    assert_eq!(shows(&mut terminal, "got:"), "got:x");
    assert_eq!(shows(&mut terminal, "code:"), "code:0");
}

#[test]
fn ctrl_z_stops_the_whole_job_and_fg_goes_on_with_it() {
    let lab = Lab::new();
    let job = format!("bramah run a -- sh -c '{READY}; read x; echo got:$x; exit 5'");
    let mut terminal = on_a_terminal(&lab, &format!("set -m; {job}; echo stopped:$?; fg; echo code:$?"));
    shows(&mut terminal, "ready");
    terminal.write("\u{1a}");
    until("the shell", || Some(terminal.line()).filter(|line| line.contains("stopped:")));
    terminal.write("x\n");
    assert_eq!(shows(&mut terminal, "got:"), "got:x");
    assert_eq!(shows(&mut terminal, "code:"), "code:5");
}

#[test]
fn on_a_terminal_who_is_waited_for_stands_in_one_line_that_goes_away() {
    let lab = Lab::new();
    let mut holder = lab.hold("a", &["--reason", "tidy\u{1b}[2Jup"]);
    let mut terminal = on_a_terminal(&lab, "stty cols 200; bramah run a -- echo mine");
    until("the waiter", || (lab.waiters("a").len() == 1).then_some(()));
    let start = std::time::Instant::now();
    let mut line = String::new();
    // Drawn after two seconds, and again and again in the same place.
    until("a line that is drawn twice", || {
        line.push_str(&terminal.some());
        (line.matches("waiting for a: held ").count() >= 2).then_some(())
    });
    assert!(start.elapsed() >= std::time::Duration::from_secs(2));
    assert!(!line.contains('\n') && line.starts_with('\r'), "{line:?}");
    assert!(line.contains("(\"tidy\\u{1b}[2Jup\"), you are 1st in line ("), "{line:?}");
    holder.let_go();
    let rest = terminal.line();
    assert!(rest.ends_with("\r\u{1b}[Kmine"), "{rest:?}");
    assert_eq!((holder.code(), terminal.code()), (0, 0));
}

#[test]
fn at_the_head_of_a_pipeline_a_killed_bramah_takes_its_command_along_and_nobody_else() {
    let lab = Lab::new();
    let script = "echo $$ > one; sleep 1000 & echo $! > two; wait";
    let mut terminal = on_a_terminal(&lab, &format!("bramah run a -- sh -c '{script}' | cat; echo after"));
    let pid = |file: &str| {
        let file = lab.dir.join(file);
        until("a pid", || std::fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok())
    };
    let command = [pid("one"), pid("two")];
    let bramah = i32::try_from(lab.lock("a")["holders"][0]["pid"].as_i64().unwrap()).unwrap();
    let bramah = rustix::process::Pid::from_raw(bramah).unwrap();
    rustix::process::kill_process(bramah, rustix::process::Signal::KILL).unwrap();
    until("the end of the command", || {
        command.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()).then_some(())
    });
    shows(&mut terminal, "after");
    assert_eq!(terminal.code(), 0);
}

#[test]
fn a_command_behind_a_pipe_can_ask_the_person_at_the_terminal() {
    let lab = Lab::new();
    let line = "echo piped | bramah run a -- sh -c 'echo ready; read y < /dev/tty; read x; echo $x:$y'";
    let mut terminal = on_a_terminal(&lab, line);
    shows(&mut terminal, "ready");
    terminal.write("typed\n");
    shows(&mut terminal, "piped:typed");
    assert_eq!(terminal.code(), 0);
}

#[test]
fn an_interrupt_reaches_a_command_that_writes_to_a_file() {
    let lab = Lab::new();
    let script = "trap \"exit 3\" INT; echo ready >&2; while :; do sleep 0.01; done";
    let line = format!("bramah run a -- sh -c '{script}' > log; echo code:$?");
    let mut terminal = on_a_terminal(&lab, &line);
    shows(&mut terminal, "ready");
    let bramah = i32::try_from(lab.lock("a")["holders"][0]["pid"].as_i64().unwrap()).unwrap();
    let bramah = rustix::process::Pid::from_raw(bramah).unwrap();
    rustix::process::kill_process(bramah, rustix::process::Signal::INT).unwrap();
    assert_eq!(shows(&mut terminal, "code:"), "code:3");
    assert_eq!(terminal.code(), 0);
}
