//! Whatever is dropped, wherever: nothing is left behind.

use std::{future::Future, sync::Arc, time::Duration};

use bramah_core::{Engine, ErrorKind, Mutex, Name, Order, Release, Session};

use crate::{
    bench::{Bench, LONG, SOON, got, poll_times},
    case::{Failure, Outcome, cases, ensure, ensure_eq, wait_until},
    twist::{Flow, Stepped, Valve, Whole},
};

cases! { "cancellation":
    an_acquisition_dropped_after_any_number_of_polls_leaves_nothing,
    a_wait_dropped_after_any_number_of_polls_leaves_nothing,
    a_try_dropped_after_any_number_of_polls_leaves_nothing,
    a_bounded_wait_dropped_after_any_number_of_polls_leaves_nothing,
    a_release_dropped_after_any_number_of_polls_goes_on,
    several_names_dropped_after_any_number_of_polls_leave_nothing,
    a_close_dropped_after_any_number_of_polls_goes_on,
    a_guard_dropped_in_a_panic_frees_the_lock,
    a_guard_dropped_after_its_runtime_ended_frees_the_lock,
    a_guard_dropped_outside_of_a_runtime_frees_the_lock,
    a_wait_that_ends_with_its_runtime_leaves_nothing,
    a_claim_under_way_is_withdrawn_when_it_lands,
    a_claim_that_landed_unheard_is_withdrawn,
    a_timeout_while_a_claim_is_under_way_leaves_nothing,
    a_release_under_way_goes_on_without_its_caller,
    an_answer_that_was_lost_leaves_no_ghost,
    an_answer_that_was_lost_grants_once,
    a_session_closed_while_a_claim_is_under_way_leaves_nothing,
    no_claim_or_withdrawal_is_dropped_half_way,
    no_proclamation_is_dropped_half_way,
}

/// The most polls of one sweep.
const POLLS: usize = 64;

/// Sessions on the engine as it is, and on one whose answers take several polls.
async fn benches(bench: &Bench) -> Outcome<Vec<Session>> {
    let stepped: Arc<dyn Engine> = bench.twisted(&Arc::new(Stepped(3))).await?;
    Ok(vec![bench.session().await?, bench.session_on(stepped, LONG).await?])
}

/// Polls what `make` gives once, twice, … and drops it, until it is done within the polls.
async fn sweep<F: Future + Send>(bench: &Bench, name: &Name, mut make: impl FnMut() -> F) -> Outcome {
    for polls in 1..=POLLS {
        let done = poll_times(make(), polls).await.is_some();
        bench.emptied(name).await?;
        if done {
            return Ok(());
        }
    }
    // On a real server the answer may take more polls than this: they were dropped at as many points.
    Ok(())
}

async fn an_acquisition_dropped_after_any_number_of_polls_leaves_nothing(bench: Bench) -> Outcome {
    let name = bench.name("x");
    for session in benches(&bench).await? {
        let mutex = session.mutex(&name)?;
        sweep(&bench, &name, || mutex.lock()).await?;
        // The line may have been empty because the last claim was still on its way to it.
        wait_until!(bench, SOON, session.claims() == 0, "the withdrawal of what was dropped");
        got(mutex.try_lock().await)?.release().await;
        wait_until!(bench, SOON, session.claims() == 0, "no claim left in the session");
    }
    Ok(())
}

async fn a_wait_dropped_after_any_number_of_polls_leaves_nothing(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let holder = bench.session().await?;
    for session in benches(&bench).await? {
        let guard = holder.mutex(&name)?.lock().await?;
        let mutex = session.mutex(&name)?;
        for polls in 1..=16 {
            let done = poll_times(mutex.lock(), polls).await;
            ensure!(done.is_none(), "two hold it");
        }
        wait_until!(bench, SOON, session.claims() == 0, "no claim left in the session");
        ensure_eq!(bench.standing(&name).await?, (1, 0), "holders and waiters");
        ensure!(guard.is_held(), "the holder lost it");
        guard.release().await;
        bench.emptied(&name).await?;
    }
    Ok(())
}

async fn a_try_dropped_after_any_number_of_polls_leaves_nothing(bench: Bench) -> Outcome {
    let name = bench.name("x");
    for session in benches(&bench).await? {
        let mutex = session.mutex(&name)?;
        sweep(&bench, &name, || mutex.try_lock()).await?;
    }
    Ok(())
}

async fn a_bounded_wait_dropped_after_any_number_of_polls_leaves_nothing(bench: Bench) -> Outcome {
    let name = bench.name("x");
    for session in benches(&bench).await? {
        let mutex = session.mutex(&name)?;
        sweep(&bench, &name, || mutex.lock_within(LONG)).await?;
    }
    Ok(())
}

async fn a_release_dropped_after_any_number_of_polls_goes_on(bench: Bench) -> Outcome {
    let name = bench.name("x");
    for session in benches(&bench).await? {
        let mutex = session.mutex(&name)?;
        for polls in 1..=POLLS {
            let guard = mutex.lock().await?;
            let done = poll_times(guard.release(), polls).await;
            bench.emptied(&name).await?;
            if let Some(release) = done {
                ensure_eq!(release, Release::Released, "a release");
                break;
            }
        }
        wait_until!(bench, SOON, session.claims() == 0, "no claim left in the session");
    }
    Ok(())
}

async fn several_names_dropped_after_any_number_of_polls_leave_nothing(bench: Bench) -> Outcome {
    let (one, two) = (bench.name("one"), bench.name("two"));
    for session in benches(&bench).await? {
        let all = bramah_core::all([session.mutex(&one)?, session.mutex(&two)?]);
        for polls in 1..=POLLS {
            let done = poll_times(all.lock(), polls).await.is_some();
            bench.emptied(&one).await?;
            bench.emptied(&two).await?;
            if done {
                break;
            }
        }
    }
    Ok(())
}

async fn a_close_dropped_after_any_number_of_polls_goes_on(bench: Bench) -> Outcome {
    let name = bench.name("x");
    for polls in 1..=8 {
        for session in benches(&bench).await? {
            let guard = session.mutex(&name)?.lock().await?;
            let _ = poll_times(session.close(LONG), polls).await;
            bench.emptied(&name).await?;
            ensure!(!guard.is_held(), "a guard of a closed session is held");
        }
    }
    Ok(())
}

async fn a_guard_dropped_in_a_panic_frees_the_lock(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let name = bench.name("x");
    let guard = session.mutex(&name)?.lock().await?;
    let panicked = tokio::spawn(async move {
        let _guard = guard;
        // Unwinds as a panic does, without a message on the terminal.
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    ensure!(panicked.await.is_err(), "it did not panic");
    bench.emptied(&name).await
}

/// Runs `work` on a thread with a runtime of its own, and gives what it gave when the runtime has ended.
async fn on_a_runtime_that_ends<T, F>(work: impl FnOnce() -> F + Send + 'static) -> Outcome<T>
where
    T: Send + 'static,
    F: Future<Output = Outcome<T>>,
{
    tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let given = runtime.block_on(work());
        runtime.shutdown_background();
        given
    })
    .await?
}

async fn a_guard_dropped_after_its_runtime_ended_frees_the_lock(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let (inner, held) = (bench.clone(), name.clone());
    let guard = on_a_runtime_that_ends(move || async move {
        let session = inner.session().await?;
        Ok(session.mutex(&held)?.lock().await?)
    })
    .await?;
    std::thread::spawn(move || drop(guard)).join().map_err(|_| Failure::new("dropping it panicked"))?;
    bench.emptied(&name).await
}

async fn a_guard_dropped_outside_of_a_runtime_frees_the_lock(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let name = bench.name("x");
    let guard = session.mutex(&name)?.lock().await?;
    std::thread::spawn(move || drop(guard)).join().map_err(|_| Failure::new("dropping it panicked"))?;
    bench.emptied(&name).await
}

async fn a_wait_that_ends_with_its_runtime_leaves_nothing(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let (holder, waiter) = (bench.session().await?, bench.session().await?);
    let guard = holder.mutex(&name)?.lock().await?;
    let mutex = waiter.mutex(&name)?;
    on_a_runtime_that_ends(move || async move {
        let waits = tokio::spawn(async move { mutex.lock().await.map(drop) });
        // Until it has asked.
        for _ in 0..16 {
            tokio::task::yield_now().await;
        }
        drop(waits);
        Ok(())
    })
    .await?;
    wait_until!(bench, SOON, waiter.claims() == 0, "no claim left in the session");
    ensure_eq!(bench.standing(&name).await?, (1, 0), "holders and waiters");
    guard.release().await;
    bench.emptied(&name).await
}

/// A session behind a valve and a mutex of it.
async fn valved(bench: &Bench, name: &Name, ttl: Duration) -> Outcome<(Arc<Valve>, Session, Mutex)> {
    let valve = Valve::new();
    let session = bench.session_on(bench.twisted(&valve).await?, ttl).await?;
    let mutex = session.mutex(name)?;
    Ok((valve, session, mutex))
}

async fn a_claim_under_way_is_withdrawn_when_it_lands(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let (valve, session, mutex) = valved(&bench, &name, LONG).await?;
    valve.claims.send_replace(Flow::Held);
    ensure!(poll_times(mutex.lock(), 3).await.is_none(), "it was granted before it was sent");
    valve.claims.send_replace(Flow::Open);
    wait_until!(bench, SOON, session.claims() == 0, "the withdrawal of what was under way");
    ensure_eq!(bench.standing(&name).await?, (0, 0), "holders and waiters");
    Ok(())
}

async fn a_claim_that_landed_unheard_is_withdrawn(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let (valve, session, mutex) = valved(&bench, &name, LONG).await?;
    valve.claims.send_replace(Flow::Muted);
    ensure!(poll_times(mutex.lock(), 3).await.is_none(), "it was granted before it was answered");
    wait_until!(bench, SOON, bench.standing(&name).await? == (1, 0), "the claim in the store");
    valve.claims.send_replace(Flow::Open);
    bench.emptied(&name).await?;
    wait_until!(bench, SOON, session.claims() == 0, "no claim left in the session");
    Ok(())
}

async fn a_timeout_while_a_claim_is_under_way_leaves_nothing(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let (valve, session, mutex) = valved(&bench, &name, LONG).await?;
    valve.claims.send_replace(Flow::Muted);
    let answer = bench.soon("the timeout", mutex.lock_within(Duration::from_millis(50))).await?;
    ensure_eq!(answer.err().map(|error| error.kind()), Some(ErrorKind::Timeout), "a claim that hangs");
    valve.claims.send_replace(Flow::Open);
    bench.emptied(&name).await?;
    wait_until!(bench, SOON, session.claims() == 0, "no claim left in the session");
    Ok(())
}

async fn a_release_under_way_goes_on_without_its_caller(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let (valve, session, mutex) = valved(&bench, &name, LONG).await?;
    let guard = mutex.lock().await?;
    valve.withdrawals.send_replace(Flow::Held);
    ensure!(poll_times(guard.release(), 3).await.is_none(), "it was released before it was sent");
    ensure_eq!(bench.standing(&name).await?, (1, 0), "holders and waiters");
    valve.withdrawals.send_replace(Flow::Open);
    bench.emptied(&name).await?;
    wait_until!(bench, SOON, session.claims() == 0, "no claim left in the session");
    Ok(())
}

async fn an_answer_that_was_lost_leaves_no_ghost(bench: Bench) -> Outcome {
    let short = bench.short();
    let name = bench.name("x");
    let (valve, session, mutex) = valved(&bench, &name, short * 2).await?;
    valve.claims.send_replace(Flow::Deafened);
    let answer = mutex.try_lock().await;
    ensure_eq!(answer.err().map(|error| error.kind()), Some(ErrorKind::Unavailable), "a lost answer");
    valve.claims.send_replace(Flow::Open);
    bench.emptied(&name).await?;
    wait_until!(bench, SOON, session.claims() == 0, "no claim left in the session");
    Ok(())
}

async fn an_answer_that_was_lost_grants_once(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let (valve, _session, mutex) = valved(&bench, &name, LONG).await?;
    valve.claims.send_replace(Flow::Deafened);
    let waiter = tokio::spawn(async move { mutex.lock().await });
    wait_until!(bench, SOON, bench.standing(&name).await? == (1, 0), "the claim in the store");
    valve.claims.send_replace(Flow::Open);
    let guard = bench.soon("the grant after a lost answer", waiter).await???;
    ensure_eq!(bench.standing(&name).await?, (1, 0), "holders and waiters");
    ensure_eq!(guard.release().await, Release::Released, "the release");
    bench.emptied(&name).await
}

async fn a_session_closed_while_a_claim_is_under_way_leaves_nothing(bench: Bench) -> Outcome {
    // Who only watches leaves nothing in the store to be seen.
    let both = bench.profile().order == Order::Fifo;
    for busy in [false, true].into_iter().filter(|busy| both || !busy) {
        let name = bench.name(if busy { "busy" } else { "free" });
        let holder = bench.session().await?;
        let guard = if busy { Some(holder.mutex(&name)?.lock().await?) } else { None };
        let (valve, session, mutex) = valved(&bench, &name, LONG).await?;
        valve.claims.send_replace(Flow::Muted);
        let waiter = tokio::spawn(async move { mutex.lock().await });
        wait_until!(
            bench,
            SOON,
            bench.standing(&name).await? != (usize::from(busy), 0),
            "the claim in the store"
        );
        // The close is under way when the answer comes.
        ensure!(poll_times(session.close(LONG), 1).await.is_none(), "closed while a claim was under way");
        valve.claims.send_replace(Flow::Open);
        let answer = bench.soon("the end of the wait", waiter).await??;
        ensure!(answer.is_err(), "a closed session granted a lock");
        ensure_eq!(session.close(SOON).await.left, [], "what a closed session left");
        ensure_eq!(bench.standing(&name).await?, (usize::from(busy), 0), "holders and waiters");
        drop(guard);
    }
    Ok(())
}

async fn no_claim_or_withdrawal_is_dropped_half_way(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let twist = Arc::new(Whole::default());
    let session = bench.session_on(bench.twisted(&twist).await?, LONG).await?;
    let mutex = session.mutex(&name)?;
    for polls in 1..=10 {
        drop(poll_times(mutex.lock(), polls).await);
        drop(poll_times(mutex.try_lock(), polls).await);
        drop(poll_times(mutex.lock_within(Duration::from_millis(1)), polls).await);
        let guard = bench.soon("the lock", mutex.lock()).await??;
        let _ = poll_times(guard.release(), polls).await;
    }
    wait_until!(bench, SOON, session.claims() == 0, "no claim left in the session");
    ensure_eq!(twist.torn(), 0, "calls that were dropped half-way");
    bench.emptied(&name).await
}

async fn no_proclamation_is_dropped_half_way(bench: Bench) -> Outcome {
    let twist = Arc::new(Whole::default());
    let session = bench.session_on(bench.twisted(&twist).await?, LONG).await?;
    let leadership = session.election(bench.name("x"))?.campaign("one").await?;
    for polls in 1..=6 {
        let _ = poll_times(leadership.proclaim("two"), polls).await;
    }
    leadership.resign().await;
    wait_until!(bench, SOON, session.claims() == 0, "no claim left in the session");
    ensure_eq!(twist.torn(), 0, "calls that were dropped half-way");
    Ok(())
}
