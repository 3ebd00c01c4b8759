//! A lock that is left passes from its keeper to nobody: one actor renews it at a time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah_core::{Claim, Detached, Engine, Error, ErrorKind, Guard, Keep, Name, Reply, Session, Standing};

use crate::{
    bench::{Bench, LONG, SOON, got, poll_times},
    case::{Outcome, cases, ensure, ensure_eq, wait_until},
    twist::{Flow, Twist, Valve},
};

cases! { "leaving":
    a_renewal_in_flight_does_not_shorten_a_lock_that_is_left [Leaving],
    a_question_in_flight_does_not_shorten_a_lock_that_is_left [Leaving],
    a_lock_is_not_left_while_a_renewal_was_not_answered [Leaving],
    a_lock_that_is_left_briefly_does_not_shorten_the_others [Leaving],
    releasing_one_of_several_that_were_left_leaves_the_others_alone [Leaving],
    a_session_that_is_opened_again_does_not_shorten_what_it_left [Leaving],
}

/// A lock held in a session that nobody keeps, behind a valve.
async fn valved(bench: &Bench, name: &Name, ttl: Duration) -> Outcome<(Arc<Valve>, Session, Guard)> {
    let valve = Valve::new();
    let engine = bench.twisted(&valve).await?;
    let session = Session::builder(engine).ttl(ttl).keep(Keep::Nobody).open().await?;
    let guard = session.mutex(name)?.lock().await?;
    Ok((valve, session, guard))
}

/// Leaves the lock for long while `valve` holds back a call that has the session's short ttl, then lets that call through.
async fn left_for_long(bench: &Bench, name: &Name, ttl: Duration, valve: &Valve, guard: Guard) -> Outcome {
    // What is sent from here on gets through, ahead of what is held back.
    valve.claims.send_replace(Flow::Passing);
    valve.renewals.send_replace(Flow::Passing);
    let leaving = tokio::spawn(guard.leave_for(LONG));
    // Time enough to be wrong in. Being right takes until the valve opens.
    let until = bench.clock().now() + ttl / 8;
    while !leaving.is_finished() && bench.clock().now() < until {
        bench.pass(Duration::from_millis(2)).await;
    }
    valve.set_all(Flow::Open);
    let left = bench.soon("the end of leaving", leaving).await???;
    // Also after the time that the short ttl would have given it.
    bench.pass(ttl + ttl / 4).await;
    let line = bench.line(name).await?;
    let place = line.as_ref().and_then(|line| line.holders().find(|place| place.claim.id == left.id()));
    ensure!(place.is_some(), "it was left for {LONG:?} and is gone after a ttl of {ttl:?}: {line:?}");
    ensure!(bench.session().await?.mutex(name)?.try_lock().await?.is_none(), "two hold it");
    ensure!(left.renew().await? > ttl, "its ttl is the short one again");
    ensure!(left.release().await?, "it was left, and could not be released");
    Ok(())
}

async fn a_renewal_in_flight_does_not_shorten_a_lock_that_is_left(bench: Bench) -> Outcome {
    let (name, ttl) = (bench.name("x"), bench.short() * 4);
    let (valve, _session, guard) = valved(&bench, &name, ttl).await?;
    valve.renewals.send_replace(Flow::Held);
    let seen = valve.renewals_seen();
    wait_until!(bench, SOON, valve.renewals_seen() > seen, "a renewal by the keeper");
    left_for_long(&bench, &name, ttl, &valve, guard).await
}

async fn a_question_in_flight_does_not_shorten_a_lock_that_is_left(bench: Bench) -> Outcome {
    let (name, ttl) = (bench.name("x"), bench.short() * 4);
    let (valve, _session, guard) = valved(&bench, &name, ttl).await?;
    valve.claims.send_replace(Flow::Held);
    // Its caller goes away; what was sent is on its way all the same.
    ensure!(poll_times(guard.confirm(), 3).await.is_none(), "answered before it was sent");
    left_for_long(&bench, &name, ttl, &valve, guard).await
}

async fn a_lock_is_not_left_while_a_renewal_was_not_answered(bench: Bench) -> Outcome {
    let (name, ttl) = (bench.name("x"), bench.short() * 4);
    let (valve, session, guard) = valved(&bench, &name, ttl).await?;
    valve.renewals.send_replace(Flow::Refused);
    let seen = valve.renewals_seen();
    wait_until!(bench, SOON, valve.renewals_seen() > seen, "a renewal by the keeper");
    valve.renewals.send_replace(Flow::Open);
    let answer = guard.leave_for(LONG).await;
    let kind = answer.err().map(|error| error.kind());
    ensure_eq!(kind, Some(ErrorKind::Unavailable), "leaving while a renewal may still arrive");
    bench.emptied(&name).await?;
    wait_until!(bench, SOON, session.claims() == 0, "no claim left in the session");
    Ok(())
}

async fn a_lock_that_is_left_briefly_does_not_shorten_the_others(bench: Bench) -> Outcome {
    let ttl = bench.short() * 4;
    let (kept, long, brief) = (bench.name("kept"), bench.name("long"), bench.name("brief"));
    let session = Session::builder(bench.client().await?).ttl(ttl).keep(Keep::Nobody).open().await?;
    let guard = session.mutex(&kept)?.lock().await?;
    let left = session.mutex(&long)?.lock().await?.leave_for(LONG).await?;
    let short = session.mutex(&brief)?.lock().await?.leave_for(bench.short()).await?;
    let other = bench.session().await?;
    let until = bench.clock().now() + ttl;
    while bench.clock().now() < until {
        ensure!(other.mutex(&kept)?.try_lock().await?.is_none() || !guard.is_held(), "two hold it");
        ensure!(other.mutex(&long)?.try_lock().await?.is_none(), "it was left for {LONG:?}, and is free");
        bench.pass(ttl / 20).await;
    }
    ensure!(guard.is_held(), "a lock was lost because another one of its session was left briefly");
    ensure!(left.release().await?, "it was left, and could not be released");
    let _ = short.release().await?;
    Ok(())
}

async fn releasing_one_of_several_that_were_left_leaves_the_others_alone(bench: Bench) -> Outcome {
    let (one, two, kept) = (bench.name("one"), bench.name("two"), bench.name("kept"));
    let session = Session::builder(bench.client().await?).ttl(LONG).keep(Keep::Nobody).open().await?;
    let first = session.mutex(&one)?.lock().await?.leave().await?;
    let second = session.mutex(&two)?.lock().await?.leave().await?;
    let guard = session.mutex(&kept)?.lock().await?;
    // From another process, so to speak.
    let first = Detached::new(bench.client().await?, one.clone(), first.id());
    ensure!(first.release().await?, "it was left, and could not be released");
    let other = bench.session().await?;
    drop(got(other.mutex(&one)?.try_lock().await)?);
    ensure!(other.mutex(&two)?.try_lock().await?.is_none(), "another one that was left is free");
    ensure!(other.mutex(&kept)?.try_lock().await?.is_none() && guard.is_held(), "two hold it");
    let second = Detached::new(bench.client().await?, two.clone(), second.id());
    ensure!(second.release().await?, "it was left, and could not be released");
    guard.release().await;
    bench.emptied(&two).await
}

/// Says once that the session is gone, as somebody finds it whose question was sent before another task has opened it again.
#[derive(Debug, Default)]
struct Dropped(AtomicBool);

impl Twist for Dropped {
    fn claim(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>) -> Reply<Standing> {
        if self.0.swap(false, Ordering::AcqRel) {
            return Reply::now(Err(Error::new(ErrorKind::Lost, "the session has ended, for a test")));
        }
        inner.claim(claim)
    }
}

async fn a_session_that_is_opened_again_does_not_shorten_what_it_left(bench: Bench) -> Outcome {
    let (ttl, twist) = (bench.short() * 4, Arc::new(Dropped::default()));
    let engine = bench.twisted(&twist).await?;
    let session = Session::builder(engine).ttl(ttl).keep(Keep::Nobody).open().await?;
    let left = session.mutex(bench.name("left"))?.lock().await?.leave_for(LONG).await?;
    twist.0.store(true, Ordering::Release);
    session.mutex(bench.name("next"))?.lock().await?.release().await;
    ensure!(!twist.0.load(Ordering::Acquire), "the session was not opened again");
    // From another process, so to speak.
    let left = Detached::new(bench.client().await?, left.name().clone(), left.id());
    ensure!(left.renew().await? > ttl, "its ttl is the short one again");
    ensure!(left.release().await?, "it was left, and could not be released");
    Ok(())
}
