//! `ls` and `show`.

use serde_json::Value;

use crate::support::{Lab, bramah, text, timeless, until};

/// Words instead of columns: how wide those are is a matter of what is in them.
fn words(table: &str) -> Vec<Vec<&str>> {
    table.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn ls_lists_what_is_held_and_who_waits() {
    let lab = Lab::new();
    let _deploy = lab.hold("deploy/prod", &["--reason", "hotfix"]);
    let _other = lab.hold("deployment", &[]);
    let waiter = lab.start(&["run", "deploy/prod", "--", "true"]);
    until("the waiter to wait", || (lab.waiters("deploy/prod") == [waiter.pid()]).then_some(()));
    let owner = |name: &str| lab.lock(name)["holders"][0]["owner"].as_str().unwrap().to_owned();
    let (deploy, other) = (owner("deploy/prod"), owner("deployment"));
    let all = lab.output(&["ls"]);
    assert_eq!((all.status.code(), text(&all.stderr)), (Some(0), String::new()));
    let table = text(&all.stdout);
    let mut rows = words(&table);
    for row in &mut rows[1..] {
        row[4] = "…";
    }
    assert_eq!(
        rows,
        [
            vec!["NAME", "STATE", "MODE", "HOLDER", "SINCE", "LEFT", "WAITING", "REASON"],
            vec!["deploy/prod", "held", "mutex", &deploy, "…", "-", "1", "hotfix"],
            vec!["deployment", "held", "mutex", &other, "…", "-", "0", "-"],
        ]
    );
    for prefix in ["deploy", "deploy/", "deploy/prod"] {
        let some = text(&lab.output(&["ls", prefix]).stdout);
        assert_eq!(words(&some).len(), 2, "{some}");
    }
    let json = text(&lab.output(&["ls", "--json"]).stdout);
    let locks: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&locks[0]["name"], &locks[1]["name"]), (&"deploy/prod".into(), &"deployment".into()));
    assert_eq!(locks[0]["waiters"][0]["pid"], waiter.pid());
}

#[test]
fn nothing_held_is_said_on_stderr_and_no_failure() {
    let lab = Lab::new();
    for args in [&["ls"][..], &["ls", "deploy"]] {
        let out = lab.output(args);
        assert_eq!(out.status.code(), Some(0));
        assert_eq!((text(&out.stdout), text(&out.stderr)), (String::new(), "bramah: no locks\n".into()));
    }
    let out = lab.output(&["ls", "--json"]);
    assert_eq!((out.status.code(), out.stdout.len(), out.stderr.len()), (Some(0), 0, 0));
}

#[test]
fn looking_at_a_path_without_a_store_is_refused_and_creates_nothing() {
    let lab = Lab::new();
    let url = format!("file://{}/stroe", lab.dir.display());
    for args in [&["ls"][..], &["show", "a"], &["watch"], &["wait", "a"]] {
        let out = bramah(&[args, &["--engine", &url]].concat()).output().unwrap();
        let said = text(&out.stderr);
        assert_eq!((out.status.code(), text(&out.stdout)), (Some(64), String::new()), "{said}");
        assert!(said.lines().count() == 1 && said.contains("no such directory"), "{said}");
        assert!(!lab.dir.join("stroe").exists());
    }
    let out = bramah(&["run", "a", "--engine", "file:///", "--", "true"]).output().unwrap();
    assert_eq!(out.status.code(), Some(64), "{}", text(&out.stderr));
    let out = bramah(&["run", "a", "--engine", "file:///a%00b", "--", "true"]).output().unwrap();
    assert_eq!(out.status.code(), Some(64), "{}", text(&out.stderr));
}

#[test]
fn show_has_one_page() {
    let lab = Lab::new();
    let _holder = lab.hold("a", &["--reason", "hot\u{1b}fix"]);
    let waiter = lab.start(&["run", "a", "--", "true"]);
    until("the waiter to wait", || (lab.waiters("a") == [waiter.pid()]).then_some(()));
    let lock = lab.lock("a");
    let (holder, next) = (&lock["holders"][0], &lock["waiters"][0]);
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let out = lab.output(&["show", "a"]);
    assert_eq!(out.status.code(), Some(0));
    let page = text(&out.stdout);
    let mut rows = words(&page);
    rows[7][2] = "…";
    rows[10][3] = "…";
    let (id, owner) = (word(&holder["id"]), word(&holder["owner"]));
    let (next_id, next_owner) = (word(&next["id"]), word(&next["owner"]));
    let (url, fence) = (lab.url(), lock["fence"].to_string());
    // A folder's name may have a space in it.
    let store: Vec<&str> = ["store"].into_iter().chain(url.split_whitespace()).collect();
    assert_eq!(
        rows,
        [
            vec!["name", "a"],
            vec!["state", "held"],
            vec!["mode", "mutex"],
            vec!["fence", &fence],
            store,
            vec![],
            vec!["HOLDER", "OWNER", "HELD", "LEFT", "RENEWED", "HEALTH", "REASON"],
            vec![&id, &owner, "…", "-", "-", "running", "hot\\u{1b}fix"],
            vec![],
            vec!["PLACE", "WAITER", "OWNER", "AGE", "HEALTH", "REASON"],
            vec!["1", &next_id, &next_owner, "…", "running", "-"],
        ]
    );
}

#[test]
fn json_is_version_two() {
    let lab = Lab::new();
    let holder = lab.hold("a", &["--reason", "hot\u{1b}fix"]);
    let raw = text(&lab.output(&["show", "a", "--json"]).stdout);
    let lock: Value = serde_json::from_str(&raw).unwrap();
    let word = |key: &str| lock["holders"][0][key].as_str().unwrap().to_owned();
    let expected = format!(
        r#"{{"v":2,"name":"a","state":"held","mode":"mutex","slots":1,"fence":{fence},"holders":[{{"position":null,"id":"{id}","owner":"ana@{host}:{pid}","host":"{host}","pid":{pid},"reason":"hot\u001bfix","labels":{{}},"mode":"mutex","permits":1,"held_ms":…,"age_ms":…,"ttl_left_ms":null,"renewed_ago_ms":null,"health":"running"}}],"waiters":[],"broken":null,"store":"{store}"}}"#,
        fence = lock["fence"],
        id = word("id"),
        host = word("host"),
        pid = holder.pid(),
        store = lab.url(),
    );
    let shown = timeless(&timeless(&raw, "\"held_ms\":"), "\"age_ms\":");
    assert_eq!(shown.trim_end(), expected);
    assert_eq!(word("id").len(), 13, "a tag, not the id itself");
}

#[test]
fn a_lock_that_nobody_has_is_no() {
    let lab = Lab::new();
    let out = lab.output(&["show", "a"]);
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(1), String::new()));
    assert_eq!(text(&out.stderr), "bramah: nobody holds a or waits for it\n");
    let out = lab.output(&["show", "a", "--json"]);
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(1), String::new()));
    let lock: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&lock["state"], &lock["v"]), (&"free".into(), &2.into()));
}

#[test]
fn a_holder_whose_environment_has_no_user_is_called_as_the_system_does() {
    let lab = Lab::new();
    let uid = rustix::process::getuid().as_raw();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut known = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let user = known.find(|fields| fields.get(2).is_some_and(|number| *number == uid.to_string()));
    let user = user.map_or_else(|| format!("uid{uid}"), |fields| fields[0].to_owned());
    let mut lock = lab.bramah(&["run", "a", "--", "bramah", "show", "a", "--json"]);
    let out = lock.env_remove("USER").env_remove("LOGNAME").output().unwrap();
    let shown: Value = serde_json::from_slice(&out.stdout).unwrap();
    let owner = shown["holders"][0]["owner"].as_str().unwrap();
    assert_eq!(owner.split('@').next(), Some(&*user), "{owner}");
}
