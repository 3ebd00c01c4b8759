//! A run inside of a run.

use crate::support::{Lab, bramah, text};

#[test]
fn a_lock_that_the_run_around_holds_is_refused_with_a_clear_word() {
    let lab = Lab::new();
    for flags in ["", "-n", "-s", "-w 5s", "--slots 2"] {
        let inner = format!("bramah run deploy {flags} -- touch never");
        let out = lab.output(&["run", "deploy", "--", "sh", "-c", &inner]);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(64), "{flags}: {said}");
        assert!(said.contains("deploy is held by the run that this one is inside of"), "{said}");
    }
    assert!(!lab.dir.join("never").exists());
}

#[test]
fn also_over_several_runs_in_between_and_with_several_locks() {
    let lab = Lab::new();
    let innermost = "bramah run -l z -l outer -- touch never";
    let inner = format!("bramah run inner -- {innermost}");
    let out = lab.output(&["run", "-l", "other", "-l", "outer", "--", "sh", "-c", &inner]);
    assert_eq!(out.status.code(), Some(64), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("outer is held by the run"), "{}", text(&out.stderr));
}

#[test]
fn a_run_inside_reaches_the_same_store_however_that_was_named() {
    let lab = Lab::new();
    let store = lab.dir.join("by flag");
    let url = format!("file://{}", store.display());
    let inner = "bramah ls --json";
    let out = bramah(&["run", "outer", "--engine", &url, "--", "sh", "-c", inner])
        .env("BRAMAH_ENGINE", lab.url())
        .output()
        .unwrap();
    assert!(text(&out.stdout).contains("\"name\":\"outer\""), "{}", text(&out.stdout));
    let by_default = bramah(&["run", "outer", "--", "sh", "-c", &format!("HOME=/nowhere {inner}")])
        .env("HOME", &lab.dir)
        .output()
        .unwrap();
    assert!(text(&by_default.stdout).contains("\"name\":\"outer\""), "{}", text(&by_default.stderr));
}

#[test]
fn what_the_run_around_has_lost_or_never_had_is_not_refused() {
    let lab = Lab::new();
    let other = Lab::new();
    // The same name on another store is another lock.
    let inner = format!("bramah run a --engine '{}' -- echo in", other.url());
    let out = lab.output(&["run", "a", "--", "sh", "-c", &inner]);
    assert_eq!((out.status.code(), &*text(&out.stdout)), (Some(0), "in\n"), "{}", text(&out.stderr));
    let mut stale = lab.bramah(&["run", "a", "--", "echo", "in"]);
    stale.env("BRAMAH_HELD", "h0123456789ab,nonsense");
    assert_eq!(text(&stale.output().unwrap().stdout), "in\n");
}

#[test]
fn a_detached_lock_of_the_run_around_is_refused_too() {
    let lab = Lab::new();
    let out = lab.output(&["run", "a", "--", "sh", "-c", "bramah lock a"]);
    assert_eq!((out.status.code(), &*text(&out.stdout)), (Some(64), ""), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("a is held by the run"), "{}", text(&out.stderr));
}

#[test]
fn waiting_for_the_run_around_is_refused() {
    let lab = Lab::new();
    let out = lab.output(&["run", "a", "--", "sh", "-c", "bramah wait a"]);
    assert_eq!(out.status.code(), Some(64), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("a is held by the run"), "{}", text(&out.stderr));
}
