//! What machines read: every object that is printed, with what changes from run to run taken out.

use serde_json::Value;

use bramah_lab::ZooKeeper;

use super::snapshot::Kept;
use crate::support::{Lab, Running, text, until};

/// What is another one each time. That it is there and of which kind stays to be seen.
fn is_fleeting(key: &str) -> bool {
    let of_doctor = matches!(key, "code" | "is" | "severity" | "text");
    matches!(key, "id" | "handle" | "owner" | "host" | "pid" | "fence" | "at" | "store" | "by" | "version")
        || of_doctor
        || key.ends_with("_ms")
        || key.ends_with("_us")
}

fn still(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::Number(_) if is_fleeting(key) => *value = "a number".into(),
                    Value::String(_) if is_fleeting(key) => *value = "text".into(),
                    Value::Array(all) if matches!(key.as_str(), "asked" | "fences" | "ids") => {
                        all.iter_mut().for_each(|one| *one = "another each time".into());
                    }
                    // Their number is the doctor's own affair.
                    Value::Array(all) if key == "findings" => {
                        all.truncate(1);
                        all.iter_mut().for_each(still);
                    }
                    value => still(value),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(still),
        _ => {}
    }
}

/// One object a line in, one object a paragraph out.
fn shown(lines: &str) -> String {
    let pretty = |line: &str| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["v"], 2, "{line}");
        still(&mut value);
        serde_json::to_string_pretty(&value).unwrap() + "\n"
    };
    lines.lines().filter(|line| line.starts_with('{')).map(pretty).collect()
}

#[test]
fn json_is_as_it_was() {
    let lab = Lab::new();
    let mut told = String::new();
    let mut tell = |what: &str, lines: &str| {
        let objects = shown(lines);
        assert!(!objects.is_empty(), "{what}: {lines}");
        told.push_str(&format!("$ bramah {what}\n{objects}\n"));
    };
    let out = |args: &[&str]| text(&lab.output(args).stdout);
    let err = |args: &[&str]| text(&lab.output(args).stderr);
    tell("run a --json -- true", &err(&["run", "a", "--json", "--", "true"]));
    tell("elect a --json -- true", &err(&["elect", "a", "--json", "--", "true"]));
    tell("run -l a -l b --json -- true", &err(&["run", "-l", "a", "-l", "b", "--json", "--", "true"]));
    tell("show free --json", &out(&["show", "free", "--json"]));
    let _other = lab.hold("z", &[]);
    let mut watch = lab.start(&["watch"]);
    let mut events = vec![watch.line()];
    let holder = lab.hold("a", &["--reason", "why", "--label", "team=shop"]);
    events.push(watch.line());
    tell("run a -n --json -- true    (busy)", &err(&["run", "a", "-n", "--json", "--", "true"]));
    let mut waiter = lab.start(&["run", "a", "--", "sh", "-c", "echo in; cat"]);
    until("the waiter", || (lab.waiters("a") == [waiter.pid()]).then_some(()));
    events.push(watch.line());
    tell("show a --json", &out(&["show", "a", "--json"]));
    tell("ls --json", &out(&["ls", "--json"]));
    let id = lab.lock("a")["holders"][0]["id"].as_str().unwrap().to_owned();
    tell(
        "break a --id ID --reason gone --json",
        &out(&["break", "a", "--id", &id, "--reason", "gone", "--json"]),
    );
    tell(
        "break a --id ID --json    (no such hold)",
        &out(&["break", "a", "--id", &id, "--reason", "gone", "--json"]),
    );
    tell("show a --json    (after a break)", &out(&["show", "a", "--json"]));
    events.extend([watch.line(), watch.line()]);
    waiter.let_go();
    waiter.end();
    events.push(watch.line());
    tell("watch", &events.join("\n"));
    drop((watch, holder));
    let left = out(&["lock", "c", "--ttl", "1h", "--reason", "why", "--json"]);
    tell("lock c --ttl 1h --json", &left);
    let left: Value = serde_json::from_str(&left).unwrap();
    let handle = left["handle"].as_str().unwrap();
    tell("show c --json    (a lock that was left)", &out(&["show", "c", "--json"]));
    tell("renew c --handle H --json", &out(&["renew", "c", "--handle", handle, "--json"]));
    tell("unlock c --handle H --json", &out(&["unlock", "c", "--handle", handle, "--json"]));
    tell(
        "unlock c --handle H --json    (not held any more)",
        &out(&["unlock", "c", "--handle", handle, "--json"]),
    );
    let check = "bramah check --json";
    tell("check --json", &out(&["run", "a", "-c", check]));
    tell("version --json", &out(&["version", "--json"]));
    tell("doctor --engine memory: --json", &out(&["doctor", "--engine", "memory:", "--json"]));
    let server = ZooKeeper::start(1).unwrap();
    let there = |args: &[&str]| {
        let mut command = lab.bramah(args);
        command.env("BRAMAH_ENGINE", format!("zookeeper://{}/locks", server.connect_string()));
        command
    };
    let mut holder = Running::of(there(&["run", "a", "--", "sh", "-c", "echo in; cat"]));
    assert_eq!(holder.line(), "in");
    let seen = |args: &[&str]| text(&there(args).output().unwrap().stdout);
    tell("show a --json    (on ZooKeeper)", &seen(&["show", "a", "--json"]));
    tell("revoke a --json    (on ZooKeeper)", &seen(&["revoke", "a", "--json"]));
    Kept::all([("json.txt".to_owned(), told)]).or_fail();
}
