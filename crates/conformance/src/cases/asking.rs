//! Holders that are asked to let go.

use std::{sync::Arc, time::Duration};

use bramah_core::{
    Alarm, Asking, Claim, Detached, Engine, ErrorKind, Guard, Keep, Name, Opening, Release, Reply, Session,
    Tag,
};

use crate::{
    bench::{Bench, LONG},
    case::{Failure, Outcome, cases, ensure, ensure_eq},
    twist::Twist,
};

cases! { "asking":
    a_wish_is_passed_on_or_refused,
    nobody_else_is_asked [Shared, Asking],
    who_does_not_hold_it_is_not_asked,
    a_wish_that_comes_late_reaches_nobody_else [Asking],
    a_wish_may_be_repeated [Asking],
    a_hold_with_a_fixed_lease_is_asked_for_as_well [Asking],
    a_holder_that_hears_nothing_is_told_by_a_renewal [KeptWishes],
    a_wish_for_a_lock_that_was_left_is_told_to_whoever_renews_it [KeptWishes, Leaving],
}

/// A session that renews every second or so: a store that is polled has its holders told by then.
async fn holder(bench: &Bench) -> Outcome<Session> {
    Ok(bench.session_of(bench.short() * 5).await?)
}

/// The claim of a holder, as a survey shows it.
async fn claim_of(bench: &Bench, name: &Name, tag: Tag) -> Outcome<Arc<Claim>> {
    let line = bench.line(name).await?;
    let mut places = line.into_iter().flat_map(|line| line.places);
    let found = places.find(|place| place.claim.id.tag() == tag).map(|place| place.claim);
    found.ok_or_else(|| Failure::new("a hold is not shown"))
}

/// Has `marker`, another lock of the session, asked for: whatever its session was told before has arrived once that has.
async fn settled(bench: &Bench, by: &Session, marker: &Guard) -> Outcome {
    ensure!(by.ask(&marker.name(), marker.tag()).await?, "the holder of the other lock was not found");
    bench.soon("the wish for the other lock", marker.asked()).await
}

/// Hears of nothing that the store pushes about its claims.
#[derive(Debug)]
struct Unalarmed;

impl Twist for Unalarmed {
    fn open(&self, inner: &Arc<dyn Engine>, opening: Arc<Opening>) -> Reply<Duration> {
        inner.open(Arc::new(Opening { alarm: Alarm::none(), ..(*opening).clone() }))
    }
}

async fn a_wish_is_passed_on_or_refused(bench: Bench) -> Outcome {
    let (a, b, c) = (holder(&bench).await?, bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    ensure!(!guard.is_asked(), "asked before anybody did");
    let asked = c.ask(&name, guard.tag()).await;
    match bench.profile().asking {
        Asking::Kept | Asking::Passed => {
            ensure!(asked?, "the holder was not found");
            bench.soon("the wish", guard.asked()).await?;
            ensure!(guard.is_asked(), "told, and not asked");
        }
        Asking::Never => {
            let kind = asked.err().map(|error| error.kind());
            ensure_eq!(kind, Some(ErrorKind::Unsupported), "a wish that nobody passes on");
        }
    }
    // A wish and no more.
    ensure!(guard.confirm().await?, "what was asked for is not held");
    ensure!(b.mutex(&name)?.try_lock().await?.is_none(), "somebody was let in by a wish");
    ensure_eq!(guard.release().await, Release::Released, "the release");
    let guard = b.mutex(&name)?.lock().await?;
    ensure!(!guard.is_asked(), "the wish was meant for the one before");
    Ok(())
}

async fn nobody_else_is_asked(bench: Bench) -> Outcome {
    let (a, b, c) = (holder(&bench).await?, holder(&bench).await?, bench.session().await?);
    let name = bench.name("x");
    let (one, two) = (a.rwlock(&name)?.read().lock().await?, b.rwlock(&name)?.read().lock().await?);
    let marker = b.mutex(bench.name("y"))?.lock().await?;
    ensure!(c.ask(&name, one.tag()).await?, "the holder was not found");
    bench.soon("the wish", one.asked()).await?;
    settled(&bench, &c, &marker).await?;
    ensure!(!two.is_asked(), "asked in the place of another");
    ensure!(c.ask(&name, two.tag()).await?, "the other holder was not found");
    bench.soon("the other's wish", two.asked()).await
}

async fn who_does_not_hold_it_is_not_asked(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    let tag = guard.tag();
    let other: Tag = bench.session().await?.mutex(bench.name("y"))?.lock().await?.tag();
    ensure!(!b.ask(&name, other).await?, "a hold of another lock was found");
    ensure_eq!(guard.release().await, Release::Released, "the release");
    bench.emptied(&name).await?;
    ensure!(!b.ask(&name, tag).await?, "a hold was found that was released");
    Ok(())
}

async fn a_wish_that_comes_late_reaches_nobody_else(bench: Bench) -> Outcome {
    let (a, b) = (holder(&bench).await?, holder(&bench).await?);
    let by = bench.session().await?;
    let name = bench.name("x");
    let marker = a.mutex(bench.name("y"))?.lock().await?;
    let guard = a.mutex(&name)?.lock().await?;
    let claim = claim_of(&bench, &name, guard.tag()).await?;
    ensure_eq!(guard.release().await, Release::Released, "the release");
    bench.emptied(&name).await?;
    // Its own session again, then another.
    let again = a.mutex(&name)?.lock().await?;
    bench.client().await?.ask(claim.clone()).await?;
    settled(&bench, &by, &marker).await?;
    ensure!(!again.is_asked(), "the next hold of the same session was asked for");
    ensure_eq!(again.release().await, Release::Released, "the second release");
    let other = b.mutex(&name)?.lock().await?;
    let marker = b.mutex(bench.name("z"))?.lock().await?;
    bench.client().await?.ask(claim).await?;
    settled(&bench, &by, &marker).await?;
    ensure!(!other.is_asked(), "the next holder was asked");
    ensure!(other.confirm().await?, "the next holder does not hold it any more");
    Ok(())
}

async fn a_wish_may_be_repeated(bench: Bench) -> Outcome {
    let (a, b) = (holder(&bench).await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    for _ in 0..3 {
        ensure!(b.ask(&name, guard.tag()).await?, "the holder was not found");
        bench.soon("the wish", guard.asked()).await?;
    }
    ensure!(guard.confirm().await?, "what was asked for is not held");
    ensure_eq!(guard.release().await, Release::Released, "the release");
    bench.emptied(&name).await
}

/// It is never renewed, and its session has nothing else.
async fn a_hold_with_a_fixed_lease_is_asked_for_as_well(bench: Bench) -> Outcome {
    let (a, b) = (holder(&bench).await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lease(LONG).lock().await?;
    ensure!(b.ask(&name, guard.tag()).await?, "the holder was not found");
    bench.soon("the wish", guard.asked()).await?;
    ensure!(guard.is_held(), "what was asked for is not held");
    Ok(())
}

async fn a_holder_that_hears_nothing_is_told_by_a_renewal(bench: Bench) -> Outcome {
    let engine = bench.twisted(&Arc::new(Unalarmed)).await?;
    let (a, b) = (bench.session_on(engine, bench.short() * 5).await?, bench.session().await?);
    let (name, other) = (bench.name("x"), bench.name("y"));
    let (guard, unasked) = (a.mutex(&name)?.lock().await?, a.mutex(&other)?.lock().await?);
    ensure!(b.ask(&name, guard.tag()).await?, "the holder was not found");
    bench.soon("a renewal that tells of the wish", guard.asked()).await?;
    ensure!(!unasked.is_asked(), "another hold of the session was asked for");
    ensure!(guard.confirm().await?, "what was asked for is not held");
    Ok(())
}

async fn a_wish_for_a_lock_that_was_left_is_told_to_whoever_renews_it(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let engine = bench.client().await?;
    let session = Session::builder(engine.clone()).ttl(LONG).keep(Keep::Nobody).open().await?;
    let left = session.mutex(&name)?.lock().await?.leave().await?;
    let elsewhere = Detached::new(bench.client().await?, name.clone(), left.id());
    for handle in [&left, &elsewhere] {
        handle.renew().await?;
        ensure!(!handle.is_asked(), "asked before anybody did");
    }
    ensure!(bench.session().await?.ask(&name, left.id().tag()).await?, "the lock was not found");
    for handle in [&left, &elsewhere] {
        handle.renew().await?;
        ensure!(handle.is_asked(), "whoever renews it is not told");
    }
    ensure!(left.release().await?, "what was asked for is not held");
    Ok(())
}
