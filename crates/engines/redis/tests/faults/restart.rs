//! The server is killed and comes back, with its data or without.

use bramah_core::Release;

use crate::rig::*;

/// A server that is killed loses nothing that it has acknowledged.
const DURABLE: [(&str, &str); 2] = [("appendonly", "yes"), ("appendfsync", "always")];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restart_with_a_log_on_disk_keeps_the_holder_and_the_line() {
    on_all(|layout| async move {
        let server = server(&DURABLE);
        let url = layout.url(&server.url());
        // Long enough that a slow restart is no outage of a third of it.
        let (a, b, c) = (open(&url, ms(9000)).await, open(&url, ms(9000)).await, open(&url, ms(9000)).await);
        let ledger = Ledger::strict();
        let held = ledger.lock(&mutex(&a, "kept")).await;
        let first = wait_for(&ledger, &mutex(&b, "kept"));
        await_line(&server, layout, "kept", 2).await;
        let second = wait_for(&ledger, &mutex(&c, "kept"));
        await_line(&server, layout, "kept", 3).await;

        server.kill();
        server.restart().unwrap();

        confirmed(&held).await;
        assert!(mutex(&a, "kept").try_lock().await.unwrap().is_none(), "it is held");
        assert_eq!(held.release().await, Release::Released);
        let (mut first, mut second) = (first, second);
        let (served, rest, in_order) = tokio::select! {
            served = &mut first => (served.unwrap(), second, true),
            served = &mut second => (served.unwrap(), first, false),
        };
        assert!(in_order || layout != Layout::Native, "the line was turned around");
        assert!(!rest.is_finished());
        assert_eq!(served.release().await, Release::Released);
        assert_eq!(rest.await.unwrap().release().await, Release::Released);
        assert_eq!(ledger.lock(&mutex(&a, "kept")).await.release().await, Release::Released);
        assert_eq!(ledger.grants(), 4);
        close_all([a, b, c], &[&server]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_holder_whom_the_store_has_forgotten_is_told_and_fences_go_on_rising() {
    on_both(|layout| async move {
        let server = server(&[]);
        let url = layout.url(&server.url());
        let (a, b) = (open(&url, ms(6000)).await, open(&url, ms(6000)).await);
        // The store forgets, so two may hold for a while; the resource tells them apart by the fence.
        let ledger = Ledger::forgiving();
        let held = ledger.lock(&mutex(&a, "forgotten")).await;
        let waiting = wait_for(&ledger, &mutex(&b, "forgotten"));
        await_line(&server, layout, "forgotten", 2).await;
        confirmed(&held).await;
        let deadline = now() + held.remaining();

        server.kill();
        server.wipe().unwrap();
        server.restart().unwrap();

        held.await_loss(PATIENCE).await;
        assert!(now() < deadline, "only its deadline told it, and not the renewal");
        assert_eq!(held.release().await, Release::AlreadyLost);
        assert_eq!(waiting.await.unwrap().release().await, Release::Released);
        assert_eq!(ledger.lock(&mutex(&a, "forgotten")).await.release().await, Release::Released);
        close_all([a, b], &[&server]).await;
    })
    .await;
}

/// Waits until the store says that it is held.
async fn confirmed(held: &Held) {
    let began = now();
    while now().since(began) < PATIENCE {
        match held.confirm().await {
            Ok(is_held) => {
                assert!(is_held, "{held:?} was lost");
                return;
            }
            Err(why) => assert_eq!(why.kind(), bramah_core::ErrorKind::Unavailable, "{why}"),
        }
    }
    panic!("the server did not come back");
}
