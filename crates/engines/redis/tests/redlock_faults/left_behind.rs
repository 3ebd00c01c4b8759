//! Locks that outlive their process, and masters that have forgotten them.
//!
//! Of masters A, B and C one (C) cannot be reached by the first taker. A and B vote, B restarts without its data, and whoever
//! comes next reaches B and C.

use std::time::Duration;

use bramah_core::{Detached, Error, ErrorKind, Keep, Session};
use bramah_redis::{Config, Redis, Restart, redlock::Redlock};

use crate::{rig::*, stage::*};

const NAME: &str = "left";

/// A session whose locks stay when its process ends.
async fn leaver(url: &str, ttl: Duration) -> Session {
    let engine = Redlock::from_url(url).unwrap().engine().unwrap();
    Session::builder(engine).ttl(ttl).keep(Keep::Nobody).open().await.unwrap()
}

/// Takes the lock at A and B and leaves it for `ttl`; then B forgets it.
async fn leave_and_forget(masters: &Masters, ttl: Duration) -> (Detached, Ways) {
    let ways = Ways::without(masters, &[2]);
    // The masters are new, which this client knows.
    let session = leaver(&ways.url("restart=trust&node_timeout=1s"), ttl).await;
    let left = mutex(&session, NAME).lock().await.unwrap().leave().await.unwrap();
    assert_eq!(masters.voters(NAME), [0, 1]);
    masters[1].restart().unwrap();
    assert_eq!(masters.voters(NAME), [0], "it has forgotten");
    (left, ways)
}

fn names_the_option(why: &Error) {
    assert_eq!(why.kind(), ErrorKind::Invalid, "{why}");
    assert!(why.to_string().contains("max_ttl"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restarted_master_does_not_vote_for_the_longest_ttl_whatever_the_ttl_of_the_next_taker() {
    let masters = Masters::start(3);
    let (_left, _ways) = leave_and_forget(&masters, ms(20_000)).await;
    let next = join(&masters.url("node_timeout=1s"), ms(2000)).await;
    let lock = mutex(&next, NAME);
    // At once, and when B has run for longer than the ttl of who asks.
    for old in [Duration::ZERO, ms(3000)] {
        masters.await_age(old).await;
        let why = lock.try_lock().await.map(drop).unwrap_err();
        assert_eq!(why.kind(), ErrorKind::Unavailable, "{why}");
        let after = why.retry_after().unwrap_or_else(|| panic!("it does not say when: {why}"));
        assert!(after > ms(10_000), "the quarantine ends in {after:?}, before the lock does: {why}");
    }
    assert_eq!(masters.voters(NAME), [0]);
    close([next]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_max_ttl_the_next_taker_gets_a_forgotten_lock_when_it_has_run_out() {
    let masters = Masters::start(3);
    let ttl = ms(5000);
    let began = now();
    let (_left, _ways) = leave_and_forget(&masters, ttl).await;
    let next = join(&masters.url("node_timeout=1s&max_ttl=5s"), ms(1000)).await;
    let held = Ledger::strict().lock(&mutex(&next, NAME)).await;
    assert!(now().since(began) >= ttl, "granted after {:?}", now().since(began));
    held.release().await;
    close([next]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_outlives_the_quarantine_is_refused_wherever_it_enters() {
    let masters = Masters::start(3);
    let (long, ten) = (ms(31_000), ms(600_000));
    // By default, and as it was set.
    for (options, longer) in [("node_timeout=1s", long), ("node_timeout=1s&max_ttl=3s", ms(4000))] {
        let url = masters.url(options);
        names_the_option(&try_join(&url, longer).await.map(drop).unwrap_err());
        let session = leaver(&url, ms(1000)).await;
        names_the_option(&session.check_ttl(longer).unwrap_err());
        session.check_ttl(ms(3000)).unwrap();
        names_the_option(&mutex(&session, NAME).lease(longer).try_lock().await.map(drop).unwrap_err());
        let _ = session.close(PATIENCE).await;
    }
    // A client that took it for longer than the others agree to.
    let trusting = leaver(&masters.url("restart=trust&node_timeout=1s"), ten).await;
    let left = mutex(&trusting, NAME).lock().await.unwrap().leave().await.unwrap();
    let engine = Redlock::from_url(&masters.url("node_timeout=1s&max_ttl=3s")).unwrap().engine().unwrap();
    names_the_option(&Detached::new(engine, left.name().clone(), left.id()).renew().await.unwrap_err());
    assert!(left.release().await.unwrap());

    // A lock that is held already is not left for longer, and is free then.
    masters.await_age(ms(3000)).await;
    let session = leaver(&masters.url("node_timeout=1s&max_ttl=3s"), ms(2000)).await;
    let guard = mutex(&session, NAME).lock().await.unwrap();
    names_the_option(&guard.leave_for(ten).await.map(drop).unwrap_err());
    eventually("a lock that is free", PATIENCE, || match masters.voters(NAME) {
        voters if voters.is_empty() => Ok(()),
        voters => Err(format!("{voters:?} have it")),
    })
    .await;
    let _ = session.close(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_single_server_that_waits_after_a_restart_goes_by_the_same_limit() {
    let server = server(&[]);
    let port = server.port();
    let redis = |restart| Redis::new(&Config::single("127.0.0.1", port).restart(restart)).unwrap();
    let open = |restart, ttl| Session::builder(redis(restart)).ttl(ttl).open();
    names_the_option(&open(Restart::Waits(None), ms(31_000)).await.map(drop).unwrap_err());
    names_the_option(&open(Restart::Waits(Some(ms(1000))), ms(1001)).await.map(drop).unwrap_err());
    let session = open(Restart::Waits(None), ms(1000)).await.unwrap();
    let why = mutex(&session, NAME).try_lock().await.map(drop).unwrap_err();
    assert!(why.retry_after().is_some_and(|after| after > ms(10_000)), "{why}");
    assert!(open(Restart::Trusted, ms(31_000)).await.is_ok());
}
