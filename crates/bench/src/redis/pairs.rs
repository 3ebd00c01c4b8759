//! G1, G2, G3: locks that nobody else wants, one name for each task.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah::{Clock, Mutex, Session};
use bramah_redis::Redis;
use rslock::LockManager;
use rustix::time::{ClockId, clock_gettime};

use super::{
    Result,
    bare::{self, Ours},
    runtime,
    scores::{Goal, Rounds, Scores},
    server::Server,
    text,
};

const WARM_UP: Duration = Duration::from_millis(150);
const SPAN: Duration = Duration::from_millis(700);

/// One task's way to lock and release its own name.
pub(super) trait Pairs: Send + 'static {
    fn pair(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// What came of it.
pub(super) struct Driven<P> {
    pub(super) workers: Vec<P>,
    pub(super) pairs: u64,
    pub(super) seconds: f64,
    /// Seconds of this process's CPU, in the kernel and outside, all threads.
    pub(super) cpu: f64,
}

impl<P> Driven<P> {
    pub(super) fn rate(&self) -> f64 {
        self.pairs as f64 / self.seconds
    }

    pub(super) fn cpu_us(&self) -> f64 {
        self.cpu * 1e6 / self.pairs as f64
    }
}

/// Has all workers lock and release at once, for `span` after a warm-up.
pub(super) async fn drive<P: Pairs>(workers: Vec<P>, span: Duration) -> Result<Driven<P>> {
    let warm = burst(workers, WARM_UP.min(span)).await?;
    burst(warm.workers, span).await
}

pub(super) async fn burst<P: Pairs>(workers: Vec<P>, span: Duration) -> Result<Driven<P>> {
    let (clock, over) = (Clock::boot(), Arc::new(AtomicBool::new(false)));
    let (began, cpu) = (clock.now(), cpu());
    let tasks: Vec<_> = workers.into_iter().map(|worker| tokio::spawn(go_on(worker, over.clone()))).collect();
    tokio::time::sleep(span).await;
    over.store(true, Ordering::Relaxed);
    let (mut workers, mut pairs) = (Vec::with_capacity(tasks.len()), 0);
    for task in tasks {
        let (worker, count) = task.await.map_err(text)??;
        workers.push(worker);
        pairs += count;
    }
    let seconds = clock.now().since(began).as_secs_f64();
    Ok(Driven { workers, pairs, seconds, cpu: self::cpu() - cpu })
}

async fn go_on<P: Pairs>(mut worker: P, over: Arc<AtomicBool>) -> Result<(P, u64)> {
    let mut pairs = 0;
    while !over.load(Ordering::Relaxed) {
        worker.pair().await?;
        pairs += 1;
    }
    Ok((worker, pairs))
}

/// Seconds of CPU that this process has used.
fn cpu() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// A lock of ours, and whether its fences grow.
pub(super) struct Locked {
    mutex: Mutex,
    last: u64,
    count: u64,
    regressions: u64,
}

impl Locked {
    pub(super) fn workers(session: &Session, tasks: usize) -> Result<Vec<Self>> {
        let worker = |n| {
            let mutex = session.mutex(format!("pairs/{n}")).map_err(text)?;
            Ok(Self { mutex, last: 0, count: 0, regressions: 0 })
        };
        (0..tasks).map(worker).collect()
    }

    pub(super) fn check(workers: &[Self], scores: &mut Scores) {
        let sum = |field: fn(&Self) -> u64| workers.iter().map(field).sum();
        scores.check(sum(|one| one.count), 0, sum(|one| one.regressions));
    }
}

impl Pairs for Locked {
    async fn pair(&mut self) -> Result<()> {
        let guard = self.mutex.lock().await.map_err(text)?;
        let fence = guard.fence().map_or(0, bramah::Fence::get);
        self.regressions += u64::from(fence <= self.last);
        self.last = fence;
        self.count += 1;
        guard.release().await;
        Ok(())
    }
}

/// The same scripts, bare.
pub(super) struct Called {
    ours: Ours,
    key: String,
    number: u64,
}

impl Called {
    pub(super) fn workers(ours: &Ours, tasks: usize) -> Vec<Self> {
        (0..tasks)
            .map(|n| Self { ours: ours.clone(), key: format!("bramah:{{bare/{n}}}"), number: 0 })
            .collect()
    }
}

impl Pairs for Called {
    async fn pair(&mut self) -> Result<()> {
        self.number += 1;
        self.ours.pair(&self.key, self.number).await
    }
}

/// The peer, as it comes.
pub(super) struct Peer {
    manager: LockManager,
    key: String,
    ttl: Duration,
}

impl Peer {
    pub(super) fn workers(manager: &LockManager, tasks: usize, ttl: Duration) -> Vec<Self> {
        (0..tasks).map(|n| Self { manager: manager.clone(), key: format!("rslock/{n}"), ttl }).collect()
    }
}

impl Pairs for Peer {
    async fn pair(&mut self) -> Result<()> {
        let lock = self.manager.lock(self.key.as_str(), self.ttl).await.map_err(text)?;
        lock.release().await;
        Ok(())
    }
}

/// What one contender reached, over the rounds.
#[derive(Default)]
struct Reached {
    rate: Rounds,
    cpu_us: Rounds,
}

impl Reached {
    fn add<P>(&mut self, driven: &Driven<P>) {
        self.rate.push(driven.rate());
        self.cpu_us.push(driven.cpu_us());
    }

    fn print(&self, scores: &Scores, who: &str) {
        scores.figure(&format!("{who}, pairs a second"), &self.rate, "");
        scores.figure(&format!("{who}, client CPU a pair"), &self.cpu_us, "us");
    }
}

pub(super) fn run(scores: &mut Scores, server: &Server, rounds: usize) -> Result<()> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let session = Session::open(Redis::from_url(&server.url()).map_err(text)?).await.map_err(text)?;
        let bare = Ours::connect(&server.url()).await?;
        let manager = LockManager::new(vec![server.url()]);
        let ttl = Duration::from_millis(bare::TTL_MS);
        for tasks in [64, 1024] {
            scores.heading(&format!(
                "lock + release of names that nobody else wants, {tasks} tasks, {rounds} interleaved rounds"
            ));
            let (mut ours, mut floor, mut peer) =
                (Reached::default(), Reached::default(), Reached::default());
            for _ in 0..rounds {
                floor.add(&drive(Called::workers(&bare, tasks), SPAN).await?);
                let driven = drive(Locked::workers(&session, tasks)?, SPAN).await?;
                Locked::check(&driven.workers, scores);
                ours.add(&driven);
                peer.add(&drive(Peer::workers(&manager, tasks, ttl), SPAN).await?);
            }
            floor.print(scores, "the same scripts, bare client");
            ours.print(scores, "bramah");
            peer.print(scores, "rslock (without a fence)");
            // What is left to win: nobody who calls scripts through this client is cheaper than the bare client.
            scores.figure("bramah's client CPU over the bare client's", &ours.cpu_us.over(&floor.cpu_us), "");
            scores.figure("the bare client's CPU over rslock's", &floor.cpu_us.over(&peer.cpu_us), "");
            let at = |what: &str| format!("{what}, {tasks} tasks");
            let speed = |other: &Reached| ours.rate.over(&other.rate);
            scores.goal("G1", &at("pairs/s over the bare client's"), &speed(&floor), Goal::AtLeast(0.9));
            let faster = if tasks == 64 { 1.1 } else { 1.8 };
            scores.goal("G2", &at("pairs/s over rslock's"), &speed(&peer), Goal::AtLeast(faster));
            if tasks == 1024 {
                let cpu = ours.cpu_us.over(&peer.cpu_us);
                scores.goal("G3", &at("client CPU a pair over rslock's"), &cpu, Goal::AtMost(0.5));
            }
        }
        Ok(())
    })
}
