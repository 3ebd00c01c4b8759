//! A guard that was lost and is kept keeps nobody from the lock: not its own session either.

use bramah_core::{ErrorKind, Guard, Mutex, Name, Release};

use crate::{
    bench::{Bench, LONG, SOON},
    case::{Outcome, cases, ensure, ensure_eq},
    twist::{Flow, Valve},
};

cases! { "recovery":
    a_session_takes_a_lock_again_that_it_lost_in_an_outage [Expiry],
    a_session_takes_a_lock_again_whose_renewals_were_not_answered [Expiry],
    a_session_takes_a_lock_again_that_was_broken,
    a_session_takes_a_lock_again_after_its_lease,
    a_session_takes_a_lock_again_after_its_max_hold,
    a_session_leads_again_after_a_proclamation_found_out_a_loss,
}

/// Takes the lock again in the session that lost it, while the old guard is there.
async fn again(bench: &Bench, name: &Name, mutex: &Mutex, old: Guard) -> Outcome {
    let new = bench.soon("the lock again", mutex.lock_within(SOON)).await??;
    ensure!(new.is_held() && !old.is_held(), "the new guard is not held, or the old one is again");
    ensure!(old.fence() < new.fence() || new.fence().is_none(), "{:?} after {:?}", new.fence(), old.fence());
    ensure_eq!(old.release().await, Release::AlreadyLost, "the release of what was lost");
    ensure!(new.is_held(), "the old guard took the new one along");
    ensure!(bench.session().await?.mutex(name)?.try_lock().await?.is_none(), "two hold it");
    ensure_eq!(new.release().await, Release::Released, "the release of what was taken again");
    bench.emptied(name).await
}

async fn a_session_takes_a_lock_again_that_it_lost_in_an_outage(bench: Bench) -> Outcome {
    let (name, valve) = (bench.name("x"), Valve::new());
    let session = bench.session_on(bench.twisted(&valve).await?, bench.short()).await?;
    let mutex = session.mutex(&name)?;
    let guard = mutex.lock().await?;
    valve.set_all(Flow::Refused);
    bench.soon("the loss", guard.lost()).await?;
    // The outage lasts until the store has dropped the claim too.
    bench.emptied(&name).await?;
    valve.set_all(Flow::Open);
    again(&bench, &name, &mutex, guard).await
}

async fn a_session_takes_a_lock_again_whose_renewals_were_not_answered(bench: Bench) -> Outcome {
    let (name, valve) = (bench.name("x"), Valve::new());
    let session = bench.session_on(bench.twisted(&valve).await?, bench.short()).await?;
    let mutex = session.mutex(&name)?;
    let guard = mutex.lock().await?;
    // The store renews it, and has it still when it is lost.
    valve.renewals.send_replace(Flow::Unknown);
    bench.soon("the loss", guard.lost()).await?;
    valve.set_all(Flow::Open);
    again(&bench, &name, &mutex, guard).await
}

async fn a_session_takes_a_lock_again_that_was_broken(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let (session, other) = (bench.session_of(bench.short() * 2).await?, bench.session().await?);
    let mutex = session.mutex(&name)?;
    let guard = mutex.lock().await?;
    ensure!(other.break_hold(&name, guard.tag(), "a test").await?, "there was nothing to break");
    bench.soon("the loss", guard.lost()).await?;
    again(&bench, &name, &mutex, guard).await
}

async fn a_session_takes_a_lock_again_after_its_lease(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let session = bench.session().await?;
    let guard = session.mutex(&name)?.lease(bench.short()).lock().await?;
    bench.soon("the end of the lease", guard.lost()).await?;
    again(&bench, &name, &session.mutex(&name)?, guard).await
}

async fn a_session_takes_a_lock_again_after_its_max_hold(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let session = bench.session().await?;
    let guard = session.mutex(&name)?.max_hold(bench.short()).lock().await?;
    bench.soon("the end of the hold", guard.lost()).await?;
    again(&bench, &name, &session.mutex(&name)?, guard).await
}

async fn a_session_leads_again_after_a_proclamation_found_out_a_loss(bench: Bench) -> Outcome {
    let (name, valve) = (bench.name("x"), Valve::new());
    let other = bench.session().await?;
    let session = bench.session_on(bench.twisted(&valve).await?, LONG).await?;
    // It is the proclamation that finds it out, and no renewal.
    valve.renewals.send_replace(Flow::Held);
    let election = session.election(&name)?;
    let old = election.campaign("one").await?;
    ensure!(other.break_hold(&name, old.guard().tag(), "a test").await?, "there was nothing to break");
    let kind = old.proclaim("two").await.err().map(|error| error.kind());
    ensure_eq!(kind, Some(ErrorKind::Lost), "a proclamation of who does not lead");
    let new = bench.soon("the leadership again", election.campaign_within("three", SOON)).await??;
    ensure!(new.guard().is_held() && !old.guard().is_held(), "the old leadership is held");
    ensure_eq!(old.resign().await, Release::AlreadyLost, "the end of what was lost");
    ensure_eq!(election.leader().await?.map(|leader| leader.value), Some("three".into()), "who leads");
    new.resign().await;
    bench.emptied(&name).await
}
