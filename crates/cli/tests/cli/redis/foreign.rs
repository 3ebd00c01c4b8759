//! The layout that any client can share, and locks of other clients.

use super::{Shop, ends};
use crate::support::text;

#[test]
fn a_lock_of_another_client_is_seen_respected_and_can_be_broken() {
    let shop = Shop::with(&[], "?layout=plain&prefix=locks:");
    shop.redis.cli(&["SET", "locks:job", "8f3a-worker-7", "PX", "600000"]).unwrap();
    shop.redis.cli(&["SET", "locks:settings", "5"]).unwrap();
    shop.redis.cli(&["HSET", "locks:user:1", "name", "ana"]).unwrap();
    let list = text(&shop.output(&["ls"]).stdout);
    assert!(list.contains("job") && list.contains("another client's") && !list.contains("8f3a"), "{list}");
    assert!(
        !list.contains("settings") && !list.contains("user:1"),
        "what does not expire is no lock: {list}"
    );
    let page = text(&shop.output(&["show", "job"]).stdout);
    assert!(page.contains("held") && page.contains("somebody unknown"), "{page}");
    let said = ends(&shop.output(&["run", "job", "-n", "--", "true"]), 75);
    assert!(said.contains("another client's") && !said.contains("8f3a"), "{said}");
    let id = shop.holder_id("job");
    ends(&shop.output(&["break", "job", "--id", &id, "--reason", "it is gone"]), 0);
    assert_eq!(shop.redis.cli(&["EXISTS", "locks:job"]).unwrap(), "0");
    assert!(text(&shop.output(&["show", "job"]).stdout).contains("it is gone"));
    let mut holder = shop.hold("job", &[]);
    let taken = shop.redis.cli(&["SET", "locks:job", "mine", "NX", "PX", "1000"]).unwrap();
    assert_eq!(taken, "", "the other client is refused");
    holder.let_go();
    assert_eq!(holder.code(), 0);
    assert_eq!(shop.redis.cli(&["SET", "locks:job", "mine", "NX", "PX", "1000"]).unwrap(), "OK");
    assert_eq!(shop.redis.cli(&["GET", "locks:settings"]).unwrap(), "5");
}

#[test]
fn without_a_prefix_only_locks_of_ours_are_listed_and_others_are_shown_by_name() {
    let shop = Shop::with(&[], "?layout=plain");
    // A cache, somebody's session, another client's lock; locks and records of the other layouts of ours.
    for (key, value) in [
        ("cache:page:7", "<html></html>"),
        ("session:8f3a", "0f8fad5b-d9cb-469f-a165-70867728950e"),
        ("job", "8f3a-worker-7"),
    ] {
        shop.redis.cli(&["SET", key, value, "PX", "600000"]).unwrap();
    }
    let native = |args: &[&str]| {
        let out = shop.bramah(args).env("BRAMAH_ENGINE", shop.redis.url()).output().unwrap();
        ends(&out, 0);
        text(&out.stdout)
    };
    native(&["lock", "native", "--ttl", "10m"]);
    native(&["lock", "ended", "--ttl", "10m"]);
    let shown = native(&["show", "ended", "--json"]);
    let ended: serde_json::Value = serde_json::from_str(&shown).unwrap();
    native(&[
        "break",
        "ended",
        "--id",
        ended["holders"][0]["id"].as_str().unwrap(),
        "--reason",
        "it is gone",
    ]);
    ends(&shop.output(&["lock", "broken", "--ttl", "10m"]), 0);
    let id = shop.holder_id("broken");
    ends(&shop.output(&["break", "broken", "--id", &id, "--reason", "it is gone"]), 0);
    ends(&shop.output(&["lock", "ours/1", "--ttl", "10m"]), 0);
    for args in [&["ls", "--json"][..], &["ls", "--json", "ours"]] {
        let listed = text(&shop.output(args).stdout);
        let names: Vec<_> = listed
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["name"].to_string())
            .collect();
        assert_eq!(names, ["\"ours/1\""], "{args:?}: {listed}");
    }
    let none = text(&shop.output(&["ls", "--json", "cache:page:7"]).stdout);
    assert_eq!(none, "");
    // What is asked for by name is respected, whatever wrote it.
    let page = text(&shop.output(&["show", "job"]).stdout);
    assert!(page.contains("held") && page.contains("somebody unknown"), "{page}");
    ends(&shop.output(&["run", "job", "-n", "--", "true"]), 75);
}

#[test]
fn a_run_waits_for_another_client_and_is_told_of_its_release() {
    let shop = Shop::with(&[], "?layout=plain&prefix=locks:");
    shop.redis.cli(&["SET", "locks:job", "theirs", "PX", "600000"]).unwrap();
    let mut next = shop.start(&["run", "job", "--", "echo", "mine"]);
    assert!(next.talk().contains("waiting for job: held "));
    shop.redis.cli(&["DEL", "locks:job"]).unwrap();
    assert_eq!((next.line(), next.code()), ("mine".into(), 0));
}

#[test]
fn what_is_no_lock_is_not_touched_by_a_line() {
    let shop = Shop::new();
    shop.redis.cli(&["HSET", "bramah:{a}", "x", "1"]).unwrap();
    shop.redis.cli(&["SET", "bramah:{b}", "x"]).unwrap();
    for name in ["a", "b"] {
        let said = ends(&shop.output(&["run", name, "-n", "--", "true"]), 65);
        assert!(said.lines().count() == 1, "{said}");
        let said = ends(&shop.output(&["show", name]), 65);
        assert!(said.contains("not a lock") && said.lines().count() == 1, "{said}");
    }
    assert_eq!(shop.redis.cli(&["HGET", "bramah:{a}", "x"]).unwrap(), "1");
    assert_eq!(shop.redis.cli(&["GET", "bramah:{b}"]).unwrap(), "x");
    let mut holder = shop.hold("c", &[]);
    let out = shop.output(&["ls"]);
    assert!(text(&out.stdout).contains("\nc "), "{}", text(&out.stdout));
    holder.let_go();
    assert_eq!(holder.code(), 0);
}
