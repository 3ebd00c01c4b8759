//! Sentinels make another server the master.

use std::sync::Arc;

use bramah_core::Release;
use bramah_lab::{Sentinels, servers::Flavor};

use crate::rig::*;

#[derive(Clone, Copy)]
enum Cause {
    /// An operator asks for it.
    Asked,
    /// The master is killed.
    Killed,
}

async fn a_failover_is_survived(layout: Layout, cause: Cause) {
    let sentinels = Arc::new(Sentinels::start(Flavor::Redis7, 1).unwrap());
    let url = format!("redis+sentinel://{}/{}", sentinels.url_list().join(","), sentinels.service());
    let url = layout.url(&url);
    // A failover may take as long as the third of the ttl for which a caller puts up with silence.
    let (a, b) = (open(&url, ms(30_000)).await, open(&url, ms(30_000)).await);
    let ledger = Ledger::strict();
    let old = sentinels.master().unwrap();
    let held = ledger.lock(&mutex(&a, "moved")).await;
    let waiting = wait_for(&ledger, &mutex(&b, "moved"));
    await_line(old, layout, "moved", 2).await;
    // What follows is about the client; a replica that has not heard of the lock is another test.
    let mut wire = old.wire().unwrap();
    wire.call(&["SET", "bramah:mark:sync", "", "PX", "1"]).unwrap();
    assert_eq!(wire.call(&["WAIT", "1", "10000"]).unwrap().text(), "1");
    drop(wire);

    match cause {
        Cause::Asked => {
            let theirs = sentinels.clone();
            tokio::task::spawn_blocking(move || theirs.failover()).await.unwrap().unwrap();
        }
        Cause::Killed => {
            old.kill();
            let (theirs, port) = (sentinels.clone(), old.port());
            let moved = tokio::task::spawn_blocking(move || {
                let old = theirs.servers().find(|server| server.port() == port).ok_or("gone")?;
                theirs.await_other_master(old).map(drop)
            });
            moved.await.unwrap().unwrap();
        }
    }
    let new = sentinels.master().unwrap();
    assert_ne!(new.port(), old.port());

    // It was replicated, so it is held there; and nobody else has been let in.
    let began = now();
    while let Err(why) = held.confirm().await {
        assert!(now().since(began) < PATIENCE, "{why}");
    }
    assert!(held.is_held() && !waiting.is_finished());
    assert_eq!(held.release().await, Release::Released);
    assert_eq!(waiting.await.unwrap().release().await, Release::Released);
    // By push again, on the new master.
    let mut spans = Vec::new();
    for _ in 0..5 {
        let held = ledger.lock(&mutex(&a, "moved")).await;
        let waiting = wait_for(&ledger, &mutex(&b, "moved"));
        await_line(new, layout, "moved", 2).await;
        let released = now();
        assert_eq!(held.release().await, Release::Released);
        assert_eq!(waiting.await.unwrap().release().await, Release::Released);
        spans.push(now().since(released));
    }
    spans.sort();
    assert!(spans[2] < ms(150), "handed over by a timer: {spans:?}");
    close_all([a, b], &[new]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn a_failover_that_was_asked_for_moves_hold_and_line_to_the_new_master() {
    on_all(|layout| a_failover_is_survived(layout, Cause::Asked)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn a_killed_master_is_followed_by_its_replica_with_hold_and_line() {
    on_all(|layout| a_failover_is_survived(layout, Cause::Killed)).await;
}
