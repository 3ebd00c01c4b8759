//! What the doctor finds, word by word: on real servers, but for a Redis that takes this machine for another one.

use std::{
    io::{Read, Write},
    net::TcpListener,
    time::Duration,
};

use bramah_lab::{
    Etcd, MariaDb, Postgres, Redis, Replicated, Sentinels, ShiftedClock, ZooKeeper, servers::Flavor,
};

use super::snapshot::Kept;
use crate::support::{bramah, text, timeless};

const DURABLE: [(&str, &str); 2] = [("appendonly", "yes"), ("appendfsync", "always")];

/// What the doctor says of a store, compared with what is kept. `hidden` is what differs from day to day, and what it is
/// replaced by.
#[track_caller]
fn look(case: &str, url: &str, code: i32, hidden: &[(&str, &str)]) {
    let out = bramah(&["doctor"]).env("BRAMAH_ENGINE", url).output().unwrap();
    let page = text(&out.stdout);
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(code), String::new()), "{page}");
    assert!(!page.contains("hush"), "{page}");
    let (_, found) = page.split_once("What was found\n").unwrap();
    let found = found.split("\nHow long it takes").next().unwrap();
    let mut found = ["question takes ", "write takes ", "clock is within "]
        .iter()
        .fold(found.to_owned(), |text, mark| timeless(&text, mark));
    for (day, kept) in hidden {
        found = found.replace(day, kept);
    }
    // How many there are depends on the moment.
    let rows = found.lines().map(|row| match row.split_once(" connections are in use") {
        Some((_, rest)) => format!("  ok       SOME connections are in use{rest}\n"),
        None => format!("{row}\n"),
    });
    found = rows.collect();
    Kept::all([(format!("doctor-{case}.txt"), format!("{found}exit {code}\n"))]).or_fail();
}

fn look_at_redis(case: &str, redis: &Redis, url: &str, code: i32) {
    look(case, url, code, &[(&redis.address(), "HOST:6379"), (redis.version(), "VERSION")]);
}

#[test]
fn redis_that_evicts() {
    let options = [&DURABLE[..], &[("maxmemory", "100mb"), ("maxmemory-policy", "allkeys-lru")]].concat();
    let redis = Redis::with(Flavor::Redis7, &options).unwrap();
    look_at_redis("redis-allkeys-lru", &redis, &redis.url(), 1);
}

#[test]
fn redis_without_persistence() {
    let redis = Redis::start(Flavor::Redis7).unwrap();
    look_at_redis("redis-no-persistence", &redis, &redis.url(), 0);
}

/// Redis says it to other machines only, once, and closes. Here it is said to each of the first commands, so that nothing
/// depends on who is faster.
#[test]
fn redis_in_protected_mode() {
    const DENIED: &str = "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set \
                          for the default user.\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let _ = client.write_all(DENIED.repeat(8).as_bytes());
            let _ = client.read_to_end(&mut Vec::new());
        }
    });
    look("redis-protected-mode", &format!("redis://{address}"), 77, &[(&address, "HOST:6379")]);
}

#[test]
fn redis_that_is_open_to_everybody() {
    // An address for documentation, which is not listened on where it is missing (`-`).
    let options = [&DURABLE[..], &[("bind", "127.0.0.1 -192.0.2.1"), ("protected-mode", "no")]].concat();
    let redis = Redis::with(Flavor::Redis7, &options).unwrap();
    look_at_redis("redis-no-password", &redis, &redis.url(), 0);
}

#[test]
fn redis_with_another_password() {
    let redis = Redis::with(Flavor::Redis7, &[("requirepass", "hush")]).unwrap();
    look_at_redis("redis-wrong-password", &redis, &format!("redis://:whisper@{}", redis.address()), 77);
}

#[test]
fn redis_without_the_password_that_it_wants() {
    let redis = Redis::with(Flavor::Redis7, &[("requirepass", "hush")]).unwrap();
    look_at_redis("redis-missing-password", &redis, &redis.url(), 77);
}

/// The user may not ask what it may, so everything is tried.
#[test]
fn redis_with_a_user_who_lacks_rights() {
    let redis = Redis::with(Flavor::Redis7, &DURABLE).unwrap();
    let rules = ["on", ">hush", "~*", "&*", "+@all", "-acl", "-evalsha", "-scan", "-publish"];
    redis.cli(&[&["ACL", "SETUSER", "ana"], &rules[..]].concat()).unwrap();
    look_at_redis("redis-missing-rights", &redis, &format!("redis://ana:hush@{}", redis.address()), 1);
}

#[test]
fn redis_that_is_a_replica() {
    let servers = Replicated::start(Flavor::Redis7, 1).unwrap();
    let replica = &servers.replicas()[0];
    look_at_redis("redis-replica", replica, &replica.url(), 69);
}

#[test]
fn redis_that_is_a_sentinel() {
    let sentinels = Sentinels::start(Flavor::Redis7, 1).unwrap();
    let sentinel = &sentinels.sentinels()[0];
    look_at_redis("redis-sentinel", sentinel, &format!("redis://{}", sentinel.address()), 64);
}

#[test]
fn redis_whose_clock_is_an_hour_ahead() {
    let clock = ShiftedClock::new().unwrap();
    clock.forward(Duration::from_secs(3600)).unwrap();
    let redis = Redis::on_clock(Flavor::Redis7, &clock, &DURABLE).unwrap();
    // An hour less a few microseconds is as good.
    let hidden = [
        (&*redis.address(), "HOST:6379"),
        (redis.version(), "VERSION"),
        ("is 0h59m59s ahead", "is 1h00m00s ahead"),
    ];
    look("redis-skew", &redis.url(), 1, &hidden);
}

#[test]
fn etcd_that_is_full() {
    let server = Etcd::with(Flavor::Etcd35, 1, &[("quota-backend-bytes", "2000000")]).unwrap();
    let much = "x".repeat(100_000);
    let full = (0..100).any(|at| server.ctl(&["put", &format!("filler/{at}"), &much]).is_err());
    assert!(full, "it took all of it");
    let address = server.addresses().remove(0);
    let hidden = [(&*address, "HOST:2379"), (server.version(), "VERSION")];
    look("etcd-nospace", &format!("etcd://{address}"), 1, &hidden);
}

#[test]
fn zookeeper_with_an_observer() {
    let ensemble = ZooKeeper::with_observer().unwrap();
    let addresses = ensemble.addresses();
    let leader = ensemble.leader().unwrap();
    let hidden = [
        (&*addresses[leader], "VOTER:2181"),
        (&*addresses[2], "OBSERVER:2181"),
        (ensemble.version(), "VERSION"),
    ];
    // Of those who vote, one is in the url.
    let url = format!("zookeeper://{},{}", addresses[leader], addresses[2]);
    look("zookeeper-observer", &url, 0, &hidden);
}

#[test]
fn postgres_without_tables() {
    let server = Postgres::start().unwrap();
    let version = server.sql("SHOW server_version").unwrap();
    let hidden = [(&*server.address(), "HOST:5432"), (version.trim(), "VERSION")];
    look("postgres-no-tables", &server.url(), 1, &hidden);
}

#[test]
fn mariadb_without_tables() {
    let server = MariaDb::start().unwrap();
    let version = server.sql("SELECT VERSION()").unwrap();
    let hidden = [(&*server.address(), "HOST:3306"), (version.trim(), "VERSION")];
    look("mariadb-no-tables", &server.url(), 1, &hidden);
}

/// As an init that was interrupted leaves it.
#[test]
fn mariadb_with_half_a_schema() {
    let server = MariaDb::start().unwrap();
    let init = bramah(&["init"]).env("BRAMAH_ENGINE", server.url()).output().unwrap();
    assert_eq!(init.status.code(), Some(0), "{}", text(&init.stderr));
    server.sql("DROP VIEW bramah_locks; DROP PROCEDURE bramah_sweep; DELETE FROM bramah_schema").unwrap();
    let version = server.sql("SELECT VERSION()").unwrap();
    let hidden = [(&*server.address(), "HOST:3306"), (version.trim(), "VERSION")];
    look("mariadb-half-a-schema", &server.url(), 1, &hidden);
}
