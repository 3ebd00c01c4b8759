//! First come, first served.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bramah_core::{ErrorKind, Name, Session, Standing, Wait};
use tokio::task::JoinHandle;

use crate::{
    bench::{Bench, SOON, held},
    case::{Outcome, cases, ensure, ensure_eq, wait_until},
};

cases! { "order":
    waiters_are_served_in_the_order_they_came [Fifo],
    waiters_of_one_session_are_served_in_order [Fifo, ManySeats],
    order_holds_under_churn [Fifo],
    a_waiter_that_timed_out_gives_up_its_place [Fifo],
    a_waiter_that_was_dropped_gives_up_its_place [Fifo],
    a_newcomer_does_not_pass_a_waiter [Fifo],
    a_waiter_is_told_how_many_are_ahead [Fifo],
}

type Served = Arc<Mutex<Vec<usize>>>;

/// Waits for the lock, notes its number, and passes the lock on.
fn queue_up(session: &Session, name: &Name, number: usize, served: &Served) -> Outcome<JoinHandle<Outcome>> {
    let (mutex, served) = (session.mutex(name)?, served.clone());
    Ok(tokio::spawn(async move {
        let guard = mutex.lock().await?;
        served.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        guard.release().await;
        Ok(())
    }))
}

fn seen(served: &Served) -> Vec<usize> {
    served.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

async fn waiters_are_served_in_the_order_they_came(bench: Bench) -> Outcome {
    let (name, served) = (bench.name("x"), Served::default());
    let holder = bench.session().await?;
    let guard = holder.mutex(&name)?.lock().await?;
    let sessions = bench.sessions(8).await?;
    let mut waiters = Vec::new();
    for (number, session) in sessions.iter().enumerate() {
        waiters.push(queue_up(session, &name, number, &served)?);
        bench.waiting(&name, number + 1).await?;
    }
    guard.release().await;
    for waiter in waiters {
        bench.soon("a waiter's turn", waiter).await???;
    }
    ensure_eq!(seen(&served), (0..8).collect::<Vec<_>>(), "the order of service");
    Ok(())
}

async fn waiters_of_one_session_are_served_in_order(bench: Bench) -> Outcome {
    let (name, served) = (bench.name("x"), Served::default());
    let sessions = bench.sessions(2).await?;
    let guard = sessions[0].mutex(&name)?.lock().await?;
    let mut waiters = Vec::new();
    for number in 0..10 {
        // Two sessions by turns: the order is that of the store, not of a process.
        waiters.push(queue_up(&sessions[number % 2], &name, number, &served)?);
        bench.waiting(&name, number + 1).await?;
    }
    guard.release().await;
    for waiter in waiters {
        bench.soon("a waiter's turn", waiter).await???;
    }
    ensure_eq!(seen(&served), (0..10).collect::<Vec<_>>(), "the order of service");
    Ok(())
}

async fn is_in_line(bench: &Bench, name: &Name, session: &Session) -> Outcome<bool> {
    let line = bench.line(name).await?;
    Ok(line.is_some_and(|line| line.waiters().any(|place| place.claim.id.session == session.id())))
}

async fn order_holds_under_churn(bench: Bench) -> Outcome {
    let (name, served) = (bench.name("x"), Served::default());
    let sessions = bench.sessions(13).await?;
    let guard = sessions[12].mutex(&name)?.lock().await?;
    let (mut staying, mut leaving, mut timing) = (Vec::new(), Vec::new(), Vec::new());
    for (number, session) in sessions[..12].iter().enumerate() {
        match number % 3 {
            0 => staying.push(queue_up(session, &name, number, &served)?),
            1 => leaving.push(queue_up(session, &name, number, &served)?),
            _ => {
                let mutex = session.mutex(&name)?;
                timing.push(tokio::spawn(async move { mutex.lock_within(Duration::from_millis(600)).await }));
            }
        }
        // Those whose time is up may have left again by the time that one looks.
        let gone = || timing.last().is_some_and(|timing| number % 3 == 2 && timing.is_finished());
        wait_until!(bench, SOON, gone() || is_in_line(&bench, &name, session).await?, "the next in line");
    }
    for waiter in leaving {
        waiter.abort();
    }
    for waiter in timing {
        let answer = bench.soon("a waiter's timeout", waiter).await??;
        let kind = answer.err().map(|error| error.kind());
        ensure_eq!(kind, Some(ErrorKind::Timeout), "the end of a wait for a busy lock");
    }
    bench.waiting(&name, 4).await?;
    guard.release().await;
    for waiter in staying {
        bench.soon("a waiter's turn", waiter).await???;
    }
    ensure_eq!(seen(&served), [0, 3, 6, 9], "the order of service of those who stayed");
    bench.emptied(&name).await
}

async fn a_waiter_that_timed_out_gives_up_its_place(bench: Bench) -> Outcome {
    let sessions = bench.sessions(3).await?;
    let name = bench.name("x");
    let guard = sessions[0].mutex(&name)?.lock().await?;
    let answer = sessions[1].mutex(&name)?.lock_within(Duration::from_millis(50)).await;
    ensure_eq!(answer.err().map(|error| error.kind()), Some(ErrorKind::Timeout), "a short wait");
    bench.waiting(&name, 0).await?;
    let mutex = sessions[2].mutex(&name)?;
    let next = tokio::spawn(async move { mutex.lock().await });
    guard.release().await;
    let _ = bench.soon("the turn of who came after the one that gave up", next).await???;
    Ok(())
}

async fn a_waiter_that_was_dropped_gives_up_its_place(bench: Bench) -> Outcome {
    let (name, served) = (bench.name("x"), Served::default());
    let sessions = bench.sessions(3).await?;
    let guard = sessions[0].mutex(&name)?.lock().await?;
    let dropped = queue_up(&sessions[1], &name, 1, &served)?;
    bench.waiting(&name, 1).await?;
    let stays = queue_up(&sessions[2], &name, 2, &served)?;
    bench.waiting(&name, 2).await?;
    dropped.abort();
    bench.waiting(&name, 1).await?;
    guard.release().await;
    bench.soon("the turn of who came after the one that gave up", stays).await???;
    ensure_eq!(seen(&served), [2], "those served");
    Ok(())
}

async fn a_newcomer_does_not_pass_a_waiter(bench: Bench) -> Outcome {
    let (a, b, c) = (bench.raw().await?, bench.raw().await?, bench.raw().await?);
    let name = bench.name("x");
    let (first, second) = (a.mutex(&name), b.mutex(&name));
    a.hold(&first).await?;
    ensure!(matches!(b.enter(&second).await?, Standing::Queued { .. }), "two hold it");
    a.withdraw(&first).await?;
    // The second has not asked yet; the lock is its own nevertheless.
    let mut newcomer = c.mutex(&name);
    newcomer.wait = Wait::No;
    let answer = c.enter(&newcomer).await?;
    ensure!(matches!(answer, Standing::Refused), "a newcomer passed a waiter: {answer:?}");
    held(b.ask(&second).await?)?;
    b.withdraw(&second).await?;
    Ok(())
}

async fn a_waiter_is_told_how_many_are_ahead(bench: Bench) -> Outcome {
    let raws = [bench.raw().await?, bench.raw().await?, bench.raw().await?];
    let name = bench.name("x");
    let claims: Vec<_> = raws.iter().map(|raw| raw.mutex(&name)).collect();
    raws[0].hold(&claims[0]).await?;
    for number in 1..3u32 {
        let index = usize::try_from(number).unwrap_or(0);
        match raws[index].enter(&claims[index]).await? {
            // A store that cannot count says nothing.
            Standing::Queued { ahead, .. } => {
                ensure!(ahead.is_none_or(|ahead| ahead == number), "{ahead:?} ahead of number {number}");
            }
            other => ensure!(false, "number {number} does not wait: {other:?}"),
        }
    }
    for (raw, claim) in raws.iter().zip(&claims).rev() {
        raw.withdraw(claim).await?;
    }
    Ok(())
}
