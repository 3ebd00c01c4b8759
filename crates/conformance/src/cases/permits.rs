//! So many at a time.

use std::sync::Arc;

use bramah_core::{ErrorKind, Semaphore};

use crate::{
    bench::{Bench, SLOW, got},
    case::{Outcome, cases, ensure, ensure_eq},
    history::History,
};

cases! { "permits":
    so_many_hold_and_no_more [Permits],
    weights_never_exceed_the_capacity [Permits],
    a_big_claim_is_not_starved_by_small_ones [Permits, Fifo],
    small_claims_fill_what_a_big_one_frees [Permits, Fifo],
    another_capacity_is_a_conflict_that_names_both [Permits],
    a_mutex_and_a_read_write_lock_conflict [Shared],
    a_free_line_takes_any_capacity [Permits, AnyCapacity],
    more_permits_than_there_are_is_invalid [Permits],
    a_semaphore_of_one_is_a_mutex,
}

async fn so_many_hold_and_no_more(bench: Bench) -> Outcome {
    // One claim each: a store may have one seat for a session.
    let (a, b, c) = (bench.session().await?, bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let heavy = a.semaphore(&name, 3)?.permits(2).lock().await?;
    let light = got(b.semaphore(&name, 3)?.permits(1).try_lock().await)?;
    let more = c.semaphore(&name, 3)?;
    ensure!(more.permits(1).try_lock().await?.is_none(), "four permits of three");
    heavy.release().await;
    ensure!(more.permits(3).try_lock().await?.is_none(), "four permits of three");
    drop(got(more.permits(2).try_lock().await)?);
    drop(light);
    Ok(())
}

async fn draw(semaphore: Semaphore, history: Arc<History>) -> Outcome {
    for _ in 0..12 {
        let weight = fastrand::u32(1..=semaphore.capacity());
        let guard = semaphore.permits(weight).lock().await?;
        let inside = history.enter(&guard, weight.into());
        tokio::task::yield_now().await;
        drop(inside);
        guard.release().await;
    }
    Ok(())
}

async fn weights_never_exceed_the_capacity(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let history = Arc::new(History::default());
    let mut tasks = Vec::new();
    for session in bench.sessions(3).await? {
        for _ in 0..3 {
            tasks.push(tokio::spawn(draw(session.semaphore(&name, 5)?, history.clone())));
        }
    }
    for task in tasks {
        bench.within(SLOW, "a task's last turn", task).await???;
    }
    ensure!(history.most() <= 5, "{} permits of 5 were held at once", history.most());
    Ok(())
}

async fn a_big_claim_is_not_starved_by_small_ones(bench: Bench) -> Outcome {
    let (a, b, c) = (bench.session().await?, bench.session().await?, bench.session().await?);
    let small = bench.session().await?;
    let name = bench.name("x");
    let first = a.semaphore(&name, 3)?.permits(1).lock().await?;
    let second = small.semaphore(&name, 3)?.permits(1).lock().await?;
    let all = b.semaphore(&name, 3)?.permits(3);
    let big = tokio::spawn(async move { all.lock().await });
    bench.waiting(&name, 1).await?;
    let late = c.semaphore(&name, 3)?.permits(1);
    ensure!(late.try_lock().await?.is_none(), "a small claim passed a big one that waits");
    first.release().await;
    ensure!(late.try_lock().await?.is_none(), "a small claim passed a big one that waits");
    second.release().await;
    let big = bench.soon("the big claim's turn", big).await???;
    ensure!(late.try_lock().await?.is_none(), "a permit beside all of them");
    big.release().await;
    drop(got(late.try_lock().await)?);
    Ok(())
}

async fn small_claims_fill_what_a_big_one_frees(bench: Bench) -> Outcome {
    let sessions = bench.sessions(3).await?;
    let name = bench.name("x");
    let big = sessions[0].semaphore(&name, 2)?.permits(2).lock().await?;
    let mut waiters = Vec::new();
    for session in &sessions[1..] {
        let one = session.semaphore(&name, 2)?.permits(1);
        waiters.push(tokio::spawn(async move { one.lock().await }));
    }
    bench.waiting(&name, 2).await?;
    big.release().await;
    let mut guards = Vec::new();
    for waiter in waiters {
        guards.push(bench.soon("a small claim's turn beside the other", waiter).await???);
    }
    Ok(())
}

async fn another_capacity_is_a_conflict_that_names_both(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.semaphore(&name, 3)?.permits(1).lock().await?;
    for waits in [false, true] {
        let five = b.semaphore(&name, 5)?.permits(1);
        let answer = if waits { five.lock().await.map(Some) } else { five.try_lock().await };
        let error = match answer {
            Err(error) => error,
            Ok(guard) => {
                ensure!(guard.is_none(), "a semaphore of 3 was held as one of 5");
                ensure!(false, "another capacity was answered with busy");
                return Ok(());
            }
        };
        ensure_eq!(error.kind(), ErrorKind::Conflict, "another capacity: {error}");
        let said = error.to_string();
        ensure!(said.contains('3') && said.contains('5'), "it does not name both: {said}");
    }
    ensure_eq!(bench.standing(&name).await?, (1, 0), "holders and waiters after a conflict");
    drop(guard);
    Ok(())
}

async fn a_mutex_and_a_read_write_lock_conflict(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    let error = b.rwlock(&name)?.read().try_lock().await.err();
    ensure_eq!(error.map(|error| error.kind()), Some(ErrorKind::Conflict), "a reader of a mutex");
    guard.release().await;
    let reader = got(b.rwlock(&name)?.read().try_lock().await)?;
    let error = a.mutex(&name)?.try_lock().await.err();
    ensure_eq!(error.map(|error| error.kind()), Some(ErrorKind::Conflict), "a mutex that is read");
    drop(reader);
    Ok(())
}

async fn a_free_line_takes_any_capacity(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let name = bench.name("x");
    for capacity in [2, 7, 1, 3] {
        let guard = got(session.semaphore(&name, capacity)?.permits(1).try_lock().await)?;
        guard.release().await;
    }
    Ok(())
}

async fn more_permits_than_there_are_is_invalid(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let semaphore = session.semaphore(bench.name("x"), 3)?;
    for permits in [0, 4, u32::MAX] {
        let error = semaphore.permits(permits).try_lock().await.err();
        ensure_eq!(error.map(|error| error.kind()), Some(ErrorKind::Invalid), "{permits} permits of 3");
    }
    Ok(())
}

async fn a_semaphore_of_one_is_a_mutex(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.semaphore(&name, 1)?.permits(1).lock().await?;
    ensure!(b.mutex(&name)?.try_lock().await?.is_none(), "a mutex beside the only permit");
    guard.release().await;
    drop(got(b.mutex(&name)?.try_lock().await)?);
    Ok(())
}
