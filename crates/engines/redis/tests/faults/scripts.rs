//! The server forgets its scripts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use bramah_core::Release;
use bramah_lab::Redis as Server;

use crate::rig::*;

fn flush(server: &Server) {
    server.call(&["SCRIPT", "FLUSH", "SYNC"]).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_step_is_taken_on_a_server_that_has_just_forgotten_all_scripts() {
    on_all(|layout| async move {
        let server = server(&[]);
        let url = layout.url(&server.url());
        let ttl = ms(4500);
        let (a, b) = (open(&url, ttl).await, open(&url, ttl).await);
        let ledger = Ledger::strict();
        for _ in 0..2 {
            flush(&server);
            let held = ledger.lock(&mutex(&a, "steps")).await;
            flush(&server);
            assert!(mutex(&b, "steps").try_lock().await.unwrap().is_none());
            flush(&server);
            let waiting = wait_for(&ledger, &mutex(&b, "steps"));
            await_line(&server, layout, "steps", 2).await;
            flush(&server);
            assert!(held.confirm().await.unwrap());
            // The next renewal finds no script, either.
            flush(&server);
            let (granted, before) = (now(), held.remaining());
            eventually("a renewal", PATIENCE, || {
                let passed = now().since(granted);
                if held.remaining() + passed > before + ms(100) { Ok(()) } else { Err("none yet".into()) }
            })
            .await;
            flush(&server);
            assert_eq!(held.release().await, Release::Released);
            let next = waiting.await.unwrap();
            flush(&server);
            assert_eq!(next.release().await, Release::Released);
        }
        close_all([a, b], &[&server]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn three_hundred_locks_live_on_while_scripts_are_forgotten_all_the_time() {
    on_all(|layout| async move {
        let server = Arc::new(server(&[]));
        let url = layout.url(&server.url());
        let ttl = ms(3000);
        let (a, b) = (open(&url, ttl).await, open(&url, ttl).await);
        let over = Arc::new(AtomicBool::new(false));
        let flusher = {
            let (server, over) = (server.clone(), over.clone());
            thread::spawn(move || {
                let (mut wire, mut flushes) = (server.wire().unwrap(), 0);
                while !over.load(Ordering::Relaxed) {
                    wire.call(&["SCRIPT", "FLUSH", "SYNC"]).unwrap();
                    flushes += 1;
                }
                flushes
            })
        };
        let mut many = Vec::new();
        for n in 0..300 {
            many.push(mutex(&a, &format!("many/{n}")).lock().await.unwrap());
        }
        let ledger = Ledger::strict();
        for _ in 0..5 {
            let held = ledger.lock(&mutex(&a, "flushed")).await;
            let waiting = wait_for(&ledger, &mutex(&b, "flushed"));
            await_line(&server, layout, "flushed", 2).await;
            assert_eq!(held.release().await, Release::Released);
            assert_eq!(waiting.await.unwrap().release().await, Release::Released);
        }
        let last = many.last().map(|guard| now() + guard.remaining()).unwrap();
        eventually("the first ttl of all", PATIENCE, || {
            if now() > last { Ok(()) } else { Err("not yet".into()) }
        })
        .await;
        let lost = many.iter().filter(|guard| !guard.is_held()).count();
        assert_eq!(lost, 0, "of 300 that were renewed");
        for guard in many {
            assert_eq!(guard.release().await, Release::Released);
        }
        over.store(true, Ordering::Relaxed);
        let flushes = flusher.join().unwrap();
        assert!(flushes > 100, "{flushes} flushes only");
        close_all([a, b], &[&server]).await;
    })
    .await;
}
