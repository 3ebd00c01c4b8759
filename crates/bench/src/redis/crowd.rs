//! One process of a crowd that wants one lock: started by [`contention`](super::contention), it writes down every hold.
//!
//! Orders come in an environment variable, start and end on standard input; the holds go to standard output, one line
//! each, in nanoseconds of the boot clock, which is the same to every process of the machine.

use std::{
    io::{BufRead, Write},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah::{Clock, Moment, Session};
use bramah_redis::Redis;
use rslock::LockManager;

use super::{Result, redisson::Waiting, redlock, runtime, text};

/// Where the orders are: `WHO URL NAME TASKS`.
pub(crate) const ENVIRONMENT: &str = "BRAMAH_BENCH_CROWD";

/// Whose way of waiting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Who {
    Bramah,
    Redisson,
    Rslock,
}

impl Who {
    /// The commands that it sends besides scripts.
    pub(super) fn sends(self) -> &'static [&'static str] {
        match self {
            Self::Bramah | Self::Redisson => &[],
            Self::Rslock => &["set"],
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bramah => "bramah",
            Self::Redisson => "redisson",
            Self::Rslock => "rslock",
        }
    }
}

/// One hold of one task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) task: usize,
    /// Zero where there is none.
    pub(super) fence: u64,
    pub(super) asked_ns: u64,
    pub(super) held_ns: u64,
    pub(super) left_ns: u64,
}

impl Held {
    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let Self { task, fence, asked_ns, held_ns, left_ns } = self;
        writeln!(out, "{task} {fence} {asked_ns} {held_ns} {left_ns}")
    }

    pub(super) fn read(line: &str) -> Option<Self> {
        let mut numbers = line.split(' ').map(|word| word.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        let task = usize::try_from(next()?).ok()?;
        Some(Self { task, fence: next()?, asked_ns: next()?, held_ns: next()?, left_ns: next()? })
    }
}

/// What the tasks of the process share.
struct Crowd {
    start: Moment,
    end: Moment,
    /// Whether somebody of this process is inside.
    inside: AtomicBool,
    /// How often somebody was when another came.
    overlaps: AtomicU64,
    trouble: Mutex<Option<String>>,
    /// By task.
    holds: Vec<Mutex<Vec<Held>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Crowd {
    /// Whether there is time for one more.
    fn asks(&self) -> Option<u64> {
        let now = Clock::boot().now();
        (now < self.end).then_some(now.ns())
    }

    /// The section that the lock is for.
    fn enter(&self, task: usize, fence: u64, asked_ns: u64) {
        let held_ns = Clock::boot().now().ns();
        let overlap = self.inside.swap(true, Ordering::SeqCst);
        self.overlaps.fetch_add(u64::from(overlap), Ordering::Relaxed);
        self.inside.store(false, Ordering::SeqCst);
        let left_ns = Clock::boot().now().ns();
        locked(&self.holds[task]).push(Held { task, fence, asked_ns, held_ns, left_ns });
    }

    fn report(&self, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "{}", self.overlaps.load(Ordering::Relaxed))?;
        for holds in &self.holds {
            for held in locked(holds).iter() {
                held.write(out)?;
            }
        }
        out.flush()
    }
}

enum Contender {
    Bramah(Session, String),
    Redisson(Arc<Waiting>),
    Rslock(LockManager, String),
}

impl Contender {
    async fn connect(who: &str, url: &str, name: &str) -> Result<Self> {
        if who == Who::Redisson.name() {
            return Ok(Self::Redisson(Waiting::connect(url, name).await?));
        }
        if who == Who::Rslock.name() {
            return Ok(Self::Rslock(redlock::peer(url), name.to_owned()));
        }
        let session = if url.starts_with("redlock:") {
            redlock::session(url).await?
        } else {
            Session::open(Redis::from_url(url).map_err(text)?).await.map_err(text)?
        };
        Ok(Self::Bramah(session, name.to_owned()))
    }

    fn spawn(&self, crowd: &Arc<Crowd>, task: usize) -> Result<()> {
        let crowd = crowd.clone();
        match self {
            Self::Bramah(session, name) => {
                let mutex = session.mutex(name.as_str()).map_err(text)?;
                tokio::spawn(async move {
                    let outcome = wait_as_bramah(&crowd, task, &mutex).await;
                    crowd.end(outcome);
                });
            }
            Self::Redisson(lock) => {
                let (lock, owner) = (lock.clone(), lock.owner());
                tokio::spawn(async move {
                    let outcome = wait_as_redisson(&crowd, task, &lock, &owner).await;
                    crowd.end(outcome);
                });
            }
            Self::Rslock(manager, name) => {
                let (manager, name) = (manager.clone(), name.clone());
                tokio::spawn(async move {
                    let outcome = wait_as_rslock(&crowd, task, &manager, &name).await;
                    crowd.end(outcome);
                });
            }
        }
        Ok(())
    }
}

impl Crowd {
    fn end(&self, outcome: Result<()>) {
        if let Err(why) = outcome {
            locked(&self.trouble).get_or_insert(why);
        }
    }
}

async fn wait_as_bramah(crowd: &Crowd, task: usize, mutex: &bramah::Mutex) -> Result<()> {
    Clock::boot().sleep_until(crowd.start).await;
    while let Some(asked) = crowd.asks() {
        let guard = mutex.lock().await.map_err(text)?;
        crowd.enter(task, guard.fence().map_or(0, bramah::Fence::get), asked);
        guard.release().await;
    }
    Ok(())
}

async fn wait_as_redisson(crowd: &Crowd, task: usize, lock: &Waiting, owner: &str) -> Result<()> {
    Clock::boot().sleep_until(crowd.start).await;
    while let Some(asked) = crowd.asks() {
        lock.lock(owner).await?;
        crowd.enter(task, 0, asked);
        lock.unlock(owner).await?;
    }
    Ok(())
}

/// It asks again until it has the lock, whatever happens.
async fn wait_as_rslock(crowd: &Crowd, task: usize, manager: &LockManager, name: &str) -> Result<()> {
    Clock::boot().sleep_until(crowd.start).await;
    while let Some(asked) = crowd.asks() {
        let guard = manager.acquire(name, redlock::TTL).await.map_err(text)?;
        crowd.enter(task, 0, asked);
        guard.release().await;
    }
    Ok(())
}

pub(super) fn run(orders: &str) -> Result<()> {
    let words: Vec<_> = orders.split(' ').collect();
    let [who, url, name, tasks] = words.as_slice() else { return Err(format!("unclear orders: {orders}")) };
    let tasks: usize = tasks.parse().map_err(text)?;
    let runtime = runtime()?;
    let contender = runtime.block_on(Contender::connect(who, url, name))?;
    println!("ready");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(text)?;
    let (start, end) = line.trim().split_once(' ').ok_or("no start and end were given")?;
    let moment = |word: &str| word.parse().map(Moment::from_ns).map_err(text);
    let crowd = Arc::new(Crowd {
        start: moment(start)?,
        end: moment(end)?,
        inside: AtomicBool::new(false),
        overlaps: AtomicU64::new(0),
        trouble: Mutex::default(),
        holds: (0..tasks).map(|_| Mutex::default()).collect(),
    });
    runtime.block_on(async {
        for task in 0..tasks {
            contender.spawn(&crowd, task)?;
        }
        Clock::boot().sleep_until(crowd.end + Duration::from_millis(10)).await;
        Ok::<_, String>(())
    })?;
    if let Some(why) = locked(&crowd.trouble).take() {
        return Err(why);
    }
    crowd.report(&mut std::io::BufWriter::new(std::io::stdout().lock())).map_err(text)?;
    // Those who still wait need not be waited for: whoever started us empties the server.
    std::process::exit(0)
}
