//! When a holder was last renewed: what tells one that is frozen from one that is well.

use std::process::Command;

use bramah_lab::{Etcd, MariaDb, Postgres, Redis, ZooKeeper, servers::Flavor};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Lab, Running, text, until};

/// The ttl of those who are stopped: late after 8 s, gone after 12 s.
const TTL: &str = "12s";

/// A store on a server that the test keeps.
struct Shop {
    lab: Lab,
    url: String,
}

impl Shop {
    fn at(url: impl Into<String>) -> Self {
        Self { lab: Lab::new(), url: url.into() }
    }

    /// The same for a database, which needs its tables.
    fn with_tables(url: impl Into<String>) -> Self {
        let shop = Self::at(url);
        let out = shop.bramah(&["init"]).output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        shop
    }

    fn bramah(&self, args: &[&str]) -> Command {
        let mut command = self.lab.bramah(args);
        command.env("BRAMAH_ENGINE", &self.url);
        command
    }

    fn start(&self, args: &[&str]) -> Running {
        Running::of(self.bramah(args))
    }

    #[track_caller]
    fn hold(&self, name: &str, flags: &[&str]) -> Running {
        let mut holder = self.start(&[&["run", name], flags, &["--", "sh", "-c", "echo in; cat"]].concat());
        let line = holder.line();
        assert_eq!(line, "in", "{}", holder.talk());
        holder
    }

    fn told(&self, args: &[&str]) -> String {
        text(&self.bramah(args).output().unwrap().stdout)
    }

    fn holder(&self, name: &str) -> Value {
        let lock: Value = serde_json::from_str(&self.told(&["show", name, "--json"])).unwrap();
        lock["holders"][0].clone()
    }

    fn waits(&self, name: &str, waiter: &Running) {
        until("the waiter to wait", || {
            let lock: Value = serde_json::from_str(&self.told(&["show", name, "--json"])).unwrap();
            (lock["waiters"][0]["pid"] == waiter.pid()).then_some(())
        });
    }
}

fn ms(place: &Value, key: &str) -> u64 {
    place[key].as_u64().unwrap_or_else(|| panic!("no {key} in {place}"))
}

/// A holder is renewed, then stopped: JSON, `ls` and `show` tell.
#[track_caller]
fn a_stopped_holder_is_seen_to_be_late(shop: &Shop) {
    let holder = shop.hold("a", &["--ttl", TTL]);
    assert!(ms(&shop.holder("a"), "renewed_ago_ms") < 8_000);
    let table = shop.told(&["ls"]);
    assert!(!table.contains("RENEWED"), "it is on time:\n{table}");
    // It falls back with a renewal.
    let mut most = 0;
    until("a renewal", || {
        let now = ms(&shop.holder("a"), "renewed_ago_ms");
        most = most.max(now);
        (now + 1_000 < most).then_some(())
    });
    holder.signal(Signal::STOP);
    let late = until("it to be late", || {
        Some(shop.holder("a")).filter(|holder| holder["renewed_ago_ms"].as_u64() >= Some(8_100))
    });
    let (table, page) = (shop.told(&["ls"]), shop.told(&["show", "a"]));
    let (renewed, left) = (ms(&late, "renewed_ago_ms"), ms(&late, "ttl_left_ms"));
    // etcd counts in whole seconds, and its leases are longer than the ttl.
    assert!((10_900..=15_100).contains(&(renewed + left)), "{renewed} + {left}");
    let row = table.lines().find(|line| line.starts_with("a ")).unwrap_or_else(|| panic!("{table}"));
    assert!(table.contains("RENEWED") && row.contains("s ago"), "{table}");
    let row = page.lines().find(|line| line.starts_with('h')).unwrap_or_else(|| panic!("{page}"));
    assert!(page.contains("RENEWED") && row.contains("s ago"), "{page}");
}

/// A waiter is stopped, and then granted the lock: the store keeps that for five seconds, and its expiry is not what is left
/// of a ttl of a minute.
#[track_caller]
fn a_grant_to_a_stopped_waiter_is_not_taken_for_an_old_renewal(shop: &Shop) {
    let mut holder = shop.hold("b", &["--ttl", "60s"]);
    let waiter = shop.start(&["run", "b", "--ttl", "60s", "--", "true"]);
    shop.waits("b", &waiter);
    waiter.signal(Signal::STOP);
    holder.let_go();
    let granted =
        until("the grant", || Some(shop.holder("b")).filter(|holder| holder["pid"] == waiter.pid()));
    assert!(ms(&granted, "ttl_left_ms") <= 5_000, "{granted}");
    assert!(ms(&granted, "renewed_ago_ms") <= 5_000, "{granted}");
    assert!(ms(&granted, "held_ms") <= 5_000, "{granted}");
}

/// Nothing renews a fixed lease.
#[track_caller]
fn a_fixed_lease_has_no_renewal(shop: &Shop) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let session = bramah::connect(&shop.url).await.unwrap();
        let mutex = session.mutex("c").unwrap().lease(std::time::Duration::from_secs(40));
        let guard = mutex.lock().await.unwrap();
        let holder = shop.holder("c");
        assert!(holder["renewed_ago_ms"].is_null() && ms(&holder, "ttl_left_ms") > 30_000, "{holder}");
        guard.release().await;
    });
}

#[test]
fn on_redis() {
    let server = Redis::with(Flavor::Redis7, &[]).unwrap();
    let shop = Shop::at(server.url());
    a_stopped_holder_is_seen_to_be_late(&shop);
    a_grant_to_a_stopped_waiter_is_not_taken_for_an_old_renewal(&shop);
    a_fixed_lease_has_no_renewal(&shop);
}

#[test]
fn on_redis_in_other_layouts_as_far_as_the_ttl_is_known() {
    let server = Redis::with(Flavor::Redis7, &[]).unwrap();
    let shop = Shop::at(format!("{}?layout=plain&prefix=locks:", server.url()));
    a_stopped_holder_is_seen_to_be_late(&shop);
    server.cli(&["SET", "locks:x", "hers", "PX", "30000"]).unwrap();
    let holder = shop.holder("x");
    for key in ["held_ms", "age_ms", "renewed_ago_ms"] {
        assert!(holder[key].is_null(), "{key}: {holder}");
    }
    assert!(ms(&holder, "ttl_left_ms") > 0);
    let shop = Shop::at(format!("{}?layout=redisson", server.url()));
    server.cli(&["HSET", "orders", "8743c9c0-0795-4907-87fd-6c719a6b4586:58", "1"]).unwrap();
    server.cli(&["PEXPIRE", "orders", "30000"]).unwrap();
    let holder = shop.holder("orders");
    for key in ["held_ms", "age_ms", "renewed_ago_ms"] {
        assert!(holder[key].is_null(), "{key}: {holder}");
    }
    let _ours = shop.hold("ours", &["--reason", "why"]);
    let ours = shop.holder("ours");
    assert!(ms(&ours, "renewed_ago_ms") < 30_000 && ours["held_ms"].is_null(), "{ours}");
}

#[test]
fn on_postgres() {
    let server = Postgres::start().unwrap();
    let shop = Shop::with_tables(server.url());
    a_stopped_holder_is_seen_to_be_late(&shop);
    a_grant_to_a_stopped_waiter_is_not_taken_for_an_old_renewal(&shop);
    a_fixed_lease_has_no_renewal(&shop);
    let shop = Shop::with_tables(format!("{}?mode=session", server.url()));
    let _holder = shop.hold("d", &[]);
    let holder = shop.holder("d");
    assert!(holder["renewed_ago_ms"].is_null() && holder["held_ms"].is_u64(), "{holder}");
}

#[test]
fn on_mariadb() {
    let server = MariaDb::start().unwrap();
    let shop = Shop::with_tables(server.url());
    a_stopped_holder_is_seen_to_be_late(&shop);
    a_grant_to_a_stopped_waiter_is_not_taken_for_an_old_renewal(&shop);
    a_fixed_lease_has_no_renewal(&shop);
    let shop = Shop::with_tables(format!("{}?mode=session", server.url()));
    let _holder = shop.hold("d", &[]);
    let holder = shop.holder("d");
    assert!(holder["renewed_ago_ms"].is_null() && holder["held_ms"].is_u64(), "{holder}");
}

#[test]
fn on_etcd() {
    let server = Etcd::start(Flavor::Etcd35, 1).unwrap();
    let shop = Shop::at(format!("etcd://{}/locks", server.addresses().remove(0)));
    a_stopped_holder_is_seen_to_be_late(&shop);
}

/// A node says when its claim entered, and nothing says when it was granted or last heard of.
#[test]
fn on_zookeeper_what_is_not_known_is_null() {
    let server = ZooKeeper::start(1).unwrap();
    let shop = Shop::at(format!("zookeeper://{}/locks", server.connect_string()));
    let mut first = shop.hold("a", &[]);
    let mut second = shop.start(&["run", "a", "--owner", "bob", "--", "sh", "-c", "echo in; cat"]);
    shop.waits("a", &second);
    until("some time to pass", || {
        let lock: Value = serde_json::from_str(&shop.told(&["show", "a", "--json"])).unwrap();
        (lock["waiters"][0]["age_ms"].as_u64() >= Some(300)).then_some(())
    });
    first.let_go();
    assert_eq!(second.line(), "in");
    let holder = shop.holder("a");
    assert!(holder["held_ms"].is_null() && holder["renewed_ago_ms"].is_null(), "{holder}");
    assert!(ms(&holder, "age_ms") >= 300, "{holder}");
    let table = shop.told(&["ls"]);
    let words: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(words, ["a", "held", "mutex", "bob", "-", "-", "0", "-"]);
    let out = shop.bramah(&["run", "-n", "a", "--", "true"]).output().unwrap();
    assert_eq!(text(&out.stderr), "bramah: a is busy: held by bob\n");
    // A permit has a node of its own, which is made at its grant.
    let _permit = shop.hold("b", &["--slots", "2"]);
    let permit = shop.holder("b");
    assert!(ms(&permit, "held_ms") < 60_000 && permit["age_ms"].is_null(), "{permit}");
}

/// A process that is stopped is known to be, where it is one of this machine; a lock that was left has a ttl.
#[test]
fn on_files() {
    let lab = Lab::new();
    let shop = Shop::at(lab.url());
    let holder = shop.hold("a", &[]);
    assert!(shop.holder("a")["renewed_ago_ms"].is_null());
    assert!(!shop.told(&["ls"]).contains("stopped"));
    holder.signal(Signal::STOP);
    until("it to be stopped", || (shop.holder("a")["health"] == "stopped").then_some(()));
    let table = shop.told(&["ls"]);
    assert!(table.contains("held (stopped)"), "{table}");
    shop.told(&["lock", "b", "--ttl", "1h"]);
    let left = shop.holder("b");
    let sum = ms(&left, "renewed_ago_ms") + ms(&left, "ttl_left_ms");
    assert!((3_599_000..=3_600_000).contains(&sum), "{left}");
}
