//! Sessions, guards and waits that are dropped inside runtimes of every kind: nothing is left, and no executor is blocked.

use std::{sync::Arc, time::Duration};

use bramah_core::{Engine, Name, Session};
use tokio::{runtime::Runtime, sync::oneshot};

use crate::{
    bench::{Bench, LONG},
    case::{Failure, Outcome, cases, ensure, wait_until},
    child::{Child, Flavor},
    twist::{Flow, Valve},
};

cases! { "dropping":
    sessions_dropped_in_runtimes_of_every_kind_leave_nothing,
    a_wait_dropped_with_its_session_leaves_no_place_in_line [Fifo],
    dropped_sessions_do_not_block_their_executor,
    a_program_that_ends_leaves_no_lock_behind [Children],
}

/// Sessions of one task, one after another.
const ROUNDS: usize = 2;
const TASKS: usize = 8;

/// Where handles are dropped.
#[derive(Clone, Copy, Debug)]
enum Place {
    Inside(Flavor),
    /// On a thread for blocking work.
    Blocking,
    /// After the runtime's end.
    Outside,
}

const PLACES: [Place; 5] = [
    Place::Inside(Flavor::CurrentThread),
    Place::Inside(Flavor::Workers(1)),
    Place::Inside(Flavor::Workers(2)),
    Place::Blocking,
    Place::Outside,
];

impl Place {
    fn runtime(self) -> std::io::Result<Runtime> {
        match self {
            Self::Inside(flavor) => flavor.build(),
            Self::Blocking | Self::Outside => Flavor::Workers(2).build(),
        }
    }
}

/// Runs `work` on a thread of its own, and waits until that has ended with everything that is local to it.
async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> Outcome<T> + Send + 'static) -> Outcome<T> {
    let thread = std::thread::spawn(work);
    let joined = tokio::task::spawn_blocking(move || thread.join()).await?;
    joined.map_err(|_| Failure::new("the thread of the case panicked"))?
}

async fn sessions_dropped_in_runtimes_of_every_kind_leave_nothing(bench: Bench) -> Outcome {
    for (number, place) in PLACES.into_iter().enumerate() {
        let names: Vec<Name> = (0..TASKS).map(|task| bench.name(&format!("{number}.{task}"))).collect();
        let (inner, theirs) = (bench.clone(), names.clone());
        on_a_thread(move || {
            let runtime = place.runtime()?;
            let kept = runtime.block_on(async move {
                let engine = inner.client().await?;
                let tasks: Vec<_> = theirs
                    .into_iter()
                    .map(|name| tokio::spawn(rounds(engine.clone(), name, place)))
                    .collect();
                let mut kept = Vec::new();
                for task in tasks {
                    kept.push(task.await??);
                }
                Outcome::Ok(kept)
            })?;
            drop(runtime);
            drop(kept);
            Ok(())
        })
        .await?;
        for name in names {
            bench.emptied(&name).await.map_err(|failure| Failure::new(format!("{place:?}: {failure}")))?;
        }
    }
    Ok(())
}

/// Opens, locks and drops, session before guard. What is to be dropped outside is handed back.
async fn rounds(engine: Arc<dyn Engine>, name: Name, place: Place) -> Outcome<Option<bramah_core::Guard>> {
    for _ in 0..ROUNDS {
        let session = Session::builder(engine.clone()).ttl(LONG).open().await?;
        let guard = session.mutex(&name)?.lock().await?;
        match place {
            Place::Inside(_) => {
                drop(session);
                drop(guard);
            }
            Place::Blocking => {
                tokio::task::spawn_blocking(move || {
                    drop(session);
                    drop(guard);
                })
                .await?;
            }
            Place::Outside => return Ok(Some(guard)),
        }
    }
    Ok(None)
}

async fn a_wait_dropped_with_its_session_leaves_no_place_in_line(bench: Bench) -> Outcome {
    let holder = bench.session().await?;
    for (number, place) in PLACES.into_iter().enumerate() {
        let name = bench.name(&format!("{number}"));
        let guard = holder.mutex(&name)?.lock().await?;
        let (inner, theirs) = (bench.clone(), name.clone());
        on_a_thread(move || {
            let runtime = place.runtime()?;
            let kept = runtime.block_on(async move {
                let mutex = inner.session().await?.mutex(&theirs)?;
                let mut waiter = Box::pin(async move { mutex.lock().await.map(drop) });
                tokio::select! {
                    _ = &mut waiter => return Err(Failure::new("two hold it")),
                    waiting = inner.waiting(&theirs, 1) => waiting?,
                }
                Ok(match place {
                    Place::Inside(_) => None,
                    Place::Blocking => {
                        tokio::task::spawn_blocking(move || drop(waiter)).await?;
                        None
                    }
                    Place::Outside => Some(waiter),
                })
            })?;
            drop(runtime);
            drop(kept);
            Ok(())
        })
        .await?;
        // Sooner than the store would pass over a place that nobody keeps.
        let soon = Duration::from_secs(3);
        wait_until!(bench, soon, bench.standing(&name).await? == (1, 0), "no place in line: {place:?}");
        guard.release().await;
    }
    Ok(())
}

async fn dropped_sessions_do_not_block_their_executor(bench: Bench) -> Outcome {
    const SESSIONS: usize = 10;
    let names: Vec<Name> = (0..SESSIONS).map(|number| bench.name(&format!("{number}"))).collect();
    let valve = Valve::new();
    let (inner, theirs, shut) = (bench.clone(), names.clone(), valve.clone());
    let (tell, is_dropped) = oneshot::channel();
    let thread = std::thread::spawn(move || {
        Flavor::CurrentThread.build()?.block_on(async move {
            let engine = inner.twisted(&shut).await?;
            let mut held = Vec::new();
            for name in &theirs {
                held.push(inner.session_on(engine.clone(), LONG).await?.mutex(name)?.lock().await?);
            }
            shut.withdrawals.send_replace(Flow::Held);
            let started = inner.clock().now();
            for guard in held {
                drop(guard);
                tokio::task::yield_now().await;
            }
            let _ = tell.send(inner.clock().now().since(started));
            Outcome::Ok(())
        })
    });
    let took = is_dropped.await.map_err(|_| Failure::new("the sessions were not dropped"));
    valve.set_all(Flow::Open);
    let joined = tokio::task::spawn_blocking(move || thread.join()).await?;
    joined.map_err(|_| Failure::new("the thread of the case panicked"))??;
    // Each drop that waited would have waited for a second, for nothing could be withdrawn.
    let took = took?;
    ensure!(took < Duration::from_secs(5), "{SESSIONS} sessions were dropped in {took:?}");
    for name in names {
        bench.emptied(&name).await?;
    }
    Ok(())
}

async fn a_program_that_ends_leaves_no_lock_behind(bench: Bench) -> Outcome {
    for flavor in [Flavor::CurrentThread, Flavor::Workers(1), Flavor::Workers(2)] {
        let name = bench.name(&format!("{flavor}"));
        let mut child = Child::start(&bench, LONG).await?;
        child.ask(&bench, &format!("main {flavor} {} {name}", LONG.as_millis())).await?;
        child.ended(&bench).await?;
        bench.emptied(&name).await.map_err(|failure| Failure::new(format!("{flavor}: {failure}")))?;
    }
    Ok(())
}
