//! Holds of a fixed length.

use std::time::Duration;

use bramah_core::{Guard, Moment, Release};

use crate::{
    bench::{Bench, LONG, SOON, got},
    case::{Outcome, cases, ensure, ensure_eq},
    twist::{Flow, Valve},
};

cases! { "lease":
    it_ends_on_time,
    it_is_never_renewed,
    its_guard_knows_before_anyone_else_is_granted,
    one_that_was_waited_for_starts_with_its_grant [Fifo],
    a_release_ends_it_early,
    the_store_ends_it_when_its_process_does_not [StoredLeases],
    a_long_one_of_who_is_cut_off_ends_with_its_session [KeptLeases, Expiry],
    max_hold_ends_a_holder_that_hangs,
    max_hold_leaves_a_quick_holder_alone,
}

/// Waits for the loss of `guard` and for the next grant of its lock, and checks when they came.
async fn ends_between(bench: &Bench, guard: Guard, started: Moment, lease: Duration) -> Outcome {
    let mutex = bench.session().await?.mutex(guard.name())?;
    let next = tokio::spawn(async move { mutex.lock().await });
    bench.soon("the end of the lease", guard.lost()).await?;
    ensure!(!guard.is_held(), "held after its end");
    let known = bench.clock().now().since(started);
    ensure!(known < lease + SOON, "a lease of {lease:?} was known to end after {known:?}");
    let next = bench.soon("the turn after a lease", next).await???;
    let took = bench.clock().now().since(started);
    ensure!(took >= lease, "a lease of {lease:?} was handed on after {took:?}");
    ensure!(took < lease + SOON, "a lease of {lease:?} was handed on after {took:?}");
    ensure_eq!(guard.release().await, Release::AlreadyLost, "the release after the end");
    ensure!(next.is_held(), "what was granted is not held");
    Ok(())
}

async fn it_ends_on_time(bench: Bench) -> Outcome {
    let short = bench.short();
    // Far shorter than the ttl.
    let session = bench.session_of(LONG).await?;
    let started = bench.clock().now();
    let guard = session.mutex(bench.name("x"))?.lease(short).lock().await?;
    ensure!(guard.remaining() <= short, "{:?} remain of a lease of {short:?}", guard.remaining());
    ends_between(&bench, guard, started, short).await
}

async fn a_long_one_of_who_is_cut_off_ends_with_its_session(bench: Bench) -> Outcome {
    let short = bench.short();
    let valve = Valve::new();
    let session = bench.session_on(bench.twisted(&valve).await?, short * 2).await?;
    let name = bench.name("x");
    let guard = session.mutex(&name)?.lease(LONG).lock().await?;
    // It hangs from the session, and is kept with it.
    bench.pass(short * 3).await;
    ensure!(guard.is_held(), "a lease of {LONG:?} was lost while its session lives");
    valve.set_all(Flow::Held);
    let next = bench.session().await?.mutex(&name)?.lock().await?;
    ensure!(!guard.is_held(), "the old holder believed in it when the next was granted");
    ensure!(next.is_held(), "what was granted is not held");
    valve.set_all(Flow::Open);
    Ok(())
}

async fn it_is_never_renewed(bench: Bench) -> Outcome {
    // A cluster that elects a leader meanwhile renews nothing.
    let short = bench.short() * 2;
    // Longer than the ttl: the session is renewed all the time, the lease is not.
    let (session, lease) = (bench.session_of(short).await?, short * 2);
    let other = session.mutex(bench.name("other"))?.lock().await?;
    let started = bench.clock().now();
    let guard = session.mutex(bench.name("x"))?.lease(lease).lock().await?;
    bench.pass(short * 3 / 2).await;
    let (is_held, passed) = (guard.is_held(), bench.clock().now().since(started));
    ensure!(is_held || passed > lease * 9 / 10, "it ended with the ttl: not held after {passed:?}");
    ends_between(&bench, guard, started, lease).await?;
    ensure!(other.is_held(), "another lock ended with it");
    Ok(())
}

async fn its_guard_knows_before_anyone_else_is_granted(bench: Bench) -> Outcome {
    let short = bench.short();
    let session = bench.session().await?;
    let name = bench.name("x");
    let guard = session.mutex(&name)?.lease(short).lock().await?;
    let next = bench.soon("the turn after a lease", bench.session().await?.mutex(&name)?.lock()).await??;
    ensure!(!guard.is_held(), "the old holder believed in it when the next was granted");
    ensure!(next.is_held(), "what was granted is not held");
    Ok(())
}

async fn one_that_was_waited_for_starts_with_its_grant(bench: Bench) -> Outcome {
    let short = bench.short();
    let (a, b) = (bench.session().await?, bench.session_of(short).await?);
    let name = bench.name("x");
    let first = a.mutex(&name)?.lock().await?;
    let lock = b.mutex(&name)?.lease(short * 2);
    let waiter = tokio::spawn(async move { lock.lock().await });
    bench.waiting(&name, 1).await?;
    // Longer than the lease is.
    bench.pass(short * 3).await;
    let started = bench.clock().now();
    first.release().await;
    let guard = bench.soon("the turn of a lease", waiter).await???;
    ensure!(guard.is_held(), "it ran out while it waited");
    ends_between(&bench, guard, started, short * 2).await
}

async fn a_release_ends_it_early(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lease(LONG).lock().await?;
    ensure_eq!(guard.release().await, Release::Released, "the release");
    drop(got(b.mutex(&name)?.try_lock().await)?);
    Ok(())
}

async fn the_store_ends_it_when_its_process_does_not(bench: Bench) -> Outcome {
    let short = bench.short();
    let raw = bench.raw().await?;
    let name = bench.name("x");
    let mut claim = raw.mutex(&name);
    claim.lease = Some(short);
    raw.hold(&claim).await?;
    let started = bench.clock().now();
    // Nobody withdraws it, and renewals go on.
    while bench.standing(&name).await? != (0, 0) {
        raw.renew(&[&claim]).await?;
        ensure!(bench.clock().now().since(started) < SOON, "a lease of {short:?} did not end");
        bench.pass(short / 20).await;
    }
    Ok(())
}

async fn max_hold_ends_a_holder_that_hangs(bench: Bench) -> Outcome {
    let short = bench.short();
    let session = bench.session().await?;
    let started = bench.clock().now();
    let guard = session.mutex(bench.name("x"))?.max_hold(short).lock().await?;
    ends_between(&bench, guard, started, short).await
}

async fn max_hold_leaves_a_quick_holder_alone(bench: Bench) -> Outcome {
    let short = bench.short();
    let session = bench.session().await?;
    let mutex = session.mutex(bench.name("x"))?.max_hold(short);
    ensure_eq!(mutex.lock().await?.release().await, Release::Released, "the release in time");
    // The timer of the first hold finds the second, which it does not concern.
    bench.pass(short / 2).await;
    let started = bench.clock().now();
    let guard = mutex.lock().await?;
    bench.soon("the end of the second hold", guard.lost()).await?;
    let took = bench.clock().now().since(started);
    ensure!(took >= short, "a hold was ended after {took:?} by the limit of the one before it");
    Ok(())
}
