//! Masters that answer late (B08).

use bramah_core::ErrorKind;
use bramah_lab::{Fault, Proxy, Redis as Server};

use crate::{rig::*, stage::*};

/// The mark of a master rises with every vote that it gives.
fn mark(server: &Server) -> u64 {
    server.call(&["GET", "bramah:mark"]).unwrap().text().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn votes_that_arrive_too_late_are_no_grant_and_are_taken_back() {
    let masters = Masters::start(3);
    let ways = Ways::to(&masters);
    let session = join(&ways.url("restart=trust&node_timeout=200ms"), LONG).await;
    // Every master has the scripts by now.
    let ledger = Ledger::strict();
    ledger.persist(&mutex(&session, "late")).await.release().await;
    eventually("masters without a vote", PATIENCE, || none(&masters)).await;
    let marks: Vec<u64> = masters.iter().map(mark).collect();
    let late = |fault| ways.iter().take(2).for_each(|way: &Proxy| way.replies(fault));
    late(Fault::Delay(ms(2000)));
    let why = mutex(&session, "late").try_lock().await.map(drop).unwrap_err();
    assert_eq!(why.kind(), ErrorKind::Unavailable, "{why}");
    let named = ways.iter().take(2).all(|way| why.to_string().contains(&way.address()));
    assert!(named, "{why}");
    eventually("the votes", PATIENCE, || {
        let risen = masters.iter().zip(&marks).filter(|(server, before)| mark(server) > **before).count();
        if risen == masters.len() { Ok(()) } else { Err(format!("{risen} were given")) }
    })
    .await;
    late(Fault::Pass);
    eventually("masters without a vote", PATIENCE, || none(&masters)).await;
    ledger.persist(&mutex(&session, "late")).await.release().await;
}

fn none(masters: &Masters) -> Result<(), String> {
    let found = masters.voters("late");
    if found.is_empty() { Ok(()) } else { Err(format!("{found:?} have one")) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_counts_from_before_the_first_byte() {
    let masters = Masters::start(3);
    let ways = Ways::to(&masters);
    let ttl = ms(20_000);
    for (fences, rounds) in [(true, 2), (false, 1)] {
        let url = ways.url(&format!("restart=trust&node_timeout=2s&fences={fences}"));
        let session = join(&url, ttl).await;
        let delay = ms(500);
        ways.iter().for_each(|way| way.replies(Fault::Delay(delay)));
        let guard = mutex(&session, "counted").lock().await.unwrap();
        let left = guard.remaining();
        assert!(left <= ttl - delay * rounds, "{left:?} after {rounds} rounds of {delay:?}");
        assert!(!left.is_zero());
        ways.iter().for_each(|way| way.replies(Fault::Pass));
        // Counted from the answer it would outlast the vote.
        let votes = masters.iter().map(|server| {
            let left = server.call(&["PTTL", "counted"]).unwrap().text();
            ms(left.parse().unwrap())
        });
        assert!(votes.min().unwrap() <= ttl - delay * (rounds - 1));
        guard.release().await;
        close([session]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_granted_of_which_nothing_is_left() {
    let masters = Masters::start(3);
    let ways = Ways::to(&masters);
    let ttl = ms(1000);
    let session = join(&ways.url("restart=trust&node_timeout=1m"), ttl).await;
    ways.iter().for_each(|way| way.replies(Fault::Delay(ttl)));
    let lock = mutex(&session, "over");
    for _ in 0..3 {
        let why = lock.lock_within(ttl * 2).await.map(drop).unwrap_err();
        assert_eq!(why.kind(), ErrorKind::Unavailable, "{why}");
    }
    ways.iter().for_each(|way| way.replies(Fault::Pass));
    Ledger::strict().persist(&lock).await.release().await;
    close([session]).await;
    masters.await_nothing_left().await;
}
