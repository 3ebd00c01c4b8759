//! One holder at a time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah_core::{ErrorKind, Name, Release, Session};

use crate::{
    bench::{Bench, SLOW, SOON, got},
    case::{Outcome, cases, ensure, ensure_eq},
    history::History,
};

cases! { "exclusive":
    two_sessions_exclude_each_other,
    two_tasks_of_one_session_exclude_each_other,
    many_tasks_never_overlap,
    many_tasks_of_different_patience_never_overlap,
    a_busy_try_is_no_error_and_leaves_nothing,
    a_wait_that_is_too_short_is_a_timeout,
    a_release_in_time_ends_a_wait,
    a_release_tells_how_it_went,
    a_dropped_guard_frees_the_lock,
    a_waiter_gets_what_a_dropped_guard_frees,
}

async fn two_sessions_exclude_each_other(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    ensure!(guard.is_held(), "a guard that was just granted is not held");
    ensure!(b.mutex(&name)?.try_lock().await?.is_none(), "two sessions hold it");
    guard.release().await;
    drop(got(b.mutex(&name)?.try_lock().await)?);
    Ok(())
}

async fn two_tasks_of_one_session_exclude_each_other(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let mutex = session.mutex(bench.name("x"))?;
    let guard = mutex.lock().await?;
    ensure!(mutex.try_lock().await?.is_none(), "one session holds it twice");
    let waiter = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.lock().await }
    });
    guard.release().await;
    let _ = bench.soon("the second task's turn", waiter).await???;
    Ok(())
}

const ROUNDS: usize = 15;

/// Work that goes wrong when two do it at once: it reads, lets others run, and writes.
async fn add_one(counter: &AtomicU64) {
    let seen = counter.load(Ordering::Relaxed);
    tokio::task::yield_now().await;
    counter.store(seen + 1, Ordering::Relaxed);
}

async fn many_tasks_never_overlap(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let (history, counter) = (Arc::new(History::default()), Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for session in bench.sessions(4).await? {
        for _ in 0..4 {
            let (mutex, history, counter) = (session.mutex(&name)?, history.clone(), counter.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..ROUNDS {
                    let guard = mutex.lock().await?;
                    let inside = history.enter(&guard, 1);
                    add_one(&counter).await;
                    drop(inside);
                    guard.release().await;
                }
                Outcome::Ok(())
            }));
        }
    }
    for task in tasks {
        bench.within(SLOW, "a task's last turn", task).await???;
    }
    history.check_exclusive()?;
    let total = u64::try_from(16 * ROUNDS).unwrap_or(0);
    ensure_eq!(counter.load(Ordering::Relaxed), total, "updates were lost");
    Ok(())
}

async fn many_tasks_of_different_patience_never_overlap(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let history = Arc::new(History::default());
    let mut tasks = Vec::new();
    for session in bench.sessions(3).await? {
        for patience in 0..3 {
            tasks.push(tokio::spawn(come_and_go(session.clone(), name.clone(), history.clone(), patience)));
        }
    }
    for task in tasks {
        bench.within(SLOW, "a task's last turn", task).await???;
    }
    history.check_exclusive()?;
    ensure!(history.count() > 0, "nobody ever held it");
    bench.emptied(&name).await
}

async fn come_and_go(session: Session, name: Name, history: Arc<History>, patience: usize) -> Outcome {
    let mutex = session.mutex(&name)?;
    for round in 0..20u64 {
        let guard = match patience {
            0 => mutex.try_lock().await?,
            1 => match mutex.lock_within(Duration::from_millis(round % 4)).await {
                Err(error) if error.kind() == ErrorKind::Timeout => None,
                other => Some(other?),
            },
            _ => Some(mutex.lock().await?),
        };
        if let Some(guard) = guard {
            let inside = history.enter(&guard, 1);
            tokio::task::yield_now().await;
            drop(inside);
            drop(guard);
        }
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn a_busy_try_is_no_error_and_leaves_nothing(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    for _ in 0..3 {
        ensure!(b.mutex(&name)?.try_lock().await?.is_none(), "two sessions hold it");
    }
    ensure_eq!(b.claims(), 0, "claims of the one that tried");
    ensure_eq!(bench.standing(&name).await?, (1, 0), "holders and waiters");
    drop(guard);
    Ok(())
}

async fn a_wait_that_is_too_short_is_a_timeout(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    let (clock, wait) = (bench.clock(), Duration::from_millis(60));
    let started = clock.now();
    let answer = bench.soon("the timeout", b.mutex(&name)?.lock_within(wait)).await?;
    let took = clock.now().since(started);
    let kind = answer.err().map(|error| error.kind());
    ensure_eq!(kind, Some(ErrorKind::Timeout), "the end of a wait for a busy lock");
    ensure!(took >= wait, "it gave up after {took:?}");
    ensure!(took < wait + SOON, "a wait of {wait:?} took {took:?}");
    ensure!(guard.is_held(), "a waiter took the lock from its holder");
    Ok(())
}

async fn a_release_in_time_ends_a_wait(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    let mutex = b.mutex(&name)?;
    let waiter = tokio::spawn(async move { mutex.lock_within(Duration::from_secs(8)).await });
    guard.release().await;
    let next = bench.soon("the waiter's turn", waiter).await???;
    ensure!(next.is_held(), "what was waited for is not held");
    Ok(())
}

async fn a_release_tells_how_it_went(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let name = bench.name("x");
    let guard = session.mutex(&name)?.lock().await?;
    ensure_eq!(guard.release().await, Release::Released, "a release");
    ensure_eq!(session.claims(), 0, "claims after a release");
    ensure_eq!(bench.standing(&name).await?, (0, 0), "holders and waiters after a release");
    Ok(())
}

async fn a_dropped_guard_frees_the_lock(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    drop(a.mutex(&name)?.lock().await?);
    bench.emptied(&name).await?;
    drop(got(b.mutex(&name)?.try_lock().await)?);
    Ok(())
}

async fn a_waiter_gets_what_a_dropped_guard_frees(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    let mutex = b.mutex(&name)?;
    let waiter = tokio::spawn(async move { mutex.lock().await });
    drop(guard);
    let _ = bench.soon("the waiter's turn", waiter).await???;
    Ok(())
}
