//! Tasks that lock and release as fast as they can.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah::{Clock, Mutex, Session};
use rustix::time::{ClockId, clock_gettime};

use crate::scores::Scores;

const WARM_UP: Duration = Duration::from_millis(150);

/// What everything here fails with: a line for people.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// One task's way to lock and release its own name.
pub(crate) trait Pairs: Send + 'static {
    fn pair(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// What came of it.
pub(crate) struct Driven<P> {
    pub(crate) workers: Vec<P>,
    pub(crate) pairs: u64,
    pub(crate) seconds: f64,
    /// Seconds of this process's CPU, in the kernel and outside, all threads.
    pub(crate) cpu: f64,
}

impl<P> Driven<P> {
    pub(crate) fn rate(&self) -> f64 {
        self.pairs as f64 / self.seconds
    }

    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu * 1e6 / self.pairs as f64
    }
}

/// Has all workers lock and release at once, for `span` after a warm-up.
pub(crate) async fn drive<P: Pairs>(workers: Vec<P>, span: Duration) -> Result<Driven<P>> {
    let warm = burst(workers, WARM_UP.min(span)).await?;
    burst(warm.workers, span).await
}

pub(crate) async fn burst<P: Pairs>(workers: Vec<P>, span: Duration) -> Result<Driven<P>> {
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
pub(crate) struct Locked {
    mutex: Mutex,
    last: u64,
    count: u64,
    regressions: u64,
}

impl Locked {
    pub(crate) fn workers(session: &Session, tasks: usize) -> Result<Vec<Self>> {
        let worker = |n| {
            let mutex = session.mutex(format!("pairs/{n}")).map_err(text)?;
            Ok(Self { mutex, last: 0, count: 0, regressions: 0 })
        };
        (0..tasks).map(worker).collect()
    }

    pub(crate) fn check(workers: &[Self], scores: &mut Scores) {
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

/// A runtime as an application has one.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|why| format!("no runtime: {why}"))
}

/// Any error as a line.
pub(crate) fn text(why: impl std::fmt::Display) -> String {
    why.to_string()
}
