//! Every verb once.

use serde_json::Value;

use super::{Shop, ends};
use crate::support::{text, timeless, until};

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn ls_show_and_check_tell_of_holders_and_waiters() {
    let shop = Shop::new();
    let mut holder = shop.hold("deploy/prod", &["--owner", "bob", "--reason", "hotfix"]);
    let waiter = shop.start(&["run", "deploy/prod", "--owner", "eve", "--", "true"]);
    shop.waits("deploy/prod", &waiter);
    let out = shop.output(&["ls", "--json"]);
    let line = json(text(&out.stdout).trim_end());
    assert_eq!((&line["name"], &line["state"]), (&"deploy/prod".into(), &"held".into()));
    let page = text(&shop.output(&["show", "deploy/prod"]).stdout);
    for words in ["deploy/prod", "mutex", "bob", "eve", "hotfix", &shop.url] {
        assert!(page.contains(words), "{words}: {page}");
    }
    holder.let_go();
    assert_eq!((holder.code(), waiter.end().0), (0, 0));
    assert_eq!(text(&shop.output(&["ls", "--json"]).stdout), "");
    let script = "bramah check && echo held";
    let out = shop.output(&["run", "a", "--", "sh", "-c", script]);
    ends(&out, 0);
    assert!(text(&out.stdout).ends_with("held\n"), "{}", text(&out.stdout));
}

#[test]
fn watch_tells_each_change_as_it_happens() {
    let shop = Shop::new();
    let mut watch = shop.start(&["watch"]);
    let mut holder = shop.hold("a", &["--owner", "bob"]);
    let event = json(&watch.line());
    assert_eq!(event["name"], "a");
    holder.let_go();
    assert_eq!(holder.code(), 0);
    until("the release", || (json(&watch.line())["event"] == "released").then_some(()));
}

#[test]
fn wait_ends_when_the_holder_does() {
    let shop = Shop::new();
    let mut holder = shop.hold("a", &["--owner", "bob"]);
    let mut waiter = shop.start(&["wait", "a", "-w", "1m"]);
    assert_eq!(timeless(&waiter.talk(), "held "), "bramah: waiting for a: held … by bob");
    holder.let_go();
    assert_eq!((waiter.code(), holder.code()), (0, 0));
}

#[test]
fn a_broken_hold_is_lost_and_the_reason_is_kept() {
    let shop = Shop::new();
    let holder = shop.hold("a", &["--owner", "bob"]);
    let (id, fence) = (shop.holder_id("a"), shop.lock("a")["fence"].as_u64().unwrap());
    let args = ["break", "a", "--id", &id, "--reason", "stuck", "--owner", "ops"];
    ends(&shop.output(&args), 0);
    let (code, _, said) = holder.end();
    assert_eq!(code, 79, "{said}");
    assert!(said.contains("ops") && said.contains("stuck"), "{said}");
    let page = text(&shop.output(&["show", "a"]).stdout);
    assert!(page.contains("stuck"), "{page}");
    let out = shop.output(&["run", "a", "-n", "--", "sh", "-c", "echo $BRAMAH_FENCE"]);
    assert!(text(&out.stdout).trim_end().parse::<u64>().unwrap() > fence);
    assert_eq!(ends(&shop.output(&args), 1).lines().count(), 1);
}

#[test]
fn a_lock_is_left_behind_renewed_and_released_by_its_handle() {
    let shop = Shop::new();
    let out = shop.output(&["lock", "a", "--ttl", "1h", "--reason", "freeze"]);
    ends(&out, 0);
    let handle = text(&out.stdout).trim_end().to_owned();
    let left = shop.lock("a")["holders"][0]["ttl_left_ms"].as_u64().unwrap();
    assert!((3_500_000..=3_600_000).contains(&left), "{left}");
    ends(&shop.output(&["run", "a", "-n", "--", "true"]), 75);
    ends(&shop.output(&["renew", "a", "--handle", &handle]), 0);
    ends(&shop.output(&["unlock", "a", "--handle", &handle]), 0);
    ends(&shop.output(&["unlock", "a", "--handle", &handle]), 1);
    ends(&shop.output(&["run", "a", "-n", "--", "true"]), 0);
    let out = shop.output(&["lock", "a", "--ttl", "700ms"]);
    ends(&out, 0);
    ends(&shop.output(&["run", "a", "-w", "20s", "--", "true"]), 0);
}

#[test]
fn readers_and_slots_stand_beside_each_other() {
    let shop = Shop::new();
    let mut readers = [shop.hold("a", &["-s"]), shop.hold("a", &["-s"])];
    ends(&shop.output(&["run", "a", "-x", "-n", "--", "true"]), 75);
    let mut slots = [shop.hold("b", &["--slots", "2"]), shop.hold("b", &["--slots", "2"])];
    ends(&shop.output(&["run", "b", "--slots", "2", "-n", "--", "true"]), 75);
    for holder in readers.iter_mut().chain(&mut slots) {
        holder.let_go();
        assert_eq!(holder.code(), 0);
    }
    ends(&shop.output(&["run", "a", "-x", "-n", "--", "true"]), 0);
}

#[test]
fn a_leader_is_followed_by_the_next_candidate() {
    let shop = Shop::new();
    let script = "echo lead $BRAMAH_FENCE; cat";
    let elect = |value| shop.start(&["elect", "boss", "--value", value, "--", "sh", "-c", script]);
    let mut one = elect("one");
    assert!(one.line().starts_with("lead "));
    let mut two = elect("two");
    shop.waits("boss", &two);
    one.let_go();
    assert_eq!(one.code(), 0);
    assert!(two.line().starts_with("lead "));
    two.let_go();
    assert_eq!(two.code(), 0);
}

#[test]
fn the_doctor_finds_a_server_healthy_that_keeps_its_data() {
    let shop = Shop::with(&[("appendonly", "yes"), ("appendfsync", "always")], "");
    let out = shop.output(&["doctor", "--json"]);
    assert_eq!(ends(&out, 0), "");
    let report = json(&text(&out.stdout));
    assert_eq!((&report["healthy"], &report["store"]), (&true.into(), &shop.url.as_str().into()));
    assert_eq!(report["promises"]["excludes"]["is"], "server");
    let bad = |finding: &&Value| finding["severity"] != "ok";
    assert_eq!(report["findings"].as_array().unwrap().iter().filter(bad).count(), 0, "{report}");
    let page = text(&shop.output(&["doctor"]).stdout);
    for words in ["What it promises", "appendfsync always", "lock and release"] {
        assert!(page.contains(words), "{words}: {page}");
    }
}
