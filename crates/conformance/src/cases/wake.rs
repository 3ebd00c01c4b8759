//! Nobody is forgotten in line.

use std::{sync::Arc, time::Duration};

use bramah_core::{Lock, Standing, Wait, Woken};

use crate::{
    bench::{Bench, LONG, SLOW, held},
    case::{Failure, Outcome, cases, ensure, ensure_eq},
    twist::Still,
};

cases! { "wake":
    no_wake_up_is_lost_with_the_poll_net_off [Pushed],
    no_wake_up_is_lost_among_readers_and_writers [Pushed, Shared],
    no_wake_up_is_lost_when_those_ahead_give_up [Pushed, Fifo],
    a_waiter_that_leaves_lets_those_behind_it_in [Pushed, Permits, Fifo],
    a_grant_fires_the_wake [Pushed, Fifo],
    a_wake_that_is_armed_again_fires [Pushed, Fifo],
    a_watch_takes_no_place,
    a_watch_is_woken [Pushed],
    a_watch_that_finds_it_free_holds_it,
}

/// Takes the lock so many times and gives it on each time.
async fn pass_on(lock: Lock, rounds: usize) -> Outcome {
    for _ in 0..rounds {
        let guard = lock.lock().await?;
        tokio::task::yield_now().await;
        guard.release().await;
    }
    Ok(())
}

/// Sessions whose waiters have nothing but their wake; their ttl is so long that no renewal helps.
async fn still(bench: &Bench, count: usize) -> Outcome<Vec<bramah_core::Session>> {
    let twist = Arc::new(Still);
    let mut sessions = Vec::new();
    for _ in 0..count {
        sessions.push(bench.session_on(bench.twisted(&twist).await?, LONG * 10).await?);
    }
    Ok(sessions)
}

async fn no_wake_up_is_lost_with_the_poll_net_off(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let mut tasks = Vec::new();
    for session in still(&bench, 4).await? {
        for _ in 0..2 {
            tasks.push(tokio::spawn(pass_on(session.mutex(&name)?.into(), 50)));
        }
    }
    for task in tasks {
        bench.within(SLOW, "the last of 400 hand-overs", task).await???;
    }
    Ok(())
}

async fn no_wake_up_is_lost_among_readers_and_writers(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let mut tasks = Vec::new();
    for session in still(&bench, 3).await? {
        let lock = session.rwlock(&name)?;
        for face in [lock.read(), lock.read(), lock.write()] {
            tasks.push(tokio::spawn(pass_on(face, 25)));
        }
    }
    for task in tasks {
        bench.within(SLOW, "the last of 225 hand-overs", task).await???;
    }
    Ok(())
}

async fn no_wake_up_is_lost_when_those_ahead_give_up(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let sessions = still(&bench, 3).await?;
    for round in 0..20u64 {
        let guard = sessions[0].mutex(&name)?.lock().await?;
        let (hasty, patient) = (sessions[1].mutex(&name)?, sessions[2].mutex(&name)?);
        let hasty = tokio::spawn(async move { hasty.lock_within(Duration::from_millis(round % 5)).await });
        let patient = tokio::spawn(async move { patient.lock().await });
        tokio::task::yield_now().await;
        // The hasty one gives up, or is granted, or both at once.
        guard.release().await;
        drop(bench.soon("the end of the hasty wait", hasty).await??);
        let _ = bench.soon("the patient one's turn", patient).await???;
    }
    bench.emptied(&name).await
}

async fn a_waiter_that_leaves_lets_those_behind_it_in(bench: Bench) -> Outcome {
    let sessions = still(&bench, 3).await?;
    let name = bench.name("x");
    let _two = sessions[0].semaphore(&name, 3)?.permits(2).lock().await?;
    let all = sessions[1].semaphore(&name, 3)?.permits(3);
    let big = tokio::spawn(async move { all.lock().await });
    bench.waiting(&name, 1).await?;
    let one = sessions[2].semaphore(&name, 3)?.permits(1);
    let small = tokio::spawn(async move { one.lock().await });
    bench.waiting(&name, 2).await?;
    ensure!(!small.is_finished(), "a small claim passed a big one that waits");
    big.abort();
    let _ = bench.soon("the turn of who waited behind the one that left", small).await???;
    Ok(())
}

async fn a_grant_fires_the_wake(bench: Bench) -> Outcome {
    let (a, b) = (bench.raw().await?, bench.raw().await?);
    let name = bench.name("x");
    let (first, second) = (a.mutex(&name), b.mutex(&name));
    let minted = a.hold(&first).await?;
    let Standing::Queued { wake, .. } = b.enter(&second).await? else {
        return Err(Failure::new("two hold it"));
    };
    a.withdraw(&first).await?;
    let woken = bench.soon("the wake of a grant", wake).await?;
    let fence = held(b.ask(&second).await?)?;
    if let Woken::Held(pushed) = woken {
        ensure_eq!(pushed, fence, "the fence that was pushed, and that of the grant");
    }
    ensure!(fence.is_none() || fence > minted, "{fence:?} after {minted:?}");
    b.withdraw(&second).await?;
    Ok(())
}

async fn a_wake_that_is_armed_again_fires(bench: Bench) -> Outcome {
    let (a, b) = (bench.raw().await?, bench.raw().await?);
    let name = bench.name("x");
    let (first, second) = (a.mutex(&name), b.mutex(&name));
    a.hold(&first).await?;
    b.enter(&second).await?;
    // Each question arms a wake of its own; only the last one has to fire.
    let mut last = None;
    for _ in 0..3 {
        let Standing::Queued { wake, .. } = b.ask(&second).await? else {
            return Err(Failure::new("two hold it"));
        };
        last = Some(wake);
    }
    a.withdraw(&first).await?;
    let wake = last.ok_or_else(|| Failure::new("no wake"))?;
    bench.soon("the wake of the last question", wake).await?;
    held(b.ask(&second).await?)?;
    b.withdraw(&second).await?;
    Ok(())
}

async fn a_watch_takes_no_place(bench: Bench) -> Outcome {
    let (a, b) = (bench.raw().await?, bench.raw().await?);
    let name = bench.name("x");
    let first = a.mutex(&name);
    a.hold(&first).await?;
    let mut watch = b.mutex(&name);
    watch.wait = Wait::Watch;
    let answer = b.enter(&watch).await?;
    ensure!(matches!(answer, Standing::Queued { .. }), "a watch of a busy lock: {answer:?}");
    ensure_eq!(bench.standing(&name).await?, (1, 0), "holders and waiters beside a watch");
    a.withdraw(&first).await?;
    ensure_eq!(bench.standing(&name).await?, (0, 0), "holders and waiters after the release");
    let answer = b.ask(&watch).await?;
    ensure!(matches!(answer, Standing::Gone), "a watch is not in line, and was: {answer:?}");
    Ok(())
}

async fn a_watch_is_woken(bench: Bench) -> Outcome {
    let (a, b) = (bench.raw().await?, bench.raw().await?);
    let name = bench.name("x");
    let first = a.mutex(&name);
    a.hold(&first).await?;
    let mut watch = b.mutex(&name);
    watch.wait = Wait::Watch;
    let Standing::Queued { wake, .. } = b.enter(&watch).await? else {
        return Err(Failure::new("two hold it"));
    };
    a.withdraw(&first).await?;
    let woken = bench.soon("the wake of a watch", wake).await?;
    ensure_eq!(woken, Woken::Ask, "what a watch is told");
    let mut again = b.mutex(&name);
    again.wait = Wait::Watch;
    b.hold(&again).await?;
    b.withdraw(&again).await?;
    Ok(())
}

async fn a_watch_that_finds_it_free_holds_it(bench: Bench) -> Outcome {
    let raw = bench.raw().await?;
    let name = bench.name("x");
    let mut watch = raw.mutex(&name);
    watch.wait = Wait::Watch;
    raw.hold(&watch).await?;
    ensure_eq!(bench.standing(&name).await?, (1, 0), "holders and waiters");
    raw.withdraw(&watch).await?;
    Ok(())
}
