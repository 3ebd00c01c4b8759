//! `doctor`: what a store promises, and what is wrong with it.

use serde_json::Value;

use crate::support::{Lab, bramah, text, timeless};

fn codes(report: &Value, severity: &str) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    let chosen = findings.filter(|finding| finding["severity"] == severity);
    chosen.map(|finding| finding["code"].as_str().unwrap().to_owned()).collect()
}

fn files(lab: &Lab, of: &str) -> Vec<String> {
    let entries = std::fs::read_dir(lab.dir.join("store").join(of)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_healthy_store_is_0_and_nothing_is_left_in_it() {
    let lab = Lab::new();
    let out = lab.output(&["doctor", "--json"]);
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()), "{}", text(&out.stdout));
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&report["v"], &report["healthy"]), (&2.into(), &true.into()));
    assert_eq!(report["store"], lab.url());
    assert_eq!(codes(&report, "problem"), [""; 0]);
    for (topic, word) in [
        ("excludes", "host"),
        ("order", "fifo"),
        ("crash", "when_seen"),
        ("freeze", "keeps"),
        ("detached", "yes"),
    ] {
        assert_eq!(report["promises"][topic]["is"], word, "{topic}");
    }
    for code in ["file.flock", "file.format", "store.readable", "store.lock"] {
        assert!(codes(&report, "ok").iter().any(|ok| ok == code), "{code}: {report}");
    }
    assert!(report["times"]["hand_over_us"].as_u64().unwrap() > 0);
    assert_eq!(text(&lab.output(&["ls", "--json"]).stdout), "");
    assert_eq!((files(&lab, "locks"), files(&lab, "sessions")), (vec![], vec![]));
    let mut top = files(&lab, "");
    top.sort();
    assert_eq!(top, ["format", "locks", "sessions"]);
}

#[test]
fn locks_in_use_are_left_alone() {
    let lab = Lab::new();
    let mut holder = lab.hold("deploy/prod", &[]);
    let before = lab.lock("deploy/prod");
    let out = lab.output(&["doctor"]);
    let page = text(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{page}");
    for words in ["What it promises", "first come, first served", "in use: 1", "lock and release"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert_eq!(lab.lock("deploy/prod")["fence"], before["fence"]);
    assert_eq!(files(&lab, "locks"), ["deploy%2Fprod"]);
    holder.let_go();
    assert_eq!(holder.code(), 0);
}

#[test]
fn a_damaged_ledger_is_a_problem_by_name() {
    let lab = Lab::new();
    assert_eq!(lab.output(&["run", "a", "--", "true"]).status.code(), Some(0));
    let ledger = lab.dir.join("store/locks/a");
    std::fs::write(&ledger, "\u{1b}[2Jnonsense\n").unwrap();
    let out = lab.output(&["doctor", "--json"]);
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(1), String::new()));
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(
        (&report["healthy"], codes(&report, "problem")),
        (&false.into(), vec!["store.unreadable".into()])
    );
    assert_eq!(codes(&report, "ok").last().unwrap(), "store.lock", "other locks work");
    let page = lab.output(&["doctor"]);
    let page = (page.status.code(), text(&page.stdout));
    assert_eq!(page.0, Some(1));
    let line = page.1.lines().find(|line| line.contains("problem")).unwrap();
    assert!(line.contains(ledger.to_str().unwrap()) && !page.1.contains('\u{1b}'), "{line}");
}

#[test]
fn a_url_that_is_wrong_is_an_error_and_a_store_that_cannot_be_used_a_report() {
    let lab = Lab::new();
    std::fs::write(lab.dir.join("plain"), "").unwrap();
    let look = |dir: &str| {
        let url = format!("file://{}/{dir}", lab.dir.display());
        let out = bramah(&["doctor", "--json", "--engine", &url]).output().unwrap();
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    let (code, page, said) = look("plain/store");
    assert_eq!((code, page), (Some(64), String::new()), "{said}");
    assert!(said.lines().count() == 1 && said.contains("plain/store"), "{said}");
    std::fs::create_dir(lab.dir.join("foreign")).unwrap();
    std::fs::write(lab.dir.join("foreign/format"), "something else\n").unwrap();
    let (code, page, said) = look("foreign");
    assert_eq!((code, said), (Some(65), String::new()), "{page}");
    let report: Value = serde_json::from_str(&page).unwrap();
    assert_eq!(
        (&report["v"], &report["healthy"], &report["times"]),
        (&2.into(), &false.into(), &Value::Null)
    );
    assert_eq!(codes(&report, "problem"), ["store.corrupt"]);
    assert!(report["findings"][0]["text"].as_str().unwrap().contains("foreign"), "{page}");
}

#[test]
fn memory_ends_with_the_process_and_json_is_version_two() {
    let out = bramah(&["doctor", "--json", "--engine", "memory:"]).output().unwrap();
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()));
    let expected = concat!(
        r#"{"v":2,"store":"memory:","healthy":true,"promises":{"#,
        r#""crash":{"is":"after_ttl","text":"a lock is kept by a lease that its process renews: "#,
        r#"after a crash it is free when the ttl is over","latest":{"ttl_percent":100,"more_ms":2000}},"#,
        r#""detached":{"is":"no","text":"no: nothing here outlives the process","latest":null},"#,
        r#""excludes":{"is":"process","text":"the tasks of one process that share one connection","latest":null},"#,
        r#""fence":{"is":"clocked","text":"each is larger than the one before, also after the store "#,
        r#"has lost its data, while the wall clock is right","latest":null},"#,
        r#""freeze":{"is":"expires","text":"the locks of a process that stands still go on after the ttl; "#,
        r#"what it still writes a fence must stop","latest":null},"#,
        r#""leases":{"is":"stored","text":"a fixed lease is ended by the store, also when its process "#,
        r#"stands still","latest":null},"#,
        r#""modes":{"is":"permits","text":"mutex, read-write, and permits of any number","latest":null},"#,
        r#""order":{"is":"fifo","text":"first come, first served","latest":null},"#,
        r#""wakes":{"is":"pushed","text":"a waiter is told by the store; a timer stands behind that","latest":null}},"#,
        r#""findings":[{"severity":"note","code":"memory.ends_with_process","text":"the store is in this "#,
        r#"process and ends with it; for locks between processes use file:///dir"},"#,
        r#"{"severity":"ok","code":"host.wall_clock","text":"the wall clock is past 2023, so fences can rise by it"},"#,
        r#"{"severity":"ok","code":"store.readable","text":"every lock can be read; none is in use"},"#,
        r#"{"severity":"ok","code":"store.lock","text":"a lock can be taken, handed over and released"}],"#,
        r#""times":{"open_us":…,"round_us":…,"hand_over_us":…}}"#,
    );
    assert_eq!(timeless(text(&out.stdout).trim_end(), "_us\":"), expected);
}
