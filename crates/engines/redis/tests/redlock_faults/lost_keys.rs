//! Somebody deletes the key of a lock that is held, at some of the masters.

use bramah_core::Release;

use crate::{rig::*, stage::*};

fn delete(masters: &Masters, from: &[usize]) {
    for &at in from {
        assert_eq!(masters[at].cli(&["DEL", "kept"]).unwrap(), "1");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_key_that_one_master_lost_is_given_back_and_one_that_most_lost_is_not() {
    let masters = Masters::start(3);
    let ttl = ms(6000);
    let url = masters.url("restart=trust&node_timeout=1s");
    let (a, b) = (join(&url, ttl).await, join(&url, ttl).await);
    let ledger = Ledger::strict();
    let held = ledger.lock(&mutex(&a, "kept")).await;
    eventually("all votes", PATIENCE, || all_of(&masters, 3)).await;

    delete(&masters, &[1]);
    eventually("a vote that was given back", PATIENCE, || all_of(&masters, 3)).await;
    assert!(held.is_held());

    // The next renewal is a while off, so that it finds both of them gone.
    eventually("a renewal", PATIENCE, || {
        let left = held.remaining();
        if left > ttl - ms(700) { Ok(()) } else { Err(format!("{left:?} are left")) }
    })
    .await;
    let deadline = now() + held.remaining();
    delete(&masters, &[0, 1]);
    held.await_loss(PATIENCE).await;
    assert!(now() < deadline, "only its deadline told it, and not the renewal");
    assert_eq!(held.release().await, Release::AlreadyLost);
    eventually("the end of the last vote", PATIENCE, || all_of(&masters, 0)).await;
    // As long as a renewal would take to bring it back.
    nap(ttl / 2).await;
    assert!(masters.voters("kept").is_empty());
    assert_eq!(ledger.lock(&mutex(&b, "kept")).await.release().await, Release::Released);
    close([a, b]).await;
    masters.await_nothing_left().await;
}

fn all_of(masters: &Masters, number: usize) -> Result<(), String> {
    let voters = masters.voters("kept");
    if voters.len() == number { Ok(()) } else { Err(format!("{voters:?} have it")) }
}
