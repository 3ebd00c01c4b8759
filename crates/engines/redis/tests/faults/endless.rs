//! Keys of other people that never expire where a lock should be.

use bramah_core::ErrorKind;
use bramah_redis::redlock::Redlock;

use crate::rig::*;

/// How many scripts a server has run.
fn scripts(server: &bramah_lab::Redis) -> u64 {
    let stats = server.call(&["INFO", "commandstats"]).unwrap().text();
    let calls = |line: &str| {
        let rest = line.strip_prefix("cmdstat_evalsha:calls=").or(line.strip_prefix("cmdstat_set:calls="))?;
        rest.split(',').next()?.parse::<u64>().ok()
    };
    stats.lines().filter_map(calls).sum()
}

/// So many a waiter may run in two seconds: one for each half a second would do.
const MOST: u64 = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_waiter_for_a_key_without_expiry_polls_and_does_not_spin() {
    for value in ["somebody else's", ""] {
        let servers: Vec<_> = (0..3).map(|_| server(&[])).collect();
        for server in &servers {
            server.call(&["SET", "foreign", value]).unwrap();
        }
        let hosts: Vec<String> = servers.iter().map(|server| server.address()).collect();
        let redlock = format!("redlock://{}?restart=trust&node_timeout=1s", hosts.join(","));
        let alone = open(&format!("redis://{}?layout=plain", hosts[0]), ms(6000)).await;
        let engine = Redlock::from_url(&redlock).unwrap().engine().unwrap();
        let together = bramah_core::Session::builder(engine).ttl(ms(6000)).open().await.unwrap();
        for session in [&alone, &together] {
            let before = scripts(&servers[0]);
            let why = mutex(session, "foreign").lock_within(ms(2000)).await.map(drop).unwrap_err();
            assert_eq!(why.kind(), ErrorKind::Timeout, "{why}");
            let run = scripts(&servers[0]) - before;
            assert!(run < MOST, "{run} scripts in two seconds");
        }
        // It is told when the key is gone.
        let lock = mutex(&alone, "foreign");
        let waiting = tokio::spawn(async move { lock.lock().await.unwrap().release().await });
        servers[0].call(&["DEL", "foreign"]).unwrap();
        tokio::time::timeout(PATIENCE, waiting).await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_key_of_another_type_is_an_error_and_no_loop() {
    on_all(|layout| async move {
        let server = server(&[]);
        let key = if layout == Layout::Native { "bramah:{foreign}" } else { "foreign" };
        server.call(&["LPUSH", key, "x"]).unwrap();
        let session = open(&layout.url(&server.url()), ms(6000)).await;
        let before = scripts(&server);
        let why = mutex(&session, "foreign").lock_within(ms(2000)).await.map(drop).unwrap_err();
        assert_eq!(why.kind(), ErrorKind::Corrupt, "{layout:?}: {why}");
        assert!(scripts(&server) - before < MOST);
        assert_eq!(server.call(&["TYPE", key]).unwrap().text(), "list");
    })
    .await;
}

/// A lock of ours whose expiry somebody has taken away.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lock_that_was_made_to_last_is_polled() {
    on_all(|layout| async move {
        let server = server(&[]);
        let url = layout.url(&server.url());
        let (a, b) = (open(&url, ms(60_000)).await, open(&url, ms(6000)).await);
        let held = mutex(&a, "lasting").lock().await.unwrap();
        let key = if layout == Layout::Native { "bramah:{lasting}" } else { "lasting" };
        assert_eq!(server.call(&["PERSIST", key]).unwrap().text(), "1");
        let before = scripts(&server);
        assert!(mutex(&b, "lasting").lock_within(ms(2000)).await.is_err());
        let run = scripts(&server) - before;
        assert!(run < MOST, "{layout:?}: {run} scripts in two seconds");
        held.release().await;
    })
    .await;
}
