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

/// What a command prints on a terminal that is so wide.
fn printed(lab: &Lab, columns: usize, line: &str) -> Vec<String> {
    let mut terminal = on_a_terminal(lab, &format!("stty cols {columns}; {line}; echo over"));
    let mut lines = Vec::new();
    until("the end", || {
        lines.push(terminal.line());
        lines.last().is_some_and(|line| line == "over").then_some(())
    });
    lines.pop();
    lines
}

#[test]
fn tables_fit_the_terminal_and_are_whole_elsewhere() {
    let lab = Lab::new();
    let owner = "deploy-bot@ci-runner-07.eu-west.example.com:81234";
    let reason = "hotfix 1.4.2: the payment gateway is rolled back, ask ana before you break this";
    let _holder = lab.hold("deploy/production", &["--owner", owner, "--reason", reason]);
    let _waiter =
        lab.start(&["run", "deploy/production", "--owner", owner, "--reason", reason, "--", "true"]);
    until("the waiter", || (lab.waiters("deploy/production").len() == 1).then_some(()));
    for args in [&["ls"][..], &["show", "deploy/production"]] {
        let line = format!("bramah {}", args.join(" "));
        let is_row = |line: &&String| line.contains("REASON") || line.contains("deploy-bot@");
        let narrow = printed(&lab, 80, &line);
        let rows: Vec<_> = narrow.iter().filter(is_row).collect();
        assert!(rows.len() >= 2, "{narrow:#?}");
        for row in rows {
            assert!(row.chars().count() <= 80, "{} characters: {row}", row.chars().count());
            assert!(row.contains("REASON") || row.contains("hotfix 1"), "{row}");
        }
        let id = lab.lock("deploy/production")["holders"][0]["id"].as_str().unwrap().to_owned();
        let whole = if args[0] == "ls" { "deploy/production  " } else { &id };
        assert!(narrow.iter().any(|row| row.contains(whole)), "{narrow:#?}");
        for wide in [printed(&lab, 300, &line), printed(&lab, 80, &format!("COLUMNS=300 {line}"))] {
            assert!(wide.iter().any(|row| row.contains(owner) && row.contains(reason)), "{wide:#?}");
        }
        let few = printed(&lab, 300, &format!("COLUMNS=80 {line}"));
        assert!(few.iter().filter(is_row).all(|row| row.chars().count() <= 80), "{few:#?}");
        let piped = lab.bramah(args).env("COLUMNS", "80").output().unwrap();
        let piped = crate::support::text(&piped.stdout);
        assert!(piped.contains(owner) && piped.contains(reason), "{piped}");
    }
}

#[test]
fn watch_is_for_people_on_a_terminal_unless_json_is_asked_for() {
    let lab = Lab::new();
    let mut holder = lab.hold("deploy/prod", &["--owner", "bob", "--reason", "hot\u{1b}fix"]);
    let mut json = on_a_terminal(&lab, "bramah watch --json");
    let first: serde_json::Value = serde_json::from_str(&json.line()).unwrap();
    assert_eq!((&first["event"], &first["name"]), (&"held".into(), &"deploy/prod".into()));
    let mut terminal = on_a_terminal(&lab, "bramah watch");
    let line = terminal.line();
    let (time, rest) = line.split_once("  ").unwrap();
    assert!(time.len() == 9 && time.ends_with('Z') && time.matches(':').count() == 2, "{line}");
    let rest = crate::support::timeless(rest, "held for ");
    assert_eq!(rest, "held      deploy/prod  bob (\"hot\\u{1b}fix\"), held for …");
    let mut next = lab.start(&["run", "deploy/prod", "--owner", "ana", "--", "sh", "-c", "echo in; cat"]);
    let mut then = |word: &str| {
        let line = terminal.line();
        assert!(line.contains(word), "{word}: {line}");
        line
    };
    assert!(then("waiting   deploy/prod  ana").ends_with("ana"));
    holder.let_go();
    assert!(then("released  deploy/prod  bob").contains("held for "));
    then("acquired  deploy/prod  ana");
    assert_eq!(next.line(), "in");
    let id = lab.lock("deploy/prod")["holders"][0]["id"].as_str().unwrap().to_owned();
    let broken = lab.output(&["break", "deploy/prod", "--id", &id, "--reason", "hung", "--owner", "eve"]);
    assert_eq!(broken.status.code(), Some(0));
    assert!(then("broken    deploy/prod  ana").ends_with("; by eve (\"hung\")"));
    terminal.write("\u{3}");
    assert_eq!(terminal.code(), 130);
}
