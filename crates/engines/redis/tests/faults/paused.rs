//! The server is told to pause its clients, for less than the ttl.

use bramah_core::Release;

use crate::rig::*;

async fn a_pause_is_outlived(layout: Layout, kind: &str) {
    let server = server(&[]);
    let url = layout.url(&server.url());
    let ttl = ms(4500);
    let (a, b) = (open(&url, ttl).await, open(&url, ttl).await);
    let ledger = Ledger::strict();
    let held = ledger.lock(&mutex(&a, "paused")).await;
    let waiting = wait_for(&ledger, &mutex(&b, "paused"));
    await_line(&server, layout, "paused", 2).await;

    // Longer than an answer is waited for, so that renewals fail meanwhile; a claim must not.
    server.call(&["CLIENT", "PAUSE", "2000", kind]).unwrap();
    let began = now();
    let other = ledger_of_its_own(&mutex(&b, "other")).await;
    assert!(now().since(began) >= ms(1000), "nothing was paused");
    assert!(held.is_held() && !waiting.is_finished());
    eventually("a hold that was renewed since", PATIENCE, || {
        if held.remaining() > ttl - ms(1700) { Ok(()) } else { Err(format!("{:?}", held.remaining())) }
    })
    .await;
    assert!(held.confirm().await.unwrap());
    assert_eq!(held.release().await, Release::Released);
    assert_eq!(waiting.await.unwrap().release().await, Release::Released);
    assert_eq!(other.release().await, Release::Released);
    assert_eq!(ledger.lock(&mutex(&a, "paused")).await.release().await, Release::Released);
    close_all([a, b], &[&server]).await;
}

async fn ledger_of_its_own(lock: &bramah_core::Lock) -> Held {
    Ledger::strict().lock(lock).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_pause_of_all_commands_is_outlived() {
    on_all(|layout| a_pause_is_outlived(layout, "ALL")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_pause_of_writes_is_outlived() {
    on_all(|layout| a_pause_is_outlived(layout, "WRITE")).await;
}
