//! What becomes of the claims of processes that end, stand still, or go on.

use bramah_core::{Claim, Detached, ErrorKind, Keep, Keeper, Release, Session, Standing};
use rustix::process::Signal;

use crate::{
    bench::{Bench, LONG, SOON, got},
    case::{Outcome, cases, ensure, ensure_eq},
    child::Child,
};

cases! { "liveness":
    a_killed_holder_frees_the_lock [Children],
    a_killed_waiter_is_passed_over [Children, Fifo],
    a_stopped_holder_loses_the_lock_and_knows_when_it_goes_on [Children, Expiry],
    a_stopped_holder_keeps_the_lock_and_goes_on [Children, Connection],
    a_closed_session_frees_its_locks_and_leaves_nothing,
    a_closed_session_leaves_other_sessions_alone,
    the_last_handle_frees_everything,
    a_kept_session_outlives_its_ttl,
    a_waiter_outlives_its_ttl [Fifo],
    an_abandoned_session_frees_its_locks_after_its_ttl,
    a_lock_that_was_left_is_kept_renewed_and_released_by_its_id [Leaving],
    a_lock_that_was_left_is_no_stray [Leaving],
    a_store_that_keeps_nothing_without_its_process_says_so,
    a_dead_waiter_is_passed_over [Fifo],
    a_dead_holder_is_passed_over_with_a_waiter_behind_it,
    a_silent_waiter_is_passed_over_in_seconds [Fifo, Leases],
    a_hold_that_was_waited_for_lasts [Fifo, Leases],
}

async fn a_killed_holder_frees_the_lock(bench: Bench) -> Outcome {
    let short = bench.short();
    let name = bench.name("x");
    let session = bench.session().await?;
    let mut child = Child::start(&bench, short).await?;
    child.lock(&bench, &name).await?;
    let mutex = session.mutex(&name)?;
    ensure!(mutex.try_lock().await?.is_none(), "two processes hold it");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    child.kill()?;
    // Far sooner than the ttl of the waiter's own session.
    let _ = bench.soon("the turn after a holder was killed", waiter).await???;
    Ok(())
}

async fn a_killed_waiter_is_passed_over(bench: Bench) -> Outcome {
    let short = bench.short();
    let name = bench.name("x");
    let (a, b) = (bench.session().await?, bench.session().await?);
    let guard = a.mutex(&name)?.lock().await?;
    let mut child = Child::start(&bench, short).await?;
    child.ask(&bench, &format!("enter {name}")).await?;
    bench.waiting(&name, 1).await?;
    let mutex = b.mutex(&name)?;
    let waiter = tokio::spawn(async move { mutex.lock().await });
    bench.waiting(&name, 2).await?;
    child.kill()?;
    guard.release().await;
    let _ = bench.soon("the turn of who waited behind a killed process", waiter).await???;
    Ok(())
}

async fn a_stopped_holder_loses_the_lock_and_knows_when_it_goes_on(bench: Bench) -> Outcome {
    let short = bench.short();
    let name = bench.name("x");
    let mut child = Child::start(&bench, short).await?;
    let first = child.lock(&bench, &name).await?;
    let mutex = bench.session().await?.mutex(&name)?;
    child.signal(Signal::STOP)?;
    let guard = bench.soon("the turn after a holder was stopped", mutex.lock()).await??;
    ensure!(first.is_none() || first < guard.fence(), "{:?} after {first:?}", guard.fence());
    child.signal(Signal::CONT)?;
    ensure_eq!(child.ask(&bench, "state").await?, "lost", "a holder that was stopped past its ttl");
    ensure_eq!(child.ask(&bench, "release").await?, "AlreadyLost", "its release");
    ensure!(guard.is_held(), "a holder that was stopped took the lock back");
    ensure!(bench.session().await?.mutex(&name)?.try_lock().await?.is_none(), "two hold it");
    Ok(())
}

async fn a_stopped_holder_keeps_the_lock_and_goes_on(bench: Bench) -> Outcome {
    let short = bench.short();
    let name = bench.name("x");
    let mut child = Child::start(&bench, short).await?;
    child.lock(&bench, &name).await?;
    let mutex = bench.session().await?.mutex(&name)?;
    child.signal(Signal::STOP)?;
    let kind = mutex.lock_within(short * 3).await.err().map(|error| error.kind());
    ensure_eq!(kind, Some(ErrorKind::Timeout), "a wait for a lock whose holder is stopped");
    child.signal(Signal::CONT)?;
    ensure_eq!(child.ask(&bench, "state").await?, "held", "a holder that goes on");
    ensure_eq!(child.ask(&bench, "release").await?, "released", "its release");
    drop(got(mutex.try_lock().await)?);
    Ok(())
}

async fn a_closed_session_frees_its_locks_and_leaves_nothing(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let (one, two) = (bench.name("one"), bench.name("two"));
    let guards = (a.mutex(&one)?.lock().await?, a.mutex(&two)?.lock().await?);
    let closed = a.close(LONG / 6).await;
    ensure_eq!(closed.left, [], "what a closed session left");
    ensure!(!guards.0.is_held() && !guards.1.is_held(), "guards of a closed session are held");
    drop(got(b.mutex(&one)?.try_lock().await)?);
    drop(got(b.mutex(&two)?.try_lock().await)?);
    ensure_eq!(a.claims(), 0, "claims of a closed session");
    Ok(())
}

async fn a_closed_session_leaves_other_sessions_alone(bench: Bench) -> Outcome {
    let short = bench.short();
    let engine = bench.client().await?;
    let a = bench.session_on(engine.clone(), LONG).await?;
    let b = bench.session_on(engine, short * 2).await?;
    let name = bench.name("x");
    let guard = b.mutex(&name)?.lock().await?;
    ensure_eq!(a.close(LONG / 6).await.left, [], "what a closed session left");
    drop(a);
    bench.pass(short * 4).await;
    ensure!(guard.is_held(), "a session lost its lock when another one on the same client closed");
    ensure!(bench.session().await?.mutex(&name)?.try_lock().await?.is_none(), "two hold it");
    Ok(())
}

async fn the_last_handle_frees_everything(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let name = bench.name("x");
    let mutex = session.mutex(&name)?;
    drop(session);
    let guard = mutex.lock().await?;
    drop(mutex);
    ensure!(guard.is_held(), "a guard is a handle of its session");
    drop(guard);
    bench.emptied(&name).await
}

async fn a_kept_session_outlives_its_ttl(bench: Bench) -> Outcome {
    let short = bench.short();
    let (a, b) = (bench.session_of(short).await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    let mutex = b.mutex(&name)?;
    for _ in 0..10 {
        bench.pass(short / 2).await;
        ensure!(guard.is_held(), "a holder that lives lost its lock");
        ensure!(mutex.try_lock().await?.is_none(), "two hold it");
    }
    guard.release().await;
    Ok(())
}

async fn a_waiter_outlives_its_ttl(bench: Bench) -> Outcome {
    let short = bench.short();
    // Twice the shortest: its keeper has to be run in time, also on a machine that has much else to do.
    let ttl = short * 2;
    let (a, b, c) = (bench.session().await?, bench.session_of(ttl).await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    let mutex = b.mutex(&name)?;
    let first = tokio::spawn(async move { mutex.lock().await });
    bench.waiting(&name, 1).await?;
    let mutex = c.mutex(&name)?;
    let second = tokio::spawn(async move { mutex.lock().await });
    bench.waiting(&name, 2).await?;
    bench.pass(ttl * 3).await;
    ensure_eq!(bench.standing(&name).await?, (1, 2), "holders and waiters after three ttls");
    guard.release().await;
    let first = bench.soon("the turn of who waited first", first).await???;
    ensure!(!second.is_finished(), "two hold it");
    first.release().await;
    let _ = bench.soon("the turn of who waited second", second).await???;
    Ok(())
}

async fn an_abandoned_session_frees_its_locks_after_its_ttl(bench: Bench) -> Outcome {
    let short = bench.short();
    // A keeper that stops: what is left of a process that ended without a word.
    let (keeper, driver) = Keeper::driven(bench.clock());
    let driver = tokio::spawn(driver);
    let engine = bench.client().await?;
    let started = bench.clock().now();
    let left = Session::builder(engine).ttl(short * 2).keep(bench.silent()).keeper(keeper).open().await?;
    let name = bench.name("x");
    std::mem::forget(left.mutex(&name)?.lock().await?);
    driver.abort();
    let next = bench.soon("the turn after a ttl", bench.session().await?.mutex(&name)?.lock()).await??;
    let took = bench.clock().now().since(started);
    ensure!(took >= short * 2, "it was handed on after {took:?}, before its ttl");
    ensure!(next.is_held(), "what was granted is not held");
    Ok(())
}

async fn a_lock_that_was_left_is_kept_renewed_and_released_by_its_id(bench: Bench) -> Outcome {
    let short = bench.short();
    let name = bench.name("x");
    let engine = bench.client().await?;
    let session = Session::builder(engine).ttl(short).keep(Keep::Nobody).open().await?;
    let left = session.mutex(&name)?.lock().await?.leave_for(short * 4).await?;
    drop(session);
    let other = bench.session().await?;
    ensure!(other.mutex(&name)?.try_lock().await?.is_none(), "it was not left but released");
    // From another process, so to speak.
    let left = Detached::new(bench.client().await?, name.clone(), left.id());
    for _ in 0..4 {
        bench.pass(short * 2).await;
        ensure_eq!(left.renew().await?, short * 4, "the ttl that it was taken with");
    }
    ensure!(other.mutex(&name)?.try_lock().await?.is_none(), "it was renewed, and is gone");
    ensure!(left.release().await?, "it was held, and could not be released");
    ensure!(!left.release().await?, "it was released twice");
    ensure_eq!(left.renew().await.map_err(|error| error.kind()), Err(ErrorKind::Lost), "a renewal after all");
    ensure!(other.mutex(&name)?.try_lock().await?.is_some(), "it is not free after its release");
    Ok(())
}

async fn a_lock_that_was_left_is_no_stray(bench: Bench) -> Outcome {
    let short = bench.short();
    let (x, y) = (bench.name("x"), bench.name("y"));
    let engine = bench.client().await?;
    let session = Session::builder(engine).ttl(short * 3).keep(Keep::Nobody).open().await?;
    let left = session.mutex(&x)?.lock().await?.leave().await?;
    let other = session.mutex(&y)?.lock().await?;
    // Several renewals of the other: none of them may take the first for a left-over.
    for _ in 0..4 {
        bench.pass(short * 3 / 2).await;
        left.renew().await?;
    }
    other.release().await;
    ensure!(left.release().await?, "it was withdrawn by its own session");
    Ok(())
}

async fn a_store_that_keeps_nothing_without_its_process_says_so(bench: Bench) -> Outcome {
    let short = bench.short();
    let opened = bench.raw_on(bench.client().await?, short, Keep::Nobody).await;
    let refused = opened.err().map(|error| error.kind()) == Some(ErrorKind::Unsupported);
    ensure_eq!(refused, bench.target().is_bound(), "whether a session that nobody keeps is refused");
    Ok(())
}

async fn a_dead_waiter_is_passed_over(bench: Bench) -> Outcome {
    let short = bench.short();
    let (a, b) = (bench.session().await?, bench.session().await?);
    let mortal = bench.mortal(short).await?;
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    let dead = mortal.enter(&mortal.mutex(&name)).await?;
    ensure!(matches!(dead, Standing::Queued { .. }), "two hold it");
    let mutex = b.mutex(&name)?;
    let waiter = tokio::spawn(async move { mutex.lock().await });
    // Its time is up before its turn comes.
    bench.pass(mortal.ttl + mortal.ttl / 4).await;
    guard.release().await;
    let _ = bench.soon("the turn of who waited behind the dead", waiter).await???;
    Ok(())
}

async fn a_silent_waiter_is_passed_over_in_seconds(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let silent = bench.mortal(LONG).await?;
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    ensure!(matches!(silent.enter(&silent.mutex(&name)).await?, Standing::Queued { .. }), "two hold it");
    let mutex = b.mutex(&name)?;
    let waiter = tokio::spawn(async move { mutex.lock().await });
    bench.waiting(&name, 2).await?;
    // It is granted to a process that does not answer, and whose ttl is far longer than this.
    guard.release().await;
    let patience = Claim::MAX_KEPT + SOON;
    let _ = bench.within(patience, "the turn of who waited behind the silent one", waiter).await???;
    Ok(())
}

async fn a_hold_that_was_waited_for_lasts(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    let mutex = b.mutex(&name)?;
    let waiter = tokio::spawn(async move { mutex.lock().await });
    bench.waiting(&name, 1).await?;
    guard.release().await;
    let guard = bench.soon("the turn of who waited", waiter).await???;
    // Longer than the place was kept, and than the grant was that was pushed to it.
    bench.pass(Claim::MAX_KEPT + Claim::MAX_KEPT / 4).await;
    ensure!(guard.is_held(), "a hold that was waited for was lost");
    ensure!(a.mutex(&name)?.try_lock().await?.is_none(), "two hold it");
    ensure_eq!(guard.release().await, Release::Released, "the release");
    Ok(())
}

async fn a_dead_holder_is_passed_over_with_a_waiter_behind_it(bench: Bench) -> Outcome {
    let short = bench.short();
    // Where a session carries the claims, its ttl counts from its opening.
    let started = bench.clock().now();
    let mortal = bench.mortal(short).await?;
    let name = bench.name("x");
    mortal.hold(&mortal.mutex(&name)).await?;
    // The waiter's own ttl is long: what wakes it is the end of the holder's.
    let guard = bench.soon("the turn after a ttl", bench.session().await?.mutex(&name)?.lock()).await??;
    let took = bench.clock().now().since(started);
    ensure!(took >= short, "it was handed on after {took:?}, before its ttl");
    ensure!(took < short + SOON, "it was handed on after {took:?}, and the ttl is {short:?}");
    guard.release().await;
    Ok(())
}
