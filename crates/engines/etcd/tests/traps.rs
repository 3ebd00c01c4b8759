//! What other clients of etcd fell for, on three members. Each test has a client beside ours that does what is easily written, and shows
//! what becomes of it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod lab;

use std::time::Duration;

use bramah_core::{Clock, Standing, line::WHOLE};
use bramah_lab::{Etcd as Server, Fault, servers::Flavor};
use lab::{
    Proxied, SOON, got, naive, others,
    raw::{Raw, is_gone, soon, waits},
    session_at, settled, until_free, url, waiter,
};
use tokio::time::timeout;

const ALL: [usize; 3] = [0, 1, 2];
const LONG: Duration = Duration::from_secs(60);

fn three() -> Server {
    Server::start(Flavor::Etcd35, 3).unwrap()
}

/// B44: a lease ends while its session waits. One that only looks at the key ahead takes the lock for its own, beside the one that has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_lease_has_ended_is_not_granted_and_one_that_looks_ahead_alone_believes_to_be() {
    let server = three();
    let (a, b) = (session_at(&server, &ALL, LONG).await, session_at(&server, &ALL, LONG).await);
    let guard = a.mutex("x").unwrap().lock().await.unwrap();
    let channel = naive::channel(&server, 0).await;
    let mut naive = naive::Waiter::enter(&channel, "x", 2).await;
    // Nobody renews this one either: it is ours, and asks when it is woken.
    let ours = Raw::open(&url(&server, &ALL), Duration::from_secs(1)).await;
    let claim = ours.mutex("x");
    let wake = waits(ours.enter(&claim).await);
    let behind = waiter(&b, "x");
    lab::waiting(&a, "x", 3).await;
    lab::waiting(&a, "x", 1).await;
    soon(wake).await;
    guard.release().await;
    soon(naive.granted()).await;
    is_gone(&ours.ask(&claim).await);
    // And this is who has it.
    let guard = got(behind).await;
    assert!(guard.is_held());
    let (kvs, _) = naive::line(&channel, "x").await;
    assert!(kvs.len() == 1 && kvs[0].key != naive.key.as_bytes(), "one of the two that believe has a key");
    guard.release().await;
    settled(&server, [a, b]).await;
}

/// What is left of a lease, as etcd tells it.
fn left(server: &Server, member: usize, lease: &str) -> Result<u64, String> {
    let told = server.ctl_at(member, &["lease", "timetolive", lease])?;
    let left = told.split("remaining(").nth(1).and_then(|rest| rest.split('s').next());
    left.and_then(|left| left.parse().ok()).ok_or(told)
}

/// B45: leases begin anew with a new leader. Whoever goes by the time that it was told before takes a lock that is not free; ours
/// waits for the end of the key, and who lost it has known since its own deadline.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_gives_a_lost_holder_its_time_again_and_nobody_counts_on_it() {
    let server = three();
    let proxied = Proxied::before(&server);
    let (far, near) = (proxied.session(Duration::from_secs(3)).await, session_at(&server, &ALL, LONG).await);
    let old = far.mutex("x").unwrap().lock().await.unwrap();
    let next = waiter(&near, "x");
    lab::waiting(&near, "x", 1).await;
    proxied.all(|proxy| {
        proxy.requests(Fault::Drop);
        proxy.replies(Fault::Drop);
    });
    let lease = format!("{:x}", far.id().bits() & u128::from(u64::MAX >> 1));
    let leader = server.leader().unwrap();
    let member = others(leader)[0];
    let told = bramah_lab::until("the last of the lease", SOON, || match left(&server, leader, &lease)? {
        left if left <= 1 => Ok(left),
        left => Err(format!("{left} s are left")),
    })
    .unwrap();
    // Six seconds in etcd, three of which are its holder's.
    assert!(!old.is_held(), "it believed in the margin");
    server.kill(leader).unwrap();
    server.await_leader(&others(leader)).unwrap();
    let again = bramah_lab::until("what is left", SOON, || left(&server, member, &lease)).unwrap();
    assert!(again > told + 2, "the test's own premise: {told} s, and {again} s with the new leader");
    // What one does that was told how long it would take.
    tokio::time::sleep(Duration::from_secs(told + 1)).await;
    let channel = naive::channel(&server, member).await;
    let (kvs, _) = naive::line(&channel, "x").await;
    assert_eq!(kvs.len(), 2, "whoever waits for the time that it was told finds the lock taken");
    assert!(!next.is_finished(), "granted while the key of another is ahead");
    let next = got(next).await;
    assert!(!old.is_held() && next.fence() > old.fence());
    server.start_again(leader).unwrap();
    server.await_leader(&ALL).unwrap();
    proxied.all(|proxy| {
        proxy.requests(Fault::Pass);
        proxy.replies(Fault::Pass);
        proxy.sever();
    });
    next.release().await;
    drop(old);
    got(waiter(&far, "x")).await.release().await;
    settled(&server, [far, near]).await;
}

/// B45: a key without a lease is a lock for ever. Ours have one, whatever is written to them; a stranger's is waited for, and shown, and
/// can be ended.
#[tokio::test(flavor = "multi_thread")]
async fn every_key_of_ours_hangs_from_a_lease_and_one_that_hangs_from_none_stays_for_ever() {
    let server = three();
    let raw = Raw::open(&url(&server, &ALL), LONG).await;
    let channel = naive::channel(&server, 0).await;
    let mut claims = Vec::new();
    // Held at once, with a note that changes, with a fence that was raised, a reader, permits.
    for (name, capacity, weight) in [("a", 1, 1), ("b", 1, 1), ("c", 1, 1), ("d", WHOLE, 1), ("e", 5, 2)] {
        let mut claim = raw.of(name, capacity, weight);
        assert!(matches!(raw.enter(&claim).await.unwrap(), Standing::Held { .. }));
        match name {
            "b" => claim.note = "another".into(),
            "c" => claim.floor = Some(bramah_core::Fence::new(1 << 40)),
            _ => {}
        }
        assert!(matches!(raw.ask(&claim).await.unwrap(), Standing::Held { .. }));
        claims.push(claim);
    }
    // And one that was granted after it had waited.
    let (holder, waits_for) = (Raw::open(&url(&server, &ALL), LONG).await, raw.mutex("f"));
    let held = holder.mutex("f");
    assert!(matches!(holder.enter(&held).await.unwrap(), Standing::Held { .. }));
    let wake = waits(raw.enter(&waits_for).await);
    holder.withdraw(&held).await;
    soon(wake).await;
    assert!(matches!(raw.ask(&waits_for).await.unwrap(), Standing::Held { .. }));
    for name in ["a", "b", "c", "d", "e", "f"] {
        let (kvs, _) = naive::line(&channel, name).await;
        assert!(kvs.len() == 1 && kvs[0].lease != 0, "{name}: {kvs:?}");
    }
    server.ctl(&["lease", "revoke", &raw.lease()]).unwrap();
    until_free(&server);
    // Its client is gone, and nothing ends it.
    naive::put(&naive::channel(&server, 1).await, "x/0", 0).await;
    let session = session_at(&server, &ALL, Duration::from_secs(1)).await;
    let waits = waiter(&session, "x");
    lab::waiting(&session, "x", 1).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(!waits.is_finished());
    let line = session.inspect(&bramah_core::Name::new("x").unwrap()).await.unwrap().unwrap();
    assert_eq!(line.places[0].left, None, "it has no end");
    assert!(session.break_hold(&line.name, line.places[0].claim.id.tag(), "for ever").await.unwrap());
    got(waits).await.release().await;
    holder.engine.close(holder.session).await.unwrap();
    settled(&server, [session]).await;
}

/// B45: a watch that would have to begin with what was compacted is cancelled by etcd. One that only looks for events never hears of
/// anything again; ours looks for itself, and watches from there on.
#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_during_a_watch_costs_ours_a_look_and_another_its_wake() {
    let server = three();
    let proxied = Proxied::before(&server);
    let (holder, ours) = (Raw::open(&url(&server, &ALL), LONG).await, Raw::open(&proxied.url(), LONG).await);
    let (held, waiting) = (holder.mutex("x"), ours.mutex("x"));
    assert!(matches!(holder.enter(&held).await.unwrap(), Standing::Held { .. }));
    let wake = waits(ours.enter(&waiting).await);
    let channel = naive::channel(&server, 0).await;
    let (_, seen) = naive::line(&channel, "x").await;
    // Both streams end here.
    proxied.all(|proxy| proxy.refuse(true));
    proxied.all(bramah_lab::Proxy::sever);
    for _ in 0..3 {
        server.ctl(&["put", "/other", "value"]).unwrap();
    }
    let (_, revision) = naive::line(&channel, "x").await;
    server.ctl(&["compact", &revision.to_string()]).unwrap();
    proxied.all(|proxy| proxy.refuse(false));
    let mut naive = naive::Watcher::from(&channel, holder.key("x").as_bytes(), seen + 1).await;
    // Nothing happened in the line, and still ours asks, for something might have.
    soon(wake).await;
    let wake = waits(ours.ask(&waiting).await);
    holder.withdraw(&held).await;
    soon(wake).await;
    assert!(matches!(ours.ask(&waiting).await.unwrap(), Standing::Held { .. }));
    let heard = timeout(Duration::from_secs(2), naive.ended()).await;
    assert!(heard.is_err(), "the test's own premise: a watch that was compacted tells nothing");
    ours.withdraw(&waiting).await;
    until_free(&server);
    for raw in [holder, ours] {
        raw.engine.close(raw.session).await.unwrap();
    }
    settled(&server, []).await;
}

/// Somebody revokes a holder's lease. Nobody can be told of that before the next is granted, but at once it is, and by far sooner than
/// with the next renewal; those who wait are served in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_revoked_under_its_holder_is_told_at_once_and_the_line_goes_on() {
    let server = three();
    let clock = Clock::boot();
    let (a, b, c) = (
        session_at(&server, &ALL, LONG).await,
        session_at(&server, &[1, 2], LONG).await,
        session_at(&server, &[2, 0], LONG).await,
    );
    let guard = a.mutex("x").unwrap().lock().await.unwrap();
    let second = waiter(&b, "x");
    lab::waiting(&b, "x", 1).await;
    let third = waiter(&c, "x");
    lab::waiting(&b, "x", 2).await;
    let lease = format!("{:x}", a.id().bits() & u128::from(u64::MAX >> 1));
    server.ctl(&["lease", "revoke", &lease]).unwrap();
    let revoked = clock.now();
    soon(guard.lost()).await;
    let told = clock.now().since(revoked);
    // A renewal comes every 20 s.
    assert!(told < Duration::from_secs(5), "told after {told:?}");
    let second = got(second).await;
    assert!(!guard.is_held() && second.fence() > guard.fence() && !third.is_finished());
    // The one that was robbed stands at the end.
    let again = waiter(&a, "x");
    lab::waiting(&b, "x", 2).await;
    let before = second.fence();
    second.release().await;
    let third = got(third).await;
    assert!(third.fence() > before && !again.is_finished());
    third.release().await;
    got(again).await.release().await;
    drop(guard);
    settled(&server, [a, b, c]).await;
}
