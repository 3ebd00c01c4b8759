//! How long a lock outlives its killed holder: what the doctor says, and what is measured.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use bramah_lab::{Etcd, MariaDb, Postgres, Redis, ZooKeeper, servers::Flavor};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Lab, Running, bramah, text, until};

/// Whole seconds with etcd's margin and slack are not much more: what is measured is not close to the bound by rounding.
const TTL: Duration = Duration::from_millis(3500);

fn on(url: &str, args: &[&str]) -> Command {
    let mut command = bramah(args);
    command.env("BRAMAH_ENGINE", url);
    command
}

/// What the doctor says of a crash: the word, and the bound with the ttl of these tests.
fn said(url: &str) -> (String, Duration) {
    let out = on(url, &["doctor", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    let crash = &report["promises"]["crash"];
    let number = |field: &str| crash["latest"][field].as_u64().unwrap_or_else(|| panic!("{field}: {crash}"));
    let part = TTL * u32::try_from(number("ttl_percent")).unwrap() / 100;
    (crash["is"].as_str().unwrap().to_owned(), part + Duration::from_millis(number("more_ms")))
}

/// From the death of a holder until the next in line has the lock. The holder has held for longer than it takes to renew.
fn measured(url: &str) -> Duration {
    let ttl = format!("{}ms", TTL.as_millis());
    let mut holder = Running::of(on(url, &["run", "a", "--ttl", &ttl, "--", "sh", "-c", "echo in; cat"]));
    assert_eq!(holder.line(), "in");
    let mut next = Running::of(on(url, &["run", "a", "--ttl", &ttl, "--", "echo", "next"]));
    until("the next to stand in line", || {
        let shown: Value =
            serde_json::from_slice(&on(url, &["show", "a", "--json"]).output().unwrap().stdout).unwrap();
        (shown["waiters"][0]["pid"] == next.pid()).then_some(())
    });
    let start = Instant::now();
    holder.signal(Signal::KILL);
    assert_eq!(next.line(), "next");
    start.elapsed()
}

/// The word, and that no lock outlives its holder for longer than the doctor says, or by a renewal less than the ttl.
#[track_caller]
fn holds(url: &str, word: &str) {
    let (is, latest) = said(url);
    let took = measured(url);
    assert_eq!(is, word);
    assert!(took <= latest, "{took:?} of {latest:?}");
    if word == "after_ttl" {
        assert!(took >= TTL / 2, "the ttl is not over after {took:?}");
    }
}

fn with_tables(url: String) -> String {
    let out = on(&url, &["init"]).output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    url
}

#[test]
fn on_files_it_is_free_when_the_process_is_gone() {
    holds(&Lab::new().url(), "when_seen");
}

#[test]
fn on_redis_it_is_free_after_the_ttl() {
    let redis = Redis::start(Flavor::Redis7).unwrap();
    holds(&redis.url(), "after_ttl");
}

#[test]
fn on_etcd_it_is_free_after_the_ttl_and_the_margin() {
    let server = Etcd::start(Flavor::Etcd35, 1).unwrap();
    holds(&format!("etcd://{}", server.addresses().remove(0)), "after_ttl");
}

#[test]
fn on_zookeeper_it_is_free_after_one_and_a_half_ttl() {
    // The tick that it has by default.
    let server = ZooKeeper::with(1, &[("tickTime", "2000")]).unwrap();
    holds(&format!("zookeeper://{}", server.connect_string()), "after_ttl");
}

#[test]
fn on_postgres_it_is_free_after_the_ttl_and_in_session_mode_at_once() {
    let server = Postgres::start().unwrap();
    let url = with_tables(server.url());
    holds(&url, "after_ttl");
    holds(&format!("{url}?mode=session"), "when_seen");
}

#[test]
fn on_mariadb_it_is_free_after_the_ttl_and_in_session_mode_at_once() {
    let server = MariaDb::start().unwrap();
    let url = with_tables(server.url());
    holds(&url, "after_ttl");
    holds(&format!("{url}?mode=session"), "when_seen");
}
