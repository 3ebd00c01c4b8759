//! Eight processes count under one lock while masters are killed and restarted at random.
//!
//! `cargo xtask soak redlock` does it for longer.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../faults/rig.rs"]
#[allow(dead_code, reason = "it is the rig of other tests, too")]
mod rig;
#[path = "../redlock_faults/stage.rs"]
#[allow(dead_code, reason = "it is the stage of other tests, too")]
mod stage;

mod counting;
mod nemesis;

use std::time::Duration;

use bramah_core::ErrorKind;

use counting::{Counters, Log};
use nemesis::Nemesis;
use rig::*;
use stage::*;

const TTL: Duration = ms(3000);
const PROCESSES: usize = 8;
/// For how many seconds masters are killed.
const SECONDS: &str = "BRAMAH_TEST_SECONDS";
/// What runs meanwhile on this machine may take its time: a gap that is longer is none of a busy machine.
const GAP: Duration = ms(2 * 3000);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_count_is_exact_and_goes_on_while_two_of_five_masters_are_down() {
    let seconds = std::env::var(SECONDS).ok().map_or(12, |seconds| seconds.parse().unwrap());
    let masters = Masters::start(5);
    masters.await_age(TTL).await;
    let url = masters.url("node_timeout=300ms&max_ttl=3s");
    let mut counters = Counters::start(&url, PROCESSES);
    eventually("the first of every process", PATIENCE, || {
        let processes = counters.log().processes();
        if processes == PROCESSES { Ok(()) } else { Err(format!("{processes} have counted")) }
    })
    .await;

    let began = now();
    let mut nemesis = Nemesis::over(&masters, TTL);
    while now().since(began) < Duration::from_secs(seconds) {
        nemesis.act();
        counters.assert_alive();
        nap(ms(50)).await;
    }
    let ended = now();
    let log = counters.log();
    log.assert_fences_rise();
    let gap = log.longest_gap(began, ended);
    println!(
        "{} increments in {:.1?}, {} restarts, the longest gap {gap:.1?}",
        log.between(began, ended),
        ended.since(began),
        nemesis.restarts
    );
    assert!(nemesis.restarts > 0, "nothing was done to anybody");
    assert!(gap <= GAP, "nobody was granted anything for {gap:?}");

    three_down(&masters, &url, &mut counters, nemesis).await;

    counters.stop();
    let log = counters.log();
    log.assert_fences_rise();
    assert_eq!(counters.count(), log.len(), "the count is not what was added");
    masters.await_nothing_left().await;
}

/// No majority is there: an error tells it, and when it is back the lock is, too.
async fn three_down(masters: &Masters, url: &str, counters: &mut Counters, mut nemesis: Nemesis<'_>) {
    eventually("masters that all vote", PATIENCE, || nemesis.peace()).await;
    let session = join(url, TTL).await;
    let lock = mutex(&session, "beside");
    let (down, _) = masters.split_at(3);
    down.iter().for_each(|server| server.kill());
    let why = lock.lock_within(ms(1500)).await.map(drop).unwrap_err();
    assert_eq!(why.kind(), ErrorKind::Unavailable, "{why}");
    assert!(down.iter().all(|server| why.to_string().contains(&server.address())), "{why}");
    // Nobody counts any more, whatever was on its way.
    let stopped = now();
    let before = counters.log().len();
    nap(TTL).await;
    let after = counters.log().between(stopped, now());
    assert_eq!(after, 0, "{after} were granted by two of five, after {before}");

    down.iter().for_each(|server| server.restart().unwrap());
    let back = now();
    let first: Log = eventually("a count that goes on", PATIENCE, || {
        counters.assert_alive();
        let log = counters.log();
        if log.between(back, now()) > 0 { Ok(log) } else { Err("it stands still".into()) }
    })
    .await;
    let took = first.first_after(back).unwrap().since(back);
    println!("granted again {took:.1?} after the third was back");
    assert!(took <= GAP, "granted only {took:?} after the third was back");
    Ledger::strict().persist(&lock).await.release().await;
    close([session]).await;
}
