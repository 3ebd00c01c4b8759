//! Requests that make no sense, stores that cannot be used, and what must not be said.

use crate::support::{Lab, bramah, text};

/// Refused with 64 in one line that has `word` in it.
#[track_caller]
fn refused(mut command: std::process::Command, word: &str) -> String {
    let out = command.output().unwrap();
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(64), "{said}");
    assert!(said.starts_with("bramah: ") && said.lines().count() == 1, "{said}");
    assert!(said.contains(word), "{said}");
    assert_eq!(text(&out.stdout), "");
    said
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    for (args, word) in [
        (&[][..], "subcommand"),
        (&["run"], "<NAME>"),
        (&["run", "a", "--engine", "memory:"], "no command"),
        (&["run", "a", "--engine", "memory:", "--"], "no command"),
        (&["rum", "a"], "'run'"),
        (&["run", "a", "--frob", "--", "true"], "--frob"),
        (&["run", "a", "-w", "soon", "--", "true"], "30s"),
        (&["run", "a", "-n", "-w", "3", "--", "true"], "--wait"),
        (&["run", "a//b", "--engine", "memory:", "--", "true"], "segment"),
        (&["run", "a", "--ttl", "1ms", "--engine", "memory:", "--", "true"], "100ms"),
        (&["run", "a", "--engine", "nonsense", "--", "true"], "URL"),
        (&["run", "a", "--engine", "gopher://x", "--", "true"], "gopher"),
        (&["ls", "--engine", "file://host/dir"], "host"),
        (&["show", "a\nb", "--engine", "memory:"], "control"),
        (&["run", "a", "--", "true"], "--engine"),
    ] {
        refused(bramah(args), word);
    }
    let long = "x".repeat(1025);
    refused(bramah(&["run", "a", "--engine", "memory:", "--reason", &long, "--", "true"]), "1024");
    let mut log = bramah(&["ls", "--engine", "memory:"]);
    log.env("BRAMAH_LOG", "loud");
    refused(log, "BRAMAH_LOG");
}

#[test]
fn help_and_version_are_no_failure() {
    for (args, word) in [
        (&["--help"][..], "Exit codes:"),
        (&["run", "--help"], "BRAMAH_FENCE"),
        (&["ls", "-h"], "--json"),
        (&["show", "--help"], "<NAME>"),
        (&["--version"], concat!("bramah ", env!("CARGO_PKG_VERSION"))),
    ] {
        let out = bramah(args).output().unwrap();
        assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()));
        assert!(text(&out.stdout).contains(word), "{args:?}");
    }
}

#[test]
fn secrets_are_refused_on_the_command_line_and_never_said() {
    for url in ["redis://ana:hush@h", "redis://:hush@h", "redis://h?password=hush", "redis://ana:a/hush@h"] {
        let said = refused(bramah(&["run", "a", "--engine", url, "--", "true"]), "BRAMAH_ENGINE");
        assert!(!said.contains("hush"), "{said}");
        let said = refused(bramah(&[url]), "subcommand");
        assert!(!said.contains("hush") || url.contains('?'), "{said}");
    }
    // From the environment it is taken; nobody is there.
    for log in ["", "trace"] {
        let mut command = bramah(&["run", "a", "-n", "--", "true"]);
        let url = "redis://ana:hush@127.0.0.1:1?timeout=200ms";
        let out = command.env("BRAMAH_ENGINE", url).env("BRAMAH_LOG", log).output().unwrap();
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(69), "{said}");
        assert!(said.contains("127.0.0.1:1 cannot be reached") && !said.contains("hush"), "{said}");
    }
}

#[test]
fn the_default_store_is_in_the_state_directory() {
    let lab = Lab::new();
    let print = ["run", "a", "--", "sh", "-c", "echo $BRAMAH_STORE"];
    let shown = |command: &mut std::process::Command| text(&command.output().unwrap().stdout);
    let by_home = shown(bramah(&print).env("HOME", &lab.dir));
    assert_eq!(by_home.trim_end(), format!("file://{}/.local/state/bramah", lab.dir.display()));
    let state = lab.dir.join("state");
    let by_xdg = shown(bramah(&print).env("HOME", &lab.dir).env("XDG_STATE_HOME", &state));
    assert_eq!(by_xdg.trim_end(), format!("file://{}/bramah", state.display()));
    assert!(state.join("bramah").is_dir());
}

#[test]
fn a_damaged_store_is_65_and_says_where() {
    let lab = Lab::new();
    assert_eq!(lab.output(&["run", "a", "--", "true"]).status.code(), Some(0));
    let ledger = lab.dir.join("store/locks/a");
    std::fs::write(&ledger, "\u{1b}[2Jnonsense\n").unwrap();
    for args in [&["run", "a", "--", "true"][..], &["run", "a", "-n", "--", "true"], &["show", "a"]] {
        let out = lab.output(args);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(65), "{said}");
        assert!(said.contains(ledger.to_str().unwrap()) && !said.contains('\u{1b}'), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_refused_by_name() {
    let lab = Lab::new();
    std::fs::write(lab.dir.join("plain"), "").unwrap();
    let url = format!("file://{}/plain/store", lab.dir.display());
    refused(bramah(&["run", "a", "--engine", &url, "--", "true"]), "plain/store");
}

#[test]
fn a_damaged_ledger_hides_no_other_lock() {
    let lab = Lab::new();
    let mut holder = lab.hold("whole", &[]);
    std::fs::write(lab.dir.join("store/locks/broken"), "not a ledger").unwrap();
    let out = lab.output(&["ls", "--json"]);
    assert_eq!(out.status.code(), Some(65));
    assert!(text(&out.stdout).contains("\"name\":\"whole\""), "{}", text(&out.stdout));
    assert!(text(&out.stderr).contains("locks/broken"), "{}", text(&out.stderr));
    holder.let_go();
    assert_eq!(holder.code(), 0);
}
