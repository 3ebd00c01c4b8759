//! Shared, exclusive, slots, several at once.

use serde_json::Value;

use crate::support::{Lab, path, text, until};

fn is_busy(lab: &Lab, args: &[&str]) -> bool {
    let out = lab.output(&[&["run"], args, &["-n", "--", "true"]].concat());
    match out.status.code() {
        Some(0) => false,
        Some(75) => true,
        code => panic!("{code:?}: {}", text(&out.stderr)),
    }
}

#[test]
fn readers_share_and_writers_do_not() {
    let lab = Lab::new();
    let (mut one, mut two) = (lab.hold("a", &["-s"]), lab.hold("a", &["--shared"]));
    assert_eq!(lab.lock("a")["holders"].as_array().unwrap().len(), 2);
    for writer in [&["a", "-x"][..], &["a", "--exclusive"], &["a"]] {
        assert!(is_busy(&lab, writer), "{writer:?}");
    }
    for holder in [&mut one, &mut two] {
        holder.let_go();
        assert_eq!(holder.code(), 0);
    }
    let mut writer = lab.hold("a", &["-x"]);
    assert!(is_busy(&lab, &["a", "-s"]) && is_busy(&lab, &["a"]));
    writer.let_go();
    assert_eq!(writer.code(), 0);
}

#[test]
fn a_lock_without_a_flag_excludes_readers_as_flock_does() {
    let lab = Lab::new();
    let mut plain = lab.hold("a", &[]);
    assert!(is_busy(&lab, &["a", "-s"]) && is_busy(&lab, &["a", "-x"]));
    let mut reader = lab.start(&["run", "a", "-s", "--", "sh", "-c", "echo in; cat"]);
    until("the reader to wait", || (lab.waiters("a") == [reader.pid()]).then_some(()));
    plain.let_go();
    assert_eq!((plain.code(), &*reader.line()), (0, "in"));
    reader.let_go();
    assert_eq!(reader.code(), 0);
}

#[test]
fn so_many_slots_and_no_more() {
    let lab = Lab::new();
    let holders: Vec<_> = (0..3).map(|_| lab.hold("a", &["--slots", "3"])).collect();
    assert!(is_busy(&lab, &["a", "--slots", "3"]));
    let other = lab.output(&["run", "a", "--slots", "4", "-n", "--", "true"]);
    assert_eq!(other.status.code(), Some(64));
    let said = text(&other.stderr);
    assert!(said.contains("a semaphore of 3") && said.contains("a semaphore of 4"), "{said}");
    let mut waiter = lab.start(&["run", "a", "--slots", "3", "--", "echo", "in"]);
    until("the waiter", || (lab.waiters("a") == [waiter.pid()]).then_some(()));
    for mut holder in holders {
        holder.let_go();
        assert_eq!(holder.code(), 0);
    }
    assert_eq!((&*waiter.line(), waiter.code()), ("in", 0));
}

#[test]
fn several_locks_are_taken_together_or_not_at_all() {
    let lab = Lab::new();
    let print = ["--", "sh", "-c", "echo $BRAMAH_LOCK $BRAMAH_FENCE $BRAMAH_ID; cat"];
    let mut both = lab.start(&[&["run", "-l", "b", "-l", "a"], &print[..]].concat());
    let line = both.line();
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(words[0], "a,b");
    for (at, name) in ["a", "b"].into_iter().enumerate() {
        let lock = lab.lock(name);
        assert_eq!(words[1].split(',').nth(at).unwrap(), lock["fence"].to_string());
        assert_eq!(words[2].split(',').nth(at).unwrap(), lock["holders"][0]["id"].as_str().unwrap());
        assert!(is_busy(&lab, &[name]));
    }
    assert!(is_busy(&lab, &["-l", "b", "-l", "c"]));
    assert!(!is_busy(&lab, &["c"]), "what was taken on the way is released");
    both.let_go();
    assert_eq!(both.code(), 0);
}

#[test]
fn two_that_name_the_same_locks_in_another_order_do_not_wait_for_each_other() {
    let lab = Lab::new();
    let script = "for i in 1 2 3 4 5 6 7 8; do bramah run -l $0 -l $1 -- true || exit 1; done";
    let start = |first: &str, second: &str| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", script, first, second]).env("PATH", path()).env("BRAMAH_ENGINE", lab.url());
        crate::support::Running::of(shell)
    };
    let (mut one, mut two) = (start("a", "b"), start("b", "a"));
    assert_eq!((one.code(), two.code()), (0, 0));
}

#[test]
fn owner_reason_and_labels_are_shown() {
    let lab = Lab::new();
    let mut command =
        lab.bramah(&["run", "a", "--owner", "ana", "--label", "team=shop", "--reason", "why not"]);
    command.args(["--", "sh", "-c", "echo $BRAMAH_OWNER; cat"]).env("CI_JOB_URL", "https://ci/8812");
    let mut holder = crate::support::Running::of(command);
    assert_eq!(holder.line(), "ana");
    let lock = lab.lock("a");
    let place = &lock["holders"][0];
    assert_eq!((&place["owner"], &place["reason"]), (&"ana".into(), &"why not".into()));
    let labels: Value = serde_json::json!({"job": "https://ci/8812", "team": "shop"});
    assert_eq!(place["labels"], labels);
    let busy = lab.output(&["run", "a", "-n", "--", "true"]);
    assert!(
        text(&busy.stderr).contains("by ana (job https://ci/8812: \"why not\")"),
        "{}",
        text(&busy.stderr)
    );
    holder.let_go();
    assert_eq!(holder.code(), 0);
}

#[test]
fn a_shell_runs_only_when_asked_for() {
    let lab = Lab::new();
    let out = lab.output(&["run", "a", "-c", "echo $BRAMAH_LOCK; exit 4"]);
    assert_eq!((out.status.code(), &*text(&out.stdout)), (Some(4), "a\n"));
    let out = lab.output(&["run", "a", "--", "echo", "$BRAMAH_LOCK"]);
    assert_eq!(text(&out.stdout), "$BRAMAH_LOCK\n");
}

/// All of util-linux 2.38's, and those of later versions that are known.
#[test]
fn flocks_flags_are_taken_or_refused_with_the_reason() {
    let lab = Lab::new();
    for flags in [
        &["-s"][..],
        &["--shared"],
        &["-x"],
        &["-e"],
        &["--exclusive"],
        &["-n"],
        &["--nb"],
        &["--nonblock"],
        &["--nonblocking"],
        &["-w", "5"],
        &["--wait", "5"],
        &["--timeout", "0.5"],
        &["-E", "3"],
        &["--conflict-exit-code", "3"],
        &["-o"],
        &["--close"],
        &["--verbose"],
    ] {
        let out = lab.output(&[&["run"], flags, &["a", "--", "echo", "ran"]].concat());
        assert_eq!(
            (out.status.code(), text(&out.stdout)),
            (Some(0), "ran\n".into()),
            "{flags:?}: {}",
            text(&out.stderr)
        );
        let out = lab.output(&[&["run"], flags, &["a", "-c", "echo ran"]].concat());
        assert_eq!((out.status.code(), text(&out.stdout)), (Some(0), "ran\n".into()), "{flags:?}");
    }
    let _holder = lab.hold("a", &[]);
    for flags in [&["-n"][..], &["--nb"], &["--nonblock"], &["-e", "--nonblocking"]] {
        let out = lab.output(&[&["run"], flags, &["a", "--", "echo", "ran"]].concat());
        assert_eq!((out.status.code(), text(&out.stdout)), (Some(75), String::new()), "{flags:?}");
    }
    for (flag, why) in [
        ("-F", "renew the lock"),
        ("--no-fork", "renew the lock"),
        ("-u", "bramah unlock"),
        ("--unlock", "bramah unlock"),
        ("--fcntl", "no file"),
    ] {
        let out = lab.output(&["run", flag, "a", "--", "echo", "ran"]);
        let said = text(&out.stderr);
        assert_eq!((out.status.code(), text(&out.stdout)), (Some(64), String::new()), "{flag}: {said}");
        assert!(said.contains(flag) && said.contains(why) && said.lines().count() == 1, "{flag}: {said}");
    }
}
