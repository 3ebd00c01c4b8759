//! Masters that were all just started, and the longest ttl there is.

use bramah_core::ErrorKind;

use crate::{rig::*, stage::*};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn masters_that_were_all_just_started_grant_when_the_ttl_is_over_and_not_before() {
    let ttl = ms(2000);
    let began = now();
    let masters = Masters::start(3);
    let session = join(&masters.url("node_timeout=1s&max_ttl=2s"), ttl).await;
    let lock = mutex(&session, "young");
    for why in
        [lock.try_lock().await.map(drop).unwrap_err(), lock.lock_within(ms(200)).await.map(drop).unwrap_err()]
    {
        let text = why.to_string();
        assert_eq!(why.kind(), ErrorKind::Unavailable, "{text}");
        assert!(masters.iter().all(|server| text.contains(&server.address())), "{text}");
        assert!(text.contains("votes in"), "{text}");
        assert!(why.retry_after().is_some_and(|after| after <= ttl + ms(2000)), "{why:?}");
    }
    assert!(masters.voters("young").is_empty());
    let held = Ledger::strict().lock(&lock).await;
    assert!(now().since(began) >= ttl, "granted after {:?}", now().since(began));
    held.release().await;
    close([session]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn masters_that_are_trusted_grant_at_once() {
    let masters = Masters::start(3);
    let session = join(&masters.url("node_timeout=1s&restart=trust"), ms(60_000)).await;
    let began = now();
    let held = Ledger::strict().lock(&mutex(&session, "young")).await;
    assert!(now().since(began) < ms(60_000));
    held.release().await;
    close([session]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_may_hold_for_longer_than_the_longest_ttl_of_the_fleet() {
    let masters = Masters::start(3);
    let url = masters.url("max_ttl=2s&node_timeout=1s");
    let why = try_join(&url, ms(3000)).await.map(drop).unwrap_err();
    assert_eq!(why.kind(), ErrorKind::Invalid, "{why}");
    assert!(why.to_string().contains("max_ttl"), "{why}");

    let session = join(&url, ms(1000)).await;
    let lock = mutex(&session, "long");
    let why = lock.lease(ms(3000)).lock().await.map(drop).unwrap_err();
    assert_eq!(why.kind(), ErrorKind::Invalid, "{why}");
    assert!(why.to_string().contains("max_ttl"), "{why}");
    // As long as it is allowed, and then the masters are as old as that.
    let held = Ledger::strict().lock(&lock.lease(ms(2000))).await;
    assert!(masters.iter().all(|server| uptime(server).unwrap() >= 2));
    held.release().await;
    close([session]).await;
}
