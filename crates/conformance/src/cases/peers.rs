//! Bugs that other locks have had, each as a case.

use std::{sync::Arc, time::Duration};

use bramah_core::{Claim, Engine, Error, ErrorKind, Release, Reply, Seats, Standing, line::WHOLE};

use crate::{
    bench::{Bench, LONG, SOON, got},
    case::{Outcome, cases, ensure, ensure_eq, wait_until},
    history::History,
    twist::{Deaf, Flow, Twist, Valve},
};

/// A bug that another lock has had.
#[derive(Clone, Copy, Debug)]
pub struct Trap {
    /// What goes wrong when it is not minded.
    pub rule: &'static str,
    /// The case that fails then, or `None` where it takes a quorum or SQL, and comes with those engines.
    pub case: Option<&'static str>,
}

const fn trap(rule: &'static str, case: &'static str) -> Trap {
    Trap { rule, case: Some(case) }
}

const fn later(rule: &'static str) -> Trap {
    Trap { rule, case: None }
}

/// Every trap, and where it is covered.
pub const TRAPS: [Trap; 17] = [
    trap("a deadline counts from the sending", "peers::a_deadline_counts_from_the_sending"),
    trap(
        "a loss is known before the expiry, also when the network swallows everything",
        "loss::it_is_announced_before_anyone_else_is_granted",
    ),
    trap("no wall clock in a ttl", "peers::a_ttl_is_a_length_of_time_and_not_a_date"),
    later("a quorum is counted over all members"),
    trap("a renewal that failed releases nothing", "peers::a_renewal_that_failed_releases_nothing"),
    later("an even number of members can tie"),
    trap(
        "an own claim left in doubt does not block the retry",
        "peers::an_own_claim_in_doubt_does_not_block_the_retry",
    ),
    trap(
        "a claim that lands after the release leaves no orphan",
        "cancellation::a_claim_under_way_is_withdrawn_when_it_lands",
    ),
    trap(
        "a release does not hang on its caller",
        "cancellation::a_release_under_way_goes_on_without_its_caller",
    ),
    trap("every acquisition has an id of its own", "peers::a_stale_guard_does_not_free_the_next_one"),
    trap(
        "a wake has a timer behind it, and errors surface",
        "peers::a_wake_that_never_comes_has_a_timer_behind_it",
    ),
    trap("no file is unlinked under a holder", "peers::short_lived_clients_never_overlap"),
    later("a connection that locks is not given back to a pool"),
    trap("a wait of nothing is not a wait for ever", "peers::a_wait_of_nothing_ends"),
    later("several named locks of one connection on old MySQL"),
    trap("every reader has a lease of its own", "peers::a_dead_reader_does_not_live_on_in_the_others"),
    trap(
        "a release that fails does not hide what the work gave",
        "peers::a_release_that_fails_hides_nothing",
    ),
];

cases! { "peers":
    a_deadline_counts_from_the_sending [Expiry],
    an_answer_that_took_longer_than_the_ttl_is_not_believed [Expiry],
    a_ttl_is_a_length_of_time_and_not_a_date,
    a_renewal_that_failed_releases_nothing,
    an_own_claim_in_doubt_does_not_block_the_retry,
    a_stale_guard_does_not_free_the_next_one,
    a_wake_that_never_comes_has_a_timer_behind_it,
    an_error_surfaces_to_who_waits,
    a_store_that_does_not_answer_is_waited_for_as_long_as_the_lock,
    short_lived_clients_never_overlap,
    a_wait_of_nothing_ends,
    a_dead_reader_does_not_live_on_in_the_others [Shared],
    a_release_that_fails_hides_nothing,
}

async fn a_deadline_counts_from_the_sending(bench: Bench) -> Outcome {
    let short = bench.short();
    let (valve, ttl, late) = (Valve::new(), short * 5, short);
    let session = bench.session_on(bench.twisted(&valve).await?, ttl).await?;
    let mutex = session.mutex(bench.name("x"))?;
    valve.claims.send_replace(Flow::Muted);
    valve.renewals.send_replace(Flow::Held);
    let sent = bench.clock().now();
    let waiter = tokio::spawn(async move { mutex.lock().await });
    bench.pass(late).await;
    valve.claims.send_replace(Flow::Open);
    let guard = bench.soon("the late answer", waiter).await???;
    let remaining = guard.remaining();
    let spent = bench.clock().now().since(sent);
    ensure!(spent >= late, "the answer was not late");
    ensure!(remaining <= ttl - late, "{remaining:?} remain of {ttl:?}, {spent:?} after the sending");
    valve.set_all(Flow::Open);
    Ok(())
}

async fn an_answer_that_took_longer_than_the_ttl_is_not_believed(bench: Bench) -> Outcome {
    let short = bench.short();
    let valve = Valve::new();
    let session = bench.session_on(bench.twisted(&valve).await?, short).await?;
    let name = bench.name("x");
    let mutex = session.mutex(&name)?;
    valve.claims.send_replace(Flow::Muted);
    valve.renewals.send_replace(Flow::Held);
    let waiter = tokio::spawn(async move { mutex.lock().await });
    wait_until!(bench, SOON, bench.standing(&name).await? == (1, 0), "the claim in the store");
    // Its ttl passes on the way back, and somebody else has the lock meanwhile.
    let other = bench.session().await?.mutex(&name)?.lock().await?;
    valve.set_all(Flow::Open);
    bench.pass(short / 2).await;
    ensure!(!waiter.is_finished(), "it believed an answer that was older than its ttl");
    other.release().await;
    let guard = bench.soon("its turn", waiter).await???;
    ensure!(guard.is_held(), "what was granted is not held");
    Ok(())
}

async fn a_ttl_is_a_length_of_time_and_not_a_date(bench: Bench) -> Outcome {
    let short = bench.short();
    // No test can turn the machine's clock back. What it can see: a claim that is left alone lives for its ttl by the
    // clock that runs through suspend, whatever was granted, and with which date, before it.
    let name = bench.name("x");
    for _ in 0..2 {
        // Where a session carries the claims, its ttl counts from its opening.
        let started = bench.clock().now();
        let mortal = bench.mortal(short).await?;
        mortal.hold(&mortal.mutex(&name)).await?;
        bench.emptied(&name).await?;
        let took = bench.clock().now().since(started);
        ensure!(took >= short, "a ttl of {short:?} ended after {took:?}");
        ensure!(took < short + SOON, "a ttl of {short:?} ended after {took:?}");
    }
    Ok(())
}

async fn a_renewal_that_failed_releases_nothing(bench: Bench) -> Outcome {
    let short = bench.short();
    let (valve, ttl) = (Valve::new(), short * 3);
    let session = bench.session_on(bench.twisted(&valve).await?, ttl).await?;
    let name = bench.name("x");
    let guard = session.mutex(&name)?.lock().await?;
    let started = bench.clock().now();
    valve.renewals.send_replace(Flow::Refused);
    while bench.clock().now().since(started) < ttl / 2 {
        ensure_eq!(bench.standing(&name).await?, (1, 0), "holders and waiters while renewals fail");
        ensure!(guard.is_held(), "it was given up long before its ttl");
        bench.pass(ttl / 40).await;
    }
    valve.renewals.send_replace(Flow::Open);
    bench.pass(ttl).await;
    ensure_eq!(guard.release().await, Release::Released, "the release");
    Ok(())
}

async fn an_own_claim_in_doubt_does_not_block_the_retry(bench: Bench) -> Outcome {
    let valve = Valve::new();
    let session = bench.session_on(bench.twisted(&valve).await?, LONG).await?;
    let name = bench.name("x");
    let mutex = session.mutex(&name)?;
    valve.claims.send_replace(Flow::Deafened);
    let kind = mutex.try_lock().await.err().map(|error| error.kind());
    ensure_eq!(kind, Some(ErrorKind::Unavailable), "a try whose answer was lost");
    valve.claims.send_replace(Flow::Open);
    // The store may have the first claim; the second is not held up by it until its ttl.
    drop(bench.soon("the retry", mutex.lock()).await??);
    Ok(())
}

async fn a_stale_guard_does_not_free_the_next_one(bench: Bench) -> Outcome {
    let short = bench.short();
    let (session, other) = (bench.session_of(short).await?, bench.session().await?);
    let name = bench.name("x");
    let mutex = session.mutex(&name)?;
    let stale = mutex.lock().await?;
    ensure!(other.break_hold(&name, stale.tag(), "a test").await?, "the hold was not found");
    if bench.profile().seats != Seats::Many {
        // There its process has to know first.
        bench.soon("the loss of a broken hold", stale.lost()).await?;
    }
    // From the same lock object.
    let next = got(mutex.try_lock().await)?;
    ensure!(stale.tag() != next.tag(), "two acquisitions have one id");
    stale.release().await;
    ensure!(next.is_held(), "a stale guard's release took it from the next");
    ensure_eq!(bench.standing(&name).await?, (1, 0), "holders and waiters");
    ensure!(other.mutex(&name)?.try_lock().await?.is_none(), "a stale guard's release freed it");
    ensure_eq!(next.release().await, Release::Released, "the release");
    Ok(())
}

async fn a_wake_that_never_comes_has_a_timer_behind_it(bench: Bench) -> Outcome {
    let short = bench.short();
    let deaf = bench.session_on(bench.twisted(&Arc::new(Deaf)).await?, short).await?;
    let holder = bench.session_of(short).await?;
    let name = bench.name("x");
    let guard = holder.mutex(&name)?.lock().await?;
    let mutex = deaf.mutex(&name)?;
    let waiter = tokio::spawn(async move { mutex.lock().await });
    wait_until!(bench, SOON, deaf.claims() == 1, "the waiter's claim");
    bench.pass(short / 4).await;
    guard.release().await;
    let _ = bench.soon("the turn of a waiter that no wake reaches", waiter).await???;
    Ok(())
}

/// Refuses every claim.
#[derive(Debug)]
struct Denied;

impl Twist for Denied {
    fn claim(&self, _: &Arc<dyn Engine>, _: Arc<Claim>) -> Reply<Standing> {
        Reply::now(Err(Error::new(ErrorKind::Denied, "wrong password for user ana")))
    }
}

async fn an_error_surfaces_to_who_waits(bench: Bench) -> Outcome {
    let session = bench.session_on(bench.twisted(&Arc::new(Denied)).await?, LONG).await?;
    let mutex = session.mutex(bench.name("x"))?;
    let answers = [
        bench.soon("the error", mutex.lock()).await?.err(),
        bench.soon("the error", mutex.lock_within(LONG)).await?.err(),
        bench.soon("the error", mutex.try_lock()).await?.err(),
    ];
    for error in answers {
        ensure_eq!(error.map(|error| error.kind()), Some(ErrorKind::Denied), "a claim that was denied");
    }
    wait_until!(bench, SOON, session.claims() == 0, "no claim left in the session");
    Ok(())
}

async fn a_store_that_does_not_answer_is_waited_for_as_long_as_the_lock(bench: Bench) -> Outcome {
    let short = bench.short();
    let valve = Valve::new();
    let session = bench.session_on(bench.twisted(&valve).await?, short).await?;
    let mutex = session.mutex(bench.name("x"))?;
    valve.claims.send_replace(Flow::Refused);
    let kind = bench.soon("the error", mutex.try_lock()).await?.err().map(|error| error.kind());
    ensure_eq!(kind, Some(ErrorKind::Unavailable), "a try on a store that is away");
    ensure!(session.hindrance().is_none(), "a try does not wait for the store");
    let kind = bench.soon("the error", mutex.lock_within(short / 2)).await?.err().map(|error| error.kind());
    ensure_eq!(kind, Some(ErrorKind::Unavailable), "a short wait for a store that is away");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    bench.pass(short * 2).await;
    ensure!(!waiter.is_finished(), "an endless wait ended with the store away for two ttls");
    let kind = session.hindrance().map(|error| error.kind());
    ensure_eq!(kind, Some(ErrorKind::Unavailable), "why the waiter is not served");
    valve.claims.send_replace(Flow::Open);
    let guard = bench.soon("the lock of a store that is back", waiter).await???;
    ensure!(session.hindrance().is_none(), "the store is back");
    guard.release().await;
    Ok(())
}

async fn short_lived_clients_never_overlap(bench: Bench) -> Outcome {
    let history = Arc::new(History::default());
    let mut tasks = Vec::new();
    for _ in 0..6 {
        let (bench, history) = (bench.clone(), history.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..8 {
                // A client for every turn: whatever it makes in the store and takes away again, it does here.
                let session = bench.session().await?;
                let guard = session.mutex(bench.name("x"))?.lock().await?;
                let inside = history.enter(&guard, 1);
                tokio::task::yield_now().await;
                drop(inside);
                guard.release().await;
                ensure_eq!(session.close(SOON).await.left, [], "what a closed session left");
            }
            Ok(())
        }));
    }
    for task in tasks {
        bench.soon("a task's last turn", task).await???;
    }
    ensure_eq!(history.count(), 48, "turns");
    history.check_exclusive()
}

async fn a_wait_of_nothing_ends(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    let answer =
        bench.soon("the end of a wait of nothing", b.mutex(&name)?.lock_within(Duration::ZERO)).await?;
    ensure_eq!(answer.err().map(|error| error.kind()), Some(ErrorKind::Timeout), "a wait of nothing");
    guard.release().await;
    bench.emptied(&name).await
}

async fn a_dead_reader_does_not_live_on_in_the_others(bench: Bench) -> Outcome {
    let short = bench.short();
    let (living, mortal) = (bench.session_of(short * 2).await?, bench.mortal(short).await?);
    let name = bench.name("x");
    mortal.hold(&mortal.of(&name, WHOLE, 1)).await?;
    let reader = living.rwlock(&name)?.read().lock().await?;
    let write = bench.session().await?.rwlock(&name)?.write();
    // The living one renews all the time; what a store adds to the ttl of the dead one is its own.
    wait_until!(bench, SOON, bench.standing(&name).await? == (1, 0), "the dead reader's end");
    ensure!(reader.is_held(), "the living reader lost it");
    reader.release().await;
    drop(got(write.try_lock().await)?);
    Ok(())
}

async fn a_release_that_fails_hides_nothing(bench: Bench) -> Outcome {
    let valve = Valve::new();
    let session = bench.session_on(bench.twisted(&valve).await?, LONG).await?;
    let name = bench.name("x");
    let guard = session.mutex(&name)?.lock().await?;
    let work = guard.keep(async { 42 }).await?;
    valve.withdrawals.send_replace(Flow::Refused);
    ensure_eq!(guard.release().await, Release::Unknown, "a release that failed");
    ensure_eq!(work, 42, "what the work gave");
    valve.withdrawals.send_replace(Flow::Open);
    // The keeper goes on with it.
    bench.emptied(&name).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trap_has_its_case() {
        let names: Vec<_> = crate::cases().iter().map(crate::Case::name).collect();
        for case in TRAPS.iter().filter_map(|trap| trap.case) {
            assert!(names.contains(&case), "there is no case {case}");
        }
        assert_eq!(TRAPS.iter().filter(|trap| trap.case.is_none()).count(), 4);
    }

    #[test]
    fn no_two_cases_have_one_name() {
        let mut names: Vec<_> = crate::cases().iter().map(crate::Case::name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
