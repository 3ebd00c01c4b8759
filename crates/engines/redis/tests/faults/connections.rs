//! Connections are cut while a lock is held, waited for and handed around.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bramah_core::{ErrorKind, Lock, Release, Session};
use bramah_lab::Redis as Server;

use crate::rig::*;

fn cut_all(server: &Server) {
    for kind in ["normal", "pubsub"] {
        server.call(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_and_a_place_survive_the_end_of_their_connections_and_the_hand_over_is_still_pushed() {
    on_all(|layout| async move {
        let server = server(&[]);
        let url = layout.url(&server.url());
        let (a, b) = (open(&url, ms(15_000)).await, open(&url, ms(15_000)).await);
        let ledger = Ledger::strict();
        let (of_a, of_b) = (mutex(&a, "cut"), mutex(&b, "cut"));
        let mut spans = Vec::new();
        for _ in 0..7 {
            let held = ledger.lock(&of_a).await;
            let waiting = wait_for(&ledger, &of_b);
            await_line(&server, layout, "cut", 2).await;
            for _ in 0..3 {
                cut_all(&server);
                // They are back when they wait again.
                await_ears(&server, layout, &b).await;
            }
            assert!(held.is_held() && held.confirm().await.unwrap());
            let released = now();
            assert_eq!(held.release().await, Release::Released);
            let next = waiting.await.unwrap();
            spans.push(now().since(released));
            assert_eq!(next.release().await, Release::Released);
        }
        spans.sort();
        // A place is renewed every 1.6 s, a plain watch ends after half a second at the earliest: far behind a push.
        assert!(spans[spans.len() / 2] < ms(150), "handed over by a timer: {spans:?}");
        close_all([a, b], &[&server]).await;
    })
    .await;
}

/// Waits until the session is told of what happens: subscribed, or somebody with a key that is tracked.
async fn await_ears(server: &Server, layout: Layout, session: &Session) {
    let channel = format!("bramah:mark:{}", session.id());
    eventually("somebody who listens", PATIENCE, || {
        let there = match layout {
            Layout::Native => !server.call(&["PUBSUB", "CHANNELS", &channel])?.many().is_empty(),
            Layout::Plain | Layout::Redisson => server.call(&["INFO", "stats"])?.text().lines().any(|line| {
                line.strip_prefix("tracking_total_keys:").is_some_and(|count| count.trim() != "0")
            }),
        };
        if there { Ok(()) } else { Err("nobody does".into()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn a_lock_goes_round_among_eight_while_every_connection_is_cut_again_and_again() {
    on_all(|layout| async move {
        let server = Arc::new(server(&[]));
        let url = layout.url(&server.url());
        let ttl = ms(3000);
        let sessions = [open(&url, ttl).await, open(&url, ttl).await];
        let ledger = Ledger::strict();
        let over = Arc::new(AtomicBool::new(false));
        let tasks: Vec<_> = (0..8)
            .map(|n| tokio::spawn(go_round(ledger.clone(), mutex(&sessions[n % 2], "round"), over.clone())))
            .collect();
        let (began, mut seen, mut last, mut longest) = (now(), 0, now(), ms(0));
        while now().since(began) < ms(4000) {
            cut_all(&server);
            nap(ms(40)).await;
            let grants = ledger.grants();
            if grants > seen {
                longest = longest.max(now().since(last));
                (seen, last) = (grants, now());
            }
        }
        longest = longest.max(now().since(last));
        over.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await.unwrap();
        }
        assert!(ledger.grants() > 20, "{} grants only", ledger.grants());
        // What was lost with a connection is found by the next renewal, and what is in doubt ends with the ttl.
        assert!(longest < ttl, "nobody got it for {longest:?}");
        close_all(sessions, &[&server]).await;
    })
    .await;
}

async fn go_round(ledger: Arc<Ledger>, lock: Lock, over: Arc<AtomicBool>) {
    while !over.load(Ordering::Relaxed) {
        match lock.lock().await {
            Ok(guard) => {
                let held = ledger.granted(guard);
                nap(ms(1)).await;
                assert!(held.is_held(), "{held:?} was lost");
                held.release().await;
            }
            Err(why) => assert_eq!(why.kind(), ErrorKind::Unavailable, "{why}"),
        }
    }
}
