//! Seeded worlds: many clients on paused time over one store and bad weather, with everything checked.
//!
//! A world is a function of its seed: who locks what and for how long, which calls are lost, which process freezes.
//! It runs in milliseconds what would take minutes, and a seed that fails fails again.

mod ice;
mod leaving;
mod town;
mod work;

use std::{sync::Arc, time::Duration};

use bramah_core::{Clock, Engine, Keep, Keeper, Look, Memory, Scope, Session, SessionId};

use crate::faulty::{Faulty, Weather};
pub use ice::{Frozen, Ice};
pub use town::{Tale, Town};
pub use work::work;

/// Runs the world of `seed` over a store that `wrap` may spoil.
pub fn run(seed: u64, wrap: impl FnOnce(Arc<dyn Engine>) -> Arc<dyn Engine>) -> Tale {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let Ok(runtime) = runtime else {
        return Tale { violation: Some("no runtime".into()), ..Tale::default() };
    };
    fastrand::seed(seed);
    runtime.block_on(live(seed, wrap))
}

async fn live(seed: u64, wrap: impl FnOnce(Arc<dyn Engine>) -> Arc<dyn Engine>) -> Tale {
    let mut rng = fastrand::Rng::with_seed(seed);
    let clock = Clock::runtime();
    let store: Arc<dyn Engine> = Arc::new(Memory::with_clock(clock.clone()));
    let spoilt = wrap(store.clone());
    // In some of them places in line are kept for less long than holds.
    let long = rng.u8(..) < 80;
    let ttl = Duration::from_millis(if long { rng.u64(5_000..30_000) } else { rng.u64(200..2_000) });
    let town = Town::new(clock.clone());
    let per_mille = *rng.choice(&[0, 50, 200, 400]).unwrap_or(&0);
    let mut clients = Vec::new();
    for number in 0..rng.usize(2..6) {
        let weather = Weather::new(rng.u64(..), clock.clone(), ttl, per_mille);
        let engine = Faulty::new(spoilt.clone(), weather.clone());
        let (keeper, driver) = Keeper::driven(clock.clone());
        let ice = Arc::new(Ice::default());
        tokio::spawn(Frozen::new(ice.clone(), driver));
        let id = SessionId::from_bits(u128::from(seed) << 64 | number as u128);
        let arc: Arc<dyn Engine> = Arc::new(engine);
        match Session::builder(arc)
            .ttl(ttl)
            .id(id)
            .keeper(keeper)
            .owner(format!("client {number}"))
            .open()
            .await
        {
            Ok(session) => clients.push((session, weather, ice)),
            Err(error) => town.accuse(format!("a session did not open: {error}")),
        }
    }
    let mut tasks = Vec::new();
    for (number, (session, _, ice)) in clients.iter().enumerate() {
        for task in 0..rng.usize(1..4) {
            let work = work(town.clone(), session.clone(), format!("{number}.{task}"), rng.fork(), ttl);
            tasks.push(tokio::spawn(Frozen::new(ice.clone(), work)));
        }
    }
    // With a generator of its own: the rest of a seed is as it was without it.
    let mut other = fastrand::Rng::with_seed(seed ^ 0x1eaf);
    if other.bool() {
        let weather = Weather::new(other.u64(..), clock.clone(), ttl, per_mille);
        weather.never_repeat();
        let (keeper, driver) = Keeper::driven(clock.clone());
        let ice = Arc::new(Ice::default());
        tokio::spawn(Frozen::new(ice.clone(), driver));
        let engine: Arc<dyn Engine> = Arc::new(Faulty::new(spoilt.clone(), weather.clone()));
        let id = SessionId::from_bits(u128::from(seed) << 64 | 0x1eaf);
        let builder = Session::builder(engine).ttl(ttl).id(id).keeper(keeper).owner("who leaves");
        match builder.keep(Keep::Nobody).open().await {
            Ok(session) => {
                let task = leaving::leaving(town.clone(), session.clone(), clock.clone(), other.fork(), ttl);
                tasks.push(tokio::spawn(Frozen::new(ice.clone(), task)));
                clients.push((session, weather, ice));
            }
            Err(error) => town.accuse(format!("a session did not open: {error}")),
        }
    }
    let nemesis = tokio::spawn(nemesis(town.clone(), clients.clone(), rng.fork(), ttl));
    // Generous: every wait in a world is bounded by a few ttls.
    let patience = ttl * 400;
    for task in tasks {
        if tokio::time::timeout(patience, task).await.is_err() {
            town.accuse("somebody waits for ever".into());
        }
    }
    nemesis.abort();
    for (_, weather, ice) in &clients {
        weather.clear_up();
        ice.thaw();
    }
    drop(clients);
    aftermath(&town, &*store, ttl).await;
    town.tale()
}

/// When everybody is gone, nothing is left: ghosts end with their ttl at the latest.
async fn aftermath(town: &Town, store: &dyn Engine, ttl: Duration) {
    // What was left may live for four of them, from a renewal on that came a ttl late.
    tokio::time::sleep(ttl * 6).await;
    match store.survey(&Scope::All, Look::Once).await {
        Ok(survey) if survey.lines.iter().all(|line| line.places.is_empty()) => {}
        Ok(survey) => town.accuse(format!("left behind: {:?}", survey.lines)),
        Err(error) => town.accuse(format!("the store did not answer: {error}")),
    }
}

/// Cuts clients off and freezes them, now and then for longer than the ttl.
async fn nemesis(
    town: Arc<Town>,
    clients: Vec<(Session, Arc<Weather>, Arc<Ice>)>,
    mut rng: fastrand::Rng,
    ttl: Duration,
) {
    if rng.u32(0..3) == 0 {
        return;
    }
    loop {
        tokio::time::sleep(ttl.mul_f64(0.5 + rng.f64() * 3.0)).await;
        let span = ttl.mul_f64(rng.f64() * 2.0);
        let Some((session, weather, ice)) = clients.get(rng.usize(0..clients.len())) else { return };
        let who = &session.about().owner;
        if rng.bool() {
            town.say(format!("{who} is cut off for {span:?}"));
            weather.cut(span);
        } else {
            town.say(format!("{who} is frozen for {span:?}"));
            ice.freeze();
            tokio::time::sleep(span).await;
            ice.thaw();
        }
    }
}
