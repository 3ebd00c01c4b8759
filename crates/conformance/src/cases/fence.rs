//! The number that a resource can check.

use bramah_core::{Fence, Keep};

use crate::{
    bench::{Bench, LONG, got},
    case::{Failure, Outcome, cases, ensure, ensure_eq},
    child::Child,
};

cases! { "fence":
    it_rises_over_releases_and_drops [Fences],
    it_rises_over_a_hand_over [Fences],
    it_rises_over_an_expiry [Fences],
    it_rises_over_a_crash [Fences, Children],
    it_rises_over_a_break [Fences],
    it_rises_over_a_new_client [Fences],
    it_rises_over_a_restart [LastingFences, Restart],
    it_rises_over_shared_holds [Fences, Shared],
    shared_guards_have_none [Shared],
    only_whole_permits_have_one [Fences, Permits],
    it_fits_json [Fences],
}

/// The fence of an exclusive guard.
#[track_caller]
fn fence(fence: Option<Fence>) -> Outcome<Fence> {
    fence.ok_or_else(|| Failure::new("an exclusive grant without a fence"))
}

async fn it_rises_over_releases_and_drops(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let mut last = None;
    for round in 0..24 {
        let session = if round % 3 == 0 { &b } else { &a };
        let guard = session.mutex(&name)?.lock().await?;
        let now = fence(guard.fence())?;
        ensure!(last < Some(now), "{now:?} after {last:?}");
        last = Some(now);
        if round % 2 == 0 {
            guard.release().await;
        } else {
            drop(guard);
        }
    }
    Ok(())
}

async fn it_rises_over_a_hand_over(bench: Bench) -> Outcome {
    let sessions = bench.sessions(6).await?;
    let name = bench.name("x");
    let guard = sessions[0].mutex(&name)?.lock().await?;
    let first = fence(guard.fence())?;
    let mut waiters = Vec::new();
    for session in &sessions[1..] {
        let mutex = session.mutex(&name)?;
        waiters.push(tokio::spawn(async move {
            let guard = mutex.lock().await?;
            // Taken while it is held, so pushing them here gives the order of the grants.
            let (at, fence) = (bramah_core::Clock::boot().now(), guard.fence());
            guard.release().await;
            Outcome::Ok((at, fence))
        }));
    }
    guard.release().await;
    let mut seen = Vec::new();
    for waiter in waiters {
        seen.push(bench.soon("a waiter's turn", waiter).await???);
    }
    seen.sort_by_key(|(at, _)| *at);
    let mut last = first;
    for (_, next) in seen {
        let next = fence(next)?;
        ensure!(last < next, "{next:?} after {last:?}");
        last = next;
    }
    Ok(())
}

async fn it_rises_over_an_expiry(bench: Bench) -> Outcome {
    let short = bench.short();
    let mortal = bench.mortal(short).await?;
    let name = bench.name("x");
    let first = fence(mortal.hold(&mortal.mutex(&name)).await?)?;
    let next = bench.soon("the turn after an expiry", bench.session().await?.mutex(&name)?.lock()).await??;
    let second = fence(next.fence())?;
    ensure!(first < second, "{second:?} after {first:?}");
    Ok(())
}

async fn it_rises_over_a_crash(bench: Bench) -> Outcome {
    let short = bench.short();
    let name = bench.name("x");
    let mut child = Child::start(&bench, short).await?;
    let first = fence(child.lock(&bench, &name).await?)?;
    child.kill()?;
    let next = bench.soon("the turn after a crash", bench.session().await?.mutex(&name)?.lock()).await??;
    let second = fence(next.fence())?;
    ensure!(first < second, "{second:?} after {first:?}");
    Ok(())
}

async fn it_rises_over_a_break(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    ensure!(b.break_hold(&name, guard.tag(), "a test").await?, "the hold was not found");
    let next = got(b.mutex(&name)?.try_lock().await)?;
    let (first, second) = (fence(guard.fence())?, fence(next.fence())?);
    ensure!(first < second, "{second:?} after {first:?}");
    Ok(())
}

async fn it_rises_over_a_new_client(bench: Bench) -> Outcome {
    let short = bench.short();
    let name = bench.name("x");
    let mut last = None;
    for _ in 0..4 {
        let session = bench.session().await?;
        let guard = session.mutex(&name)?.lock().await?;
        let now = fence(guard.fence())?;
        ensure!(last < Some(now), "{now:?} after {last:?}");
        last = Some(now);
        guard.release().await;
        ensure_eq!(session.close(short).await.left, [], "what a closed session left");
    }
    Ok(())
}

async fn it_rises_over_a_restart(bench: Bench) -> Outcome {
    let short = bench.short();
    let name = bench.name("x");
    let restart = bench.target().restart().cloned().ok_or_else(|| Failure::new("no way to restart"))?;
    let raw = bench.raw_on(bench.client().await?, short, Keep::Process).await?;
    let first = fence(raw.hold(&raw.mutex(&name)).await?)?;
    restart().await?;
    drop(raw);
    let session = bench.session_of(LONG).await?;
    let mutex = session.mutex(&name)?;
    let next = bench.within(LONG / 2, "the turn after a restart", mutex.lock()).await??;
    let second = fence(next.fence())?;
    ensure!(first < second, "{second:?} after {first:?}");
    Ok(())
}

async fn it_rises_over_shared_holds(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let lock = session.rwlock(bench.name("x"))?;
    let mut last = None;
    for _ in 0..5 {
        let writer = lock.write().lock().await?;
        let now = fence(writer.fence())?;
        ensure!(last < Some(now), "{now:?} after {last:?}");
        last = Some(now);
        writer.release().await;
        lock.read().lock().await?.release().await;
    }
    Ok(())
}

async fn shared_guards_have_none(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let reader = session.rwlock(bench.name("x"))?.read().lock().await?;
    ensure_eq!(reader.fence(), None, "the fence of a reader");
    Ok(())
}

async fn only_whole_permits_have_one(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let semaphore = session.semaphore(bench.name("x"), 3)?;
    let some = semaphore.permits(2).lock().await?;
    ensure_eq!(some.fence(), None, "the fence of some permits");
    some.release().await;
    let all = semaphore.permits(3).lock().await?;
    fence(all.fence())?;
    Ok(())
}

async fn it_fits_json(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let guard = session.mutex(bench.name("x"))?.lock().await?;
    let number = fence(guard.fence())?.get();
    ensure!(number < 1 << 53, "{number} does not fit 53 bits");
    Ok(())
}
