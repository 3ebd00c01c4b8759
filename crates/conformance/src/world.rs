//! Seeded worlds: many clients on paused time over one store and bad weather, with everything checked.
//!
//! A world is a function of its seed: who locks what and for how long, which calls are lost, which process freezes.
//! It runs in milliseconds what would take minutes, and a seed that fails fails again.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bramah_core::{Clock, Engine, ErrorKind, Guard, Keeper, Lock, Look, Memory, Scope, Session, SessionId};
use tokio::sync::Notify;

use crate::faulty::{Faulty, Weather};

/// What a world did, for comparing runs and for the failure's story.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tale {
    /// What happened, in order.
    pub events: Vec<String>,
    /// How often a lock was held.
    pub holds: usize,
    /// How many of those were lost.
    pub losses: usize,
    /// What should not have happened.
    pub violation: Option<String>,
}

/// Runs the world of `seed` over a store that `wrap` may spoil.
pub fn run(seed: u64, wrap: impl FnOnce(Arc<dyn Engine>) -> Arc<dyn Engine>) -> Tale {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let Ok(runtime) = runtime else {
        return Tale { violation: Some("no runtime".into()), ..Tale::default() };
    };
    fastrand::seed(seed);
    runtime.block_on(live(seed, wrap))
}

/// What is being locked in a world, and by whom.
struct Town {
    clock: Clock,
    tale: Mutex<Tale>,
    /// Who believes to hold what: name, weight, capacity.
    held: Mutex<BTreeMap<String, Vec<Believer>>>,
    fences: Mutex<BTreeMap<String, u64>>,
}

struct Believer {
    who: String,
    weight: u64,
    guard: std::sync::Weak<Guard>,
}

impl Town {
    fn say(&self, what: String) {
        let now = self.clock.now();
        lock(&self.tale).events.push(format!("{now:?} {what}"));
    }

    fn accuse(&self, what: String) {
        self.say(format!("VIOLATION {what}"));
        lock(&self.tale).violation.get_or_insert(what);
    }

    /// Someone was granted a lock: nobody else may believe to hold what does not fit beside it, at this very moment.
    fn granted(&self, who: &str, name: &str, capacity: u32, weight: u32, guard: &Arc<Guard>) {
        self.say(format!("{who} holds {name} ({weight} of {capacity}) fence {:?}", guard.fence()));
        lock(&self.tale).holds += 1;
        let mut held = lock(&self.held);
        let believers = held.entry(name.to_owned()).or_default();
        believers.push(Believer {
            who: who.to_owned(),
            weight: u64::from(weight),
            guard: Arc::downgrade(guard),
        });
        let sure: Vec<&Believer> =
            believers.iter().filter(|b| b.guard.upgrade().is_some_and(|guard| guard.is_held())).collect();
        let used: u64 = sure.iter().map(|b| b.weight).sum();
        if used > u64::from(capacity) {
            let names: Vec<&str> = sure.iter().map(|b| b.who.as_str()).collect();
            self.accuse(format!("{name} (capacity {capacity}) is held by {} at once", names.join(" and ")));
        }
        believers.retain(|b| b.guard.strong_count() > 0);
        if let Some(fence) = guard.fence().filter(|_| guard.is_held()) {
            let last = lock(&self.fences).insert(name.to_owned(), fence.get());
            if last.is_some_and(|last| last >= fence.get()) {
                self.accuse(format!("{name}: fence {fence} after {last:?}"));
            }
        }
    }
}

async fn live(seed: u64, wrap: impl FnOnce(Arc<dyn Engine>) -> Arc<dyn Engine>) -> Tale {
    let mut rng = fastrand::Rng::with_seed(seed);
    let clock = Clock::runtime();
    let store: Arc<dyn Engine> = Arc::new(Memory::with_clock(clock.clone()));
    let spoilt = wrap(store.clone());
    // In some of them places in line are kept for less long than holds.
    let long = rng.u8(..) < 80;
    let ttl = Duration::from_millis(if long { rng.u64(5_000..30_000) } else { rng.u64(200..2_000) });
    let town = Arc::new(Town {
        clock: clock.clone(),
        tale: Mutex::default(),
        held: Mutex::default(),
        fences: Mutex::default(),
    });
    let per_mille = *rng.choice(&[0, 50, 200, 400]).unwrap_or(&0);
    let mut clients = Vec::new();
    for number in 0..rng.usize(2..6) {
        let weather = Weather::new(rng.u64(..), clock.clone(), ttl, per_mille);
        let engine = Faulty::new(spoilt.clone(), weather.clone());
        let (keeper, driver) = Keeper::driven(clock.clone());
        let ice = Arc::new(Ice::default());
        tokio::spawn(Frozen { ice: ice.clone(), future: Box::pin(driver) });
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
            tasks.push(tokio::spawn(Frozen { ice: ice.clone(), future: Box::pin(work) }));
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
    lock(&town.tale).clone()
}

/// When everybody is gone, nothing is left: ghosts end with their ttl at the latest.
async fn aftermath(town: &Town, store: &dyn Engine, ttl: Duration) {
    tokio::time::sleep(ttl * 4).await;
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

/// One task of one client.
async fn work(town: Arc<Town>, session: Session, who: String, mut rng: fastrand::Rng, ttl: Duration) {
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
        0 | 1 => (session.mutex("mutex").ok()?.clone().into(), 1, 1),
        2 => {
            let weight = rng.u32(1..4);
            (session.semaphore("semaphore", 3).ok()?.permits(weight), 3, weight)
        }
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
        lock(&town.tale).losses += 1;
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

/// Whether a process runs.
#[derive(Default)]
struct Ice {
    frozen: Mutex<bool>,
    thawed: Notify,
}

impl Ice {
    fn freeze(&self) {
        *lock(&self.frozen) = true;
    }

    fn thaw(&self) {
        *lock(&self.frozen) = false;
        self.thawed.notify_waiters();
    }
}

/// A task of a process that can be frozen: SIGSTOP for futures. Time goes on, and nothing of it runs.
struct Frozen<F> {
    ice: Arc<Ice>,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Frozen<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if *lock(&self.ice.frozen) {
            let (ice, waker) = (self.ice.clone(), cx.waker().clone());
            tokio::spawn(async move {
                let thawed = ice.thawed.notified();
                tokio::pin!(thawed);
                thawed.as_mut().enable();
                if *lock(&ice.frozen) {
                    thawed.await;
                }
                waker.wake();
            });
            return Poll::Pending;
        }
        self.future.as_mut().poll(cx)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
