//! The examples of the documentation, one for each face. Each is copied from the rustdoc of its type: it works on every store
//! whose profile has the mode, with one session.

use std::time::Duration;

use bramah_core::{Detached, Fencing, Keep, Owner, Session, all, blocking};

use crate::{
    bench::{Bench, LONG},
    case::{Failure, Outcome, cases, ensure, ensure_eq},
};

cases! { "examples":
    session,
    mutex,
    rwlock [Shared, ManyShared],
    semaphore [Permits, ManyShared],
    slots,
    election,
    owner,
    all_of_several,
    detached [Leaving],
    blocking_session,
    blocking_rwlock [Shared, ManyShared],
}

fn has_fences(bench: &Bench) -> bool {
    bench.profile().fence != Fencing::None
}

/// `bramah_core::Session`.
async fn session(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let guard = session.mutex(bench.name("orders/42"))?.lock().await?;
    ensure!(guard.is_held(), "it is not held");
    guard.release().await;
    Ok(())
}

/// `bramah_core::Mutex`.
async fn mutex(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let mutex = session.mutex(bench.name("orders/42"))?;
    let guard = mutex.lock().await?;
    ensure!(mutex.try_lock().await?.is_none(), "a try beside the holder");
    ensure!(mutex.lock_within(Duration::from_millis(10)).await.is_err(), "a wait beside the holder");
    let first = guard.fence();
    ensure_eq!(guard.keep(async { "done" }).await?, "done", "the work");
    guard.release().await;
    let second = bench.soon("the second grant", mutex.lock()).await??;
    ensure!(!has_fences(&bench) || second.fence() > first, "{:?} after {first:?}", second.fence());
    Ok(())
}

/// `bramah_core::RwLock`.
async fn rwlock(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let config = session.rwlock(bench.name("config"))?;
    let one = config.read().await?;
    let two = bench.soon("a second reader of one session", config.read().lock()).await??;
    ensure!(config.write().try_lock().await?.is_none(), "a writer beside readers");
    drop((one, two));
    let writer = bench.soon("the writer", config.write().lock()).await??;
    ensure!(!has_fences(&bench) || writer.fence().is_some(), "a writer without a fence");
    Ok(())
}

/// `bramah_core::Semaphore`.
async fn semaphore(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let reports = session.semaphore(bench.name("reports"), 3)?;
    let heavy = reports.permits(2).await?;
    let light = bench.soon("a second permit of one session", reports.permits(1).lock()).await??;
    ensure!(reports.permits(1).try_lock().await?.is_none(), "a permit more than there are");
    drop((heavy, light));
    Ok(())
}

/// `bramah_core::Slots`.
async fn slots(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let reports = session.slots(bench.name("reports"), 2)?;
    let one = reports.lock().await?;
    let two = bench.soon("a second slot", reports.lock()).await??;
    ensure!(reports.try_lock().await?.is_none(), "a slot more than there are");
    drop((one, two));
    Ok(())
}

/// `bramah_core::Election`.
async fn election(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let election = session.election(bench.name("billing/leader"))?;
    let leadership = election.campaign("10.0.0.7:8080").await?;
    let leader = election.leader().await?.map(|leader| leader.value);
    ensure_eq!(leader.as_deref(), Some("10.0.0.7:8080"), "the leader");
    leadership.proclaim("10.0.0.7:8081").await?;
    leadership.resign().await;
    ensure!(election.leader().await?.is_none(), "a leader after it resigned");
    Ok(())
}

/// `bramah_core::Owner`.
async fn owner(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let mutex = session.mutex(bench.name("account/7"))?;
    let request = Owner::new();
    let outer = mutex.owned_by(&request).lock().await?;
    let inner = bench.soon("the owner's second hold", mutex.owned_by(&request).lock()).await??;
    ensure_eq!(request.count(&session, mutex.name()), 2, "the holds of the owner");
    ensure_eq!(outer.fence(), inner.fence(), "the fences");
    Ok(())
}

/// `bramah_core::all`.
async fn all_of_several(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let (from, to) = (session.mutex(bench.name("account/7"))?, session.mutex(bench.name("account/9"))?);
    let guards = all([from, to]).lock().await?;
    ensure!(guards.is_held(), "not all are held");
    guards.release().await;
    Ok(())
}

/// `bramah_core::Detached`.
async fn detached(bench: Bench) -> Outcome {
    let store = bench.client().await?;
    let session = Session::builder(store.clone()).ttl(LONG).keep(Keep::Nobody).open().await?;
    let left = session.mutex(bench.name("deploy/prod"))?.lock().await?.leave().await?;
    drop(session);
    let again = Detached::new(store, left.name().clone(), left.id());
    again.renew().await?;
    ensure!(again.release().await?, "what was left is not held");
    Ok(())
}

/// `bramah_core::blocking`.
async fn blocking_session(bench: Bench) -> Outcome {
    without_async(bench, |session, bench| {
        let guard = session.mutex(bench.name("orders/42"))?.lock()?;
        ensure!(guard.is_held(), "it is not held");
        guard.release();
        Ok(())
    })
    .await
}

/// The example of `bramah_core::RwLock` by the blocking faces.
async fn blocking_rwlock(bench: Bench) -> Outcome {
    without_async(bench, |session, bench| {
        let config = session.rwlock(bench.name("config"))?;
        let one = config.read().lock()?;
        let two = config.read().lock_within(LONG / 3)?;
        ensure!(config.write().try_lock()?.is_none(), "a writer beside readers");
        drop((one, two));
        let writer = config.write().lock_within(LONG / 3)?;
        ensure!(!has_fences(bench) || writer.fence().is_some(), "a writer without a fence");
        Ok(())
    })
    .await
}

/// Runs an example on a thread that is not a runtime's, as its user would.
async fn without_async(
    bench: Bench,
    example: impl FnOnce(&blocking::Session, &Bench) -> Outcome + Send + 'static,
) -> Outcome {
    let engine = bench.client().await?;
    let builder = Session::builder(engine).ttl(LONG).store("conformance");
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("example".into()).spawn(move || {
        let outcome = blocking::Session::build(builder).map_err(Failure::from);
        // Who waited has given up if nobody is told.
        let _ = tell.send(outcome.and_then(|session| example(&session, &bench)));
    })?;
    told.await.unwrap_or_else(|_| Err(Failure::new("the example panicked")))
}
