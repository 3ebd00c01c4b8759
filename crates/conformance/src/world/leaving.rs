//! A client that leaves its locks to nobody.

use std::{sync::Arc, time::Duration};

use bramah_core::{Clock, Detached, ErrorKind, Guard, Session};

use super::Town;

/// Takes the mutex that everybody wants, leaves it for longer than its session's ttl, and renews or releases it later. While it is
/// left nobody else may be granted it, whatever the session still has in flight.
pub(super) async fn leaving(
    town: Arc<Town>,
    session: Session,
    clock: Clock,
    mut rng: fastrand::Rng,
    ttl: Duration,
) {
    let who = "who leaves".to_owned();
    for _ in 0..rng.usize(1..5) {
        let Ok(mutex) = session.mutex("mutex") else { return town.accuse("a face was refused".into()) };
        let guard = match mutex.lock_within(ttl.mul_f64(rng.f64() * 6.0)).await {
            Ok(guard) => Arc::new(guard),
            Err(error) if matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable) => continue,
            Err(error) => return town.accuse(format!("{who}: {error}")),
        };
        town.granted(&who, "mutex", 1, 1, &guard);
        // Its keeper has renewals in flight by then.
        tokio::time::sleep(ttl.mul_f64(rng.f64() * 0.8)).await;
        let Some(guard) = Arc::into_inner(guard) else { return town.accuse("a guard has two users".into()) };
        leave(&town, &who, &clock, guard, &mut rng, ttl).await;
    }
}

async fn leave(
    town: &Arc<Town>,
    who: &str,
    clock: &Clock,
    guard: Guard,
    rng: &mut fastrand::Rng,
    ttl: Duration,
) {
    let (asked, span) = (clock.now(), ttl.mul_f64(1.0 + rng.f64() * 3.0));
    let left = match guard.leave_for(span).await {
        Ok(left) => left,
        Err(error) if matches!(error.kind(), ErrorKind::Lost | ErrorKind::Unavailable) => return,
        Err(error) => return town.accuse(format!("{who}: {error}")),
    };
    let mut until = asked + span;
    town.left(who, "mutex", until);
    tokio::time::sleep(span.mul_f64(rng.f64() * 0.9)).await;
    if rng.bool() {
        let asked = clock.now();
        match left.renew().await {
            Ok(_) => {
                until = asked + span;
                town.left(who, "mutex", until);
                tokio::time::sleep(span.mul_f64(rng.f64() * 0.9)).await;
            }
            Err(error) if error.kind() == ErrorKind::Lost && clock.now() < until => {
                town.accuse(format!("{who}: it was left for {span:?}, and is gone: {error}"));
            }
            Err(_) => {}
        }
    }
    if rng.bool() {
        release(town, who, left).await;
    }
}

async fn release(town: &Town, who: &str, left: Detached) {
    town.let_go(who, "mutex");
    match left.release().await {
        Ok(released) => town.say(format!("{who} released what it left: {released}")),
        Err(error) => town.say(format!("{who} could not release what it left: {error}")),
    }
}
