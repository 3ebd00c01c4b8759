//! Fences over stores that forget. Beside each one a bare counter, to see that the failure is one: it goes backwards.

use bramah_core::Fence;
use bramah_lab::{Fault, Proxy, Redis as Server};

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
