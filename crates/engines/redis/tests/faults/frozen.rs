//! The server stands still.

use bramah_core::Release;
use bramah_lab::Signal;

use crate::rig::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_outlives_a_server_that_stands_still_for_less_than_the_ttl() {
    on_all(|layout| async move {
        let server = server(&[]);
        let url = layout.url(&server.url());
        let ttl = ms(4500);
        let (a, b) = (open(&url, ttl).await, open(&url, ttl).await);
        let ledger = Ledger::strict();
        let held = ledger.lock(&mutex(&a, "frozen")).await;
        let waiting = wait_for(&ledger, &mutex(&b, "frozen"));
        await_line(&server, layout, "frozen", 2).await;
        assert!(held.confirm().await.unwrap());
        server.signal(Signal::STOP).unwrap();
        nap(ms(2000)).await;
        server.signal(Signal::CONT).unwrap();
        eventually("a hold that was renewed since", PATIENCE, || {
            assert!(held.is_held(), "it was lost");
            if held.remaining() > ttl - ms(1700) { Ok(()) } else { Err(format!("{:?}", held.remaining())) }
        })
        .await;
        assert!(!waiting.is_finished());
        assert_eq!(held.release().await, Release::Released);
        assert_eq!(waiting.await.unwrap().release().await, Release::Released);
        close_all([a, b], &[&server]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_on_a_server_that_stands_still_for_longer_is_lost_at_its_deadline_and_then_handed_on() {
    on_all(|layout| async move {
        let server = server(&[]);
        let url = layout.url(&server.url());
        let ttl = ms(2000);
        let (a, b) = (open(&url, ttl).await, open(&url, ttl).await);
        let ledger = Ledger::strict();
        let held = ledger.lock(&mutex(&a, "frozen")).await;
        let patient = {
            let (ledger, lock) = (ledger.clone(), mutex(&b, "frozen"));
            tokio::spawn(async move { ledger.persist(&lock).await })
        };
        await_line(&server, layout, "frozen", 2).await;
        assert!(held.confirm().await.unwrap());
        server.signal(Signal::STOP).unwrap();
        // Nothing that was confirmed before is good for longer than this, whatever the guard believes.
        let latest = now() + ttl;
        assert!(held.is_held());
        held.await_loss(PATIENCE).await;
        assert!(now() < latest + ms(300), "told {:?} too late", now().since(latest));
        assert!(!patient.is_finished(), "who could have granted it?");
        eventually("the end of the ttl", PATIENCE, || {
            if now() > latest { Ok(()) } else { Err("not yet".into()) }
        })
        .await;
        server.signal(Signal::CONT).unwrap();
        // The ledger sees to it that the first hold was over by then.
        assert_eq!(patient.await.unwrap().release().await, Release::Released);
        assert_eq!(held.release().await, Release::AlreadyLost);
        assert_eq!(ledger.persist(&mutex(&a, "frozen")).await.release().await, Release::Released);
        close_all([a, b], &[&server]).await;
    })
    .await;
}
