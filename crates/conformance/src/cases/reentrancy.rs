//! An owner takes again what it has.

use std::time::Duration;

use bramah_core::{ErrorKind, Owner, Release};

use crate::{
    bench::{Bench, got},
    case::{Outcome, cases, ensure, ensure_eq},
};

cases! { "reentrancy":
    an_owner_takes_it_again_without_waiting,
    only_the_last_release_frees_it,
    other_owners_wait,
    a_mutex_without_an_owner_is_not_reentrant,
    tasks_of_one_owner_do_not_deadlock,
    what_was_lost_is_not_taken_again,
}

async fn an_owner_takes_it_again_without_waiting(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let name = bench.name("x");
    let (mutex, owner) = (session.mutex(&name)?, Owner::new());
    let outer = mutex.owned_by(&owner).lock().await?;
    let inner = bench.soon("the second guard of one owner", mutex.owned_by(&owner).lock()).await??;
    let third = got(mutex.owned_by(&owner).try_lock().await)?;
    ensure_eq!(owner.count(&session, &name), 3, "guards of one owner");
    ensure_eq!(outer.fence(), inner.fence(), "the fences of one hold");
    ensure_eq!(bench.standing(&name).await?, (1, 0), "holders and waiters in the store");
    drop(third);
    ensure_eq!(owner.count(&session, &name), 2, "guards of one owner after a drop");
    Ok(())
}

async fn only_the_last_release_frees_it(bench: Bench) -> Outcome {
    let (session, other) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let (mutex, owner) = (session.mutex(&name)?, Owner::new());
    let outer = mutex.owned_by(&owner).lock().await?;
    let inner = mutex.owned_by(&owner).lock().await?;
    ensure_eq!(inner.release().await, Release::StillOwned, "the inner release");
    ensure!(outer.is_held(), "the inner release took it from the outer guard");
    ensure!(other.mutex(&name)?.try_lock().await?.is_none(), "the inner release freed it");
    ensure_eq!(outer.release().await, Release::Released, "the outer release");
    ensure_eq!(owner.count(&session, &name), 0, "guards of one owner at the end");
    drop(got(other.mutex(&name)?.try_lock().await)?);
    Ok(())
}

async fn other_owners_wait(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let name = bench.name("x");
    let (mutex, one, two) = (session.mutex(&name)?, Owner::new(), Owner::new());
    let guard = mutex.owned_by(&one).lock().await?;
    ensure!(mutex.owned_by(&two).try_lock().await?.is_none(), "two owners hold it");
    let kind = mutex.owned_by(&two).lock_within(Duration::from_millis(50)).await.err().map(|e| e.kind());
    ensure_eq!(kind, Some(ErrorKind::Timeout), "another owner's wait");
    // What the wait left in line is withdrawn behind its back.
    bench.waiting(&name, 0).await?;
    guard.release().await;
    drop(got(mutex.owned_by(&two).try_lock().await)?);
    Ok(())
}

async fn a_mutex_without_an_owner_is_not_reentrant(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let mutex = session.mutex(bench.name("x"))?;
    let owner = Owner::new();
    let _guard = mutex.owned_by(&owner).lock().await?;
    ensure!(mutex.try_lock().await?.is_none(), "somebody without an owner took it too");
    Ok(())
}

async fn tasks_of_one_owner_do_not_deadlock(bench: Bench) -> Outcome {
    let (session, other) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let owner = Owner::new();
    let first = other.mutex(&name)?.lock().await?;
    let mut tasks = Vec::new();
    for _ in 0..6 {
        let owned = session.mutex(&name)?.owned_by(&owner);
        tasks.push(tokio::spawn(async move {
            for _ in 0..10 {
                let outer = owned.lock().await?;
                let inner = owned.lock().await?;
                tokio::task::yield_now().await;
                drop(outer);
                drop(inner);
            }
            Outcome::Ok(())
        }));
    }
    first.release().await;
    for task in tasks {
        bench.soon("the end of a task of the owner", task).await???;
    }
    bench.emptied(&name).await
}

async fn what_was_lost_is_not_taken_again(bench: Bench) -> Outcome {
    let short = bench.short();
    let (session, other) = (bench.session_of(short).await?, bench.session().await?);
    let name = bench.name("x");
    let (mutex, owner) = (session.mutex(&name)?, Owner::new());
    let lost = mutex.owned_by(&owner).lock().await?;
    ensure!(other.break_hold(&name, lost.tag(), "a test").await?, "the hold was not found");
    bench.soon("the loss of a broken hold", lost.lost()).await?;
    let guard = other.mutex(&name)?.lock().await?;
    ensure!(mutex.owned_by(&owner).try_lock().await?.is_none(), "an owner took again what it had lost");
    guard.release().await;
    let anew = got(mutex.owned_by(&owner).try_lock().await)?;
    ensure!(anew.is_held() && !lost.is_held(), "the lost guard came back with the new one");
    Ok(())
}
