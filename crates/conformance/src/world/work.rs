//! What the clients of a world do.

use std::{sync::Arc, time::Duration};

use bramah_core::{ErrorKind, Guard, Lock, Modes, Session};

use super::Town;

/// One task of one client.
pub async fn work(town: Arc<Town>, session: Session, who: String, mut rng: fastrand::Rng, ttl: Duration) {
    for _ in 0..rng.usize(2..8) {
        let Some((lock, capacity, weight)) = pick(&session, &mut rng, ttl) else {
            return town.accuse("a face was refused".into());
        };
        let name = lock.name().to_string();
        let wait = ttl.mul_f64(rng.f64() * 6.0);
        let got = match rng.u32(0..8) {
            0 | 1 => lock.try_lock().await,
            // Given up in the middle, at whatever it is doing then.
            2 | 3 => tokio::time::timeout(wait / 4, lock.lock()).await.map_or(Ok(None), |got| got.map(Some)),
            4 => lock.lock().await.map(Some),
            _ => lock.lock_within(wait).await.map(Some),
        };
        match got {
            Ok(Some(guard)) => {
                let guard = Arc::new(guard);
                town.granted(&who, &name, capacity, weight, &guard);
                hold(&town, &who, guard, &mut rng, ttl).await;
            }
            Ok(None) => {}
            Err(error) if matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable) => {}
            Err(error) => return town.accuse(format!("{who}: {error}")),
        }
        tokio::time::sleep(ttl.mul_f64(rng.f64() / 4.0)).await;
    }
}

/// One way of locking one of three names.
fn pick(session: &Session, rng: &mut fastrand::Rng, ttl: Duration) -> Option<(Lock, u32, u32)> {
    let (lock, capacity, weight) = match rng.u32(0..4) {
        2 if session.profile().modes == Modes::Permits => {
            let weight = rng.u32(1..4);
            (session.semaphore("semaphore", 3).ok()?.permits(weight), 3, weight)
        }
        0..=2 => (session.mutex("mutex").ok()?.clone().into(), 1, 1),
        _ if rng.u32(0..3) == 0 => (session.rwlock("rwlock").ok()?.write(), u32::MAX, u32::MAX),
        _ => (session.rwlock("rwlock").ok()?.read(), u32::MAX, 1),
    };
    let lock: Lock = lock;
    Some(match rng.u32(0..8) {
        0 => (lock.lease(ttl.mul_f64(0.2 + rng.f64())), capacity, weight),
        1 => (lock.max_hold(ttl.mul_f64(0.2 + rng.f64())), capacity, weight),
        _ => (lock, capacity, weight),
    })
}

/// Works under the lock for a while, then lets go in one way or another.
async fn hold(town: &Town, who: &str, guard: Arc<Guard>, rng: &mut fastrand::Rng, ttl: Duration) {
    let span = ttl.mul_f64(rng.f64().powi(3) * 4.0);
    let kept = guard.keep(tokio::time::sleep(span)).await.is_ok();
    town.say(format!("{who} is done: {}", if kept { "kept" } else { "lost" }));
    if !kept {
        town.lost();
        if guard.is_held() {
            town.accuse(format!("{who} was told of a loss and is still held"));
        }
    }
    let Some(guard) = Arc::into_inner(guard) else { return town.accuse("a guard has two users".into()) };
    match rng.u32(0..3) {
        0 => drop(guard),
        1 => drop(tokio::time::timeout(ttl.mul_f64(rng.f64() / 10.0), guard.release()).await),
        _ => {
            let outcome = guard.release().await;
            town.say(format!("{who} released: {outcome:?}"));
        }
    }
}
