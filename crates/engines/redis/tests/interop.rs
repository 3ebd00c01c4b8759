//! The plain layout beside other people's clients, on one server: who holds is respected, and who releases is heard.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "faults/rig.rs"]
#[allow(dead_code, reason = "the tests of failures use the rest of it")]
mod rig;

#[path = "peers/driven.rs"]
#[allow(dead_code, reason = "the tests of Redlock use the rest of it")]
mod driven;

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use bramah_core::{Moment, Name, Release, Scope, Session};
use bramah_lab::{Redis as Server, interop};
use driven::Peer;
use rig::*;

const NAME: &str = "orders/42";

/// Far less than it takes a waiter of ours to look by itself, which is half a second after it last did.
const AT_ONCE: Duration = ms(400);

/// A server, and a session of ours on it.
async fn scene() -> (Server, Session) {
    let server = server(&[]);
    let session = open(&Layout::Plain.url(&server.url()), ms(3000)).await;
    (server, session)
}

/// Waits until a waiter of ours is told of changes: it has just looked, and will not by itself for half a second.
async fn await_watch(server: &Server) {
    eventually("a watch", PATIENCE, || {
        let stats = server.call(&["INFO", "stats"])?.text();
        let watched = stats
            .lines()
            .any(|line| line.strip_prefix("tracking_total_keys:").is_some_and(|count| count.trim() != "0"));
        if watched { Ok(()) } else { Err("nobody watches".into()) }
    })
    .await;
}

/// When a waiter of ours got the lock, and its hold.
async fn grant(waiting: tokio::task::JoinHandle<(Moment, Held)>) -> (Moment, Held) {
    tokio::time::timeout(PATIENCE, waiting).await.expect("it is free").unwrap()
}

fn begin_waiting(session: &Session) -> tokio::task::JoinHandle<(Moment, Held)> {
    let lock = mutex(session, NAME);
    tokio::spawn(async move {
        let held = Ledger::strict().lock(&lock).await;
        (now(), held)
    })
}

/// Compare and delete, as the documentation of Redis has it.
const UNLOCK: &str =
    "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn redis_cli_holds_and_we_are_woken_by_its_release_and_by_its_expiry() {
    let (server, session) = scene().await;
    for _ in 0..3 {
        assert_eq!(server.cli(&["SET", NAME, "theirs", "NX", "PX", "20000"]).unwrap(), "OK");
        assert!(mutex(&session, NAME).try_lock().await.unwrap().is_none());
        let waiting = begin_waiting(&session);
        await_watch(&server).await;
        assert_eq!(server.cli(&["EVAL", UNLOCK, "1", NAME, "not theirs"]).unwrap(), "0");
        assert!(!waiting.is_finished());
        assert_eq!(server.cli(&["EVAL", UNLOCK, "1", NAME, "theirs"]).unwrap(), "1");
        let released = now();
        let (granted, held) = grant(waiting).await;
        assert!(granted.since(released) < AT_ONCE, "after {:?}", granted.since(released));
        assert_eq!(held.release().await, Release::Released);
    }
    assert_eq!(server.cli(&["SET", NAME, "theirs", "NX", "PX", "700"]).unwrap(), "OK");
    let set = now();
    let (granted, held) = grant(begin_waiting(&session)).await;
    let waited = granted.since(set);
    assert!(
        waited > ms(500) && waited < ms(700) + AT_ONCE,
        "it expired after 700ms, and we had it after {waited:?}"
    );
    assert_eq!(held.release().await, Release::Released);
    close_all([session], &[&server]).await;
    interop::ran(&format!("redis-cli {}", server.version()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn we_hold_and_redis_cli_is_refused_until_we_release() {
    let (server, session) = scene().await;
    let held = Ledger::strict().lock(&mutex(&session, NAME)).await;
    let set = || server.call(&["SET", NAME, "theirs", "NX", "PX", "500"]).unwrap();
    assert_eq!(server.cli(&["SET", NAME, "theirs", "NX", "PX", "500"]).unwrap(), "");
    assert_eq!(server.cli(&["EVAL", UNLOCK, "1", NAME, "theirs"]).unwrap(), "0");
    assert_eq!(set(), bramah_lab::Reply::Nil);
    assert!(held.confirm().await.unwrap());
    assert_eq!(held.release().await, Release::Released);
    assert_eq!(server.cli(&["SET", NAME, "theirs", "NX", "PX", "500"]).unwrap(), "OK");
    close_all([session], &[&server]).await;
}

/// It holds, we wait; it extends and releases, and we are woken.
async fn theirs_then_ours(server: &Server, session: &Session, peer: &mut Peer) {
    assert_eq!(peer.acquire(NAME, 1500, 0), "held");
    assert!(mutex(session, NAME).try_lock().await.unwrap().is_none());
    assert_eq!(peer.ask("extend 20000"), "extended");
    let waiting = begin_waiting(session);
    await_watch(server).await;
    nap(ms(1600)).await;
    assert!(!waiting.is_finished(), "it was extended");
    // Another one, which has just looked: its next look of its own is far away.
    waiting.abort();
    let waiting = begin_waiting(session);
    await_watch(server).await;
    assert_eq!(peer.ask("release"), "released");
    let released = now();
    let (granted, held) = grant(waiting).await;
    assert!(granted.since(released) < AT_ONCE, "after {:?}", granted.since(released));
    assert_eq!(held.release().await, Release::Released);
}

/// We hold, it waits; we release, and it gets the lock.
async fn ours_then_theirs(session: &Session, peer: &mut Peer) {
    let held = Ledger::strict().lock(&mutex(session, NAME)).await;
    assert_eq!(peer.acquire(NAME, 20_000, 0), "busy");
    peer.tell(&format!("acquire {NAME} 20000 20000"));
    // Longer than our ttl: what it waits for is renewed.
    nap(ms(3300)).await;
    assert!(held.confirm().await.unwrap());
    let released = now();
    assert_eq!(held.release().await, Release::Released);
    assert_eq!(peer.answer(), "held");
    assert!(now().since(released) < ms(1000), "after {:?}", now().since(released));
    assert!(mutex(session, NAME).try_lock().await.unwrap().is_none(), "it is theirs");
    assert_eq!(peer.ask("release"), "released");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn redis_py_holds_and_we_wait() {
    let (server, session) = scene().await;
    let Some(mut peer) = Peer::redis_py(&[&server]) else { return };
    theirs_then_ours(&server, &session, &mut peer).await;
    close_all([session], &[&server]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn we_hold_and_redis_py_waits() {
    let (server, session) = scene().await;
    let Some(mut peer) = Peer::redis_py(&[&server]) else { return };
    ours_then_theirs(&session, &mut peer).await;
    close_all([session], &[&server]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn node_redlock_holds_and_we_wait() {
    let (server, session) = scene().await;
    let Some(mut peer) = Peer::node_redlock(&[&server]) else { return };
    theirs_then_ours(&server, &session, &mut peer).await;
    close_all([session], &[&server]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn we_hold_and_node_redlock_waits() {
    let (server, session) = scene().await;
    let Some(mut peer) = Peer::node_redlock(&[&server]) else { return };
    ours_then_theirs(&session, &mut peer).await;
    close_all([session], &[&server]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redis_py_that_is_killed_is_followed_by_us_after_its_ttl() {
    let (server, session) = scene().await;
    let Some(mut peer) = Peer::redis_py(&[&server]) else { return };
    assert_eq!(peer.acquire(NAME, 1500, 0), "held");
    let held = now();
    drop(peer);
    let (granted, guard) = grant(begin_waiting(&session)).await;
    let waited = granted.since(held);
    assert!(waited > ms(1200) && waited < ms(1500) + AT_ONCE, "{waited:?}");
    assert_eq!(guard.release().await, Release::Released);
    close_all([session], &[&server]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_of_ours_that_is_killed_is_followed_by_redis_py_after_its_ttl() {
    let (server, session) = scene().await;
    let Some(mut peer) = Peer::redis_py(&[&server]) else { return };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_process_that_holds", "--nocapture"])
        .env(URL, Layout::Plain.url(&server.url()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("holds")), "the process ended");
    assert_eq!(peer.acquire(NAME, 5000, 0), "busy");
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = now();
    assert_eq!(peer.acquire(NAME, 5000, 20_000), "held");
    assert!(now().since(killed) < ms(1500) + ms(1000), "after {:?}", now().since(killed));
    assert_eq!(peer.ask("release"), "released");
    assert!(session.close(PATIENCE).await.left.is_empty());
}

const URL: &str = "BRAMAH_INTEROP_HOLD_AT";

/// Another test starts this one as a process of its own; here it has nothing to do.
#[tokio::test]
async fn a_process_that_holds() {
    let Ok(url) = std::env::var(URL) else { return };
    let session = open(&url, ms(1500)).await;
    let guard = mutex(&session, NAME).lock().await.unwrap();
    println!("it holds");
    guard.lost().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_of_redis_py_is_shown_and_can_be_broken() {
    let (server, session) = scene().await;
    let Some(mut peer) = Peer::redis_py(&[&server]) else { return };
    assert_eq!(peer.acquire(NAME, 20_000, 0), "held");
    let name = Name::new(NAME).unwrap();
    let line = session.inspect(&name).await.unwrap().expect("somebody holds it");
    let holders: Vec<_> = line.holders().collect();
    assert_eq!(holders.len(), 1, "{line:?}");
    let left = holders[0].left.expect("it expires");
    assert!(left > ms(10_000) && left <= ms(20_000), "{left:?}");
    // Without a prefix its value could be anything; below one it is a lock.
    assert!(session.survey(&Scope::All).await.unwrap().is_empty());
    let (prefix, rest) = NAME.split_at(1);
    let below = open(&format!("{}?layout=plain&prefix={prefix}", server.url()), ms(1500)).await;
    let all = below.survey(&Scope::All).await.unwrap();
    assert_eq!(all.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), [rest]);
    assert!(below.close(PATIENCE).await.left.is_empty());

    let waiting = begin_waiting(&session);
    await_watch(&server).await;
    let tag = holders[0].claim.id.tag();
    assert!(session.break_hold(&name, tag, "it hangs").await.unwrap());
    let broken = now();
    let (granted, held) = grant(waiting).await;
    assert!(granted.since(broken) < AT_ONCE, "after {:?}", granted.since(broken));
    assert_eq!(peer.ask("owned"), "no");
    assert_eq!(peer.ask("release"), "lost LockNotOwnedError");
    assert!(held.confirm().await.unwrap(), "theirs did not end ours");
    assert_eq!(held.release().await, Release::Released);
    let line = session.inspect(&name).await.unwrap().expect("the break is on record");
    assert_eq!(line.broken.map(|broken| broken.cause.reason.to_string()).as_deref(), Some("it hangs"));
    assert!(session.close(PATIENCE).await.left.is_empty());
}
