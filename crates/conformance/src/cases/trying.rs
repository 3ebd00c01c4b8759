//! A try, and a wait of no length: neither mistakes a claim of its own session on its way out for somebody else's hold.

use std::{sync::Arc, time::Duration};

use bramah_core::{ErrorKind, Session, all};

use crate::{
    bench::{Bench, LONG, SOON, got},
    case::{Outcome, cases, ensure, ensure_eq, wait_until},
    twist::{Flow, Halfway, Stepped, Valve},
};

cases! { "trying":
    a_try_after_a_drop_succeeds,
    a_try_after_a_release_and_a_wait_that_timed_out_succeeds,
    a_try_waits_for_a_claim_of_its_own_session_to_leave,
    a_try_does_not_wait_for_ever_for_a_claim_to_leave,
    a_wait_of_zero_takes_a_free_lock,
    a_wait_of_zero_for_a_held_lock_is_a_timeout,
    a_claim_that_is_refused_half_way_leaves_nothing,
}

/// Sessions on the engine as it is, and on one whose answers take several polls.
async fn sessions(bench: &Bench) -> Outcome<[Session; 2]> {
    let stepped = bench.twisted(&Arc::new(Stepped(3))).await?;
    Ok([bench.session().await?, bench.session_on(stepped, LONG).await?])
}

async fn a_try_after_a_drop_succeeds(bench: Bench) -> Outcome {
    for session in sessions(&bench).await? {
        let mutex = session.mutex(bench.name("x"))?;
        bench.emptied(mutex.name()).await?;
        for round in 0..50 {
            let guard = mutex.try_lock().await?;
            ensure!(guard.is_some(), "busy in round {round}, and nobody else wants it");
            drop(guard);
        }
    }
    Ok(())
}

async fn a_try_after_a_release_and_a_wait_that_timed_out_succeeds(bench: Bench) -> Outcome {
    let mutex = bench.session().await?.mutex(bench.name("x"))?;
    for round in 0..50 {
        let guard = got(mutex.try_lock().await)?;
        let waited = mutex.lock_within(Duration::from_millis(1)).await;
        ensure_eq!(
            waited.err().map(|error| error.kind()),
            Some(ErrorKind::Timeout),
            "a wait for a held lock"
        );
        guard.release().await;
        let guard = mutex.try_lock().await?;
        ensure!(guard.is_some(), "busy in round {round}, and nobody else wants it");
    }
    Ok(())
}

async fn a_try_waits_for_a_claim_of_its_own_session_to_leave(bench: Bench) -> Outcome {
    let valve = Valve::new();
    let session = bench.session_on(bench.twisted(&valve).await?, LONG).await?;
    let mutex = session.mutex(bench.name("x"))?;
    let guard = mutex.lock().await?;
    valve.withdrawals.send_replace(Flow::Held);
    drop(guard);
    let trying = tokio::spawn(async move { mutex.try_lock().await });
    // Time enough to be refused in.
    bench.pass(Duration::from_millis(50)).await;
    valve.withdrawals.send_replace(Flow::Open);
    got(bench.soon("the try", trying).await??)?.release().await;
    Ok(())
}

async fn a_try_does_not_wait_for_ever_for_a_claim_to_leave(bench: Bench) -> Outcome {
    let valve = Valve::new();
    let session = bench.session_on(bench.twisted(&valve).await?, bench.short() * 3).await?;
    let mutex = session.mutex(bench.name("x"))?;
    let guard = mutex.lock().await?;
    valve.withdrawals.send_replace(Flow::Held);
    drop(guard);
    // Whether it is busy then depends on when the store drops the claim by itself.
    let _ = bench.soon("the try", mutex.try_lock()).await??;
    valve.withdrawals.send_replace(Flow::Open);
    Ok(())
}

async fn a_wait_of_zero_takes_a_free_lock(bench: Bench) -> Outcome {
    for session in sessions(&bench).await? {
        let (mutex, other) = (session.mutex(bench.name("x"))?, session.mutex(bench.name("y"))?);
        for _ in 0..20 {
            mutex.lock_within(Duration::ZERO).await?.release().await;
            drop(mutex.lock_within(Duration::ZERO).await?);
        }
        let both = all([mutex, other]).lock_within(Duration::ZERO).await?;
        ensure!(both.is_held(), "what was granted is not held");
        both.release().await;
    }
    Ok(())
}

async fn a_wait_of_zero_for_a_held_lock_is_a_timeout(bench: Bench) -> Outcome {
    let (holder, session) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let guard = holder.mutex(&name)?.lock().await?;
    let waited = session.mutex(&name)?.lock_within(Duration::ZERO).await;
    ensure_eq!(waited.err().map(|error| error.kind()), Some(ErrorKind::Timeout), "a wait of zero");
    let waited = all([session.mutex(&name)?]).lock_within(Duration::ZERO).await;
    ensure_eq!(
        waited.err().map(|error| error.kind()),
        Some(ErrorKind::Timeout),
        "a wait of zero for several"
    );
    ensure_eq!(bench.standing(&name).await?, (1, 0), "holders and waiters");
    ensure!(guard.is_held(), "the holder lost it");
    Ok(())
}

async fn a_claim_that_is_refused_half_way_leaves_nothing(bench: Bench) -> Outcome {
    for kind in [ErrorKind::Denied, ErrorKind::Corrupt] {
        let twist = Halfway::new(kind);
        let session = bench.session_on(bench.twisted(&twist).await?, LONG).await?;
        let name = bench.name(&format!("{kind:?}"));
        let mutex = session.mutex(&name)?;
        let answer = mutex.try_lock().await;
        ensure_eq!(answer.err().map(|error| error.kind()), Some(kind), "a try that is refused half-way");
        let answer = mutex.lock().await;
        ensure_eq!(answer.err().map(|error| error.kind()), Some(kind), "a wait that is refused half-way");
        // Before a renewal could find it as a stray, and long before its ttl.
        let soon = LONG / 6;
        wait_until!(
            bench,
            soon,
            bench.standing(&name).await? == (0, 0),
            "the withdrawal of what was refused"
        );
        wait_until!(bench, SOON, session.claims() == 0, "no claim left in the session");
        twist.mend();
        got(mutex.try_lock().await)?.release().await;
    }
    Ok(())
}
