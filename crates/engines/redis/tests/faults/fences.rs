//! Fences over stores that forget. Beside each one a bare counter, to see that the failure is one: it goes backwards.

use std::sync::Arc;

use bramah_core::{Claim, ClaimId, Engine, Fence, Name, SessionId, Standing, Wait};
use bramah_lab::{Fault, Proxy, Redis as Server};
use bramah_redis::Redis;

use crate::rig::*;

const COUNTER: &str = "a-bare-counter";

fn count(server: &Server) -> u64 {
    server.call(&["INCR", COUNTER]).unwrap().text().parse().unwrap()
}

/// Takes the lock so often, over a session of its own, and gives the last fence.
async fn last_fence(url: &str, times: usize) -> Fence {
    let session = open(url, ms(3000)).await;
    let ledger = Ledger::strict();
    let mut last = None;
    for _ in 0..times {
        let held = ledger.lock(&mutex(&session, "fenced")).await;
        last = held.fence();
        held.release().await;
    }
    assert!(session.close(PATIENCE).await.left.is_empty());
    last.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fences_rise_over_a_restart_that_loses_everything_where_a_counter_falls_back() {
    on_both(|layout| async move {
        let server = server(&[]);
        let url = layout.url(&server.url());
        let (mut fence, mut counted) = (last_fence(&url, 50).await, 0);
        for _ in 0..50 {
            counted = count(&server);
        }
        for _ in 0..3 {
            server.kill();
            server.wipe().unwrap();
            server.restart().unwrap();
            let next = last_fence(&url, 1).await;
            assert!(next > fence, "{next:?} after {fence:?}");
            fence = last_fence(&url, 20).await;
        }
        assert!(count(&server) < counted, "a counter would have done as well");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fences_rise_over_a_failover_to_a_stale_replica_where_a_counter_falls_back() {
    on_both(|layout| async move {
        let master = server(&[]);
        let proxy = Proxy::to(&master.address()).unwrap();
        let of = format!("127.0.0.1 {}", proxy.port());
        let replica = server(&[("replicaof", &of)]);
        let synced = |key: &str| -> Result<(), String> {
            let there = replica.call(&["EXISTS", key])?.text();
            if there == "1" { Ok(()) } else { Err("it has not heard of it".into()) }
        };
        let url = layout.url(&master.url());
        last_fence(&url, 1).await;
        let early = count(&master);
        eventually("the replica", PATIENCE, || synced(COUNTER)).await;
        eventually("the replica", PATIENCE, || synced("bramah:mark")).await;

        proxy.replies(Fault::Drop);
        let fence = last_fence(&url, 50).await;
        let mut counted = early;
        for _ in 0..50 {
            counted = count(&master);
        }
        replica.call(&["REPLICAOF", "NO", "ONE"]).unwrap();

        let next = last_fence(&layout.url(&replica.url()), 1).await;
        assert!(next > fence, "{next:?} after {fence:?}");
        let again = count(&replica);
        assert!(again < counted, "the replica was not stale: {again} after {counted}");
    })
    .await;
}

/// One of several masters is asked to mint a fence by the clock of the client.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fences_rise_over_a_lost_mark_also_after_a_client_whose_clock_is_fast() {
    let server = server(&[]);
    let redis = Redis::from_url(&Layout::Plain.url(&server.url())).unwrap();
    let claim = |seq, ahead_us: u64| {
        let time = server.call(&["TIME"]).unwrap().many();
        let [seconds, us] = [0, 1].map(|at: usize| time[at].text().parse::<u64>().unwrap());
        let asked = Claim {
            id: ClaimId { session: SessionId::from_bits(7), seq },
            name: Name::new("fenced").unwrap(),
            capacity: 1,
            weight: 1,
            wait: Wait::No,
            again: false,
            floor: Some(Fence::new(seconds * 1_000_000 + us + ahead_us)),
            ttl: ms(60_000),
            lease: None,
            note: "".into(),
        };
        redis.claim(Arc::new(asked))
    };
    // Before it is asked to, and when it has a mark.
    for seq in [1, 3, 5] {
        let Ok(Standing::Held { fence: Some(fast), .. }) = claim(seq, 900_000).await else {
            panic!("it is free")
        };
        server.call(&["FLUSHALL"]).unwrap();
        let Ok(Standing::Held { fence: Some(next), .. }) = claim(seq + 1, 0).await else {
            panic!("it is free")
        };
        assert!(next > fast, "{next} after {fast}");
        server.call(&["DEL", "fenced"]).unwrap();
    }
}

/// Somebody has written to the mark: no fence can be minted from it. Whoever holds can leave all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_mark_that_is_no_fence_keeps_nobody_from_leaving() {
    for mark in ["nonsense", "9007199254740992"] {
        let server = server(&[]);
        let (holder, waiter) = (open(&server.url(), ms(60_000)).await, open(&server.url(), ms(60_000)).await);
        let guard = mutex(&holder, "x").lock().await.unwrap();
        let waiting = mutex(&waiter, "x");
        let waiting = tokio::spawn(async move { waiting.lock().await.unwrap() });
        await_line(&server, Layout::Native, "x", 2).await;
        server.call(&["SET", "bramah:mark", mark]).unwrap();
        let id = holder.id().to_string();
        let _ = guard.release().await;
        let line = server.cli(&["ZRANGE", "bramah:{x}", "0", "-1"]).unwrap();
        assert!(!line.contains(&id), "{mark}: who has left is in line: {line}");
        server.call(&["DEL", "bramah:mark"]).unwrap();
        let next = tokio::time::timeout(PATIENCE, waiting).await.expect("the next one is served").unwrap();
        let fence = next.fence().map(Fence::get);
        assert!(fence.is_some_and(|fence| fence < 1 << 53), "{mark}: {fence:?}");
        next.release().await;
        close_all([holder, waiter], &[&server]).await;
    }
}
