//! Tasks that lock in turn while something is done to their store.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah_core::{Result, Session};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

const SOON: Duration = Duration::from_secs(30);

/// Tries until the store is not away any more.
///
/// # Errors
///
/// When that takes longer than `patience`, or it is refused for good.
pub async fn persist<T, F>(patience: Duration, attempt: impl Fn() -> F) -> Result<T, String>
where
    F: IntoFuture<Output = Result<T>>,
{
    let tries = async {
        loop {
            match attempt().await {
                Err(error) if error.kind().is_transient() => sleep(Duration::from_millis(20)).await,
                other => return other.map_err(|error| error.to_string()),
            }
        }
    };
    timeout(patience, tries).await.unwrap_or_else(|_| Err(format!("not within {patience:?}")))
}

/// What several tasks do under one lock: whether two were in at once, and whether fences rose.
#[derive(Default)]
struct Count {
    inside: AtomicBool,
    last: Mutex<u64>,
    count: AtomicU64,
}

impl Count {
    async fn step(&self, session: &Session) -> Result<(), String> {
        let mutex = session.mutex("counter").map_err(|error| error.to_string())?;
        let guard = persist(SOON, || mutex.lock()).await?;
        // A hold that was lost while the server was away is nobody's overlap.
        if guard.is_held() {
            if self.inside.swap(true, Ordering::SeqCst) {
                return Err("two are in".to_owned());
            }
            self.rise(guard.fence().map_or(0, |fence| fence.get()))?;
            tokio::task::yield_now().await;
            self.inside.store(false, Ordering::SeqCst);
            self.count.fetch_add(1, Ordering::SeqCst);
        }
        guard.release().await;
        Ok(())
    }

    fn rise(&self, fence: u64) -> Result<(), String> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if fence <= *last {
            return Err(format!("fence {fence} after {last}"));
        }
        *last = fence;
        Ok(())
    }
}

/// Four tasks of each session lock and release while `harm` is done again and again, and the sessions close.
///
/// # Errors
///
/// When two were in at once, a fence did not rise, nobody went on after a harm, or something was left.
pub async fn counts_under(sessions: [Session; 2], harm: impl Fn(), times: usize) -> Result<(), String> {
    let (count, over) = (Arc::new(Count::default()), Arc::new(AtomicBool::new(false)));
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let (session, count, over) = (sessions[task % 2].clone(), count.clone(), over.clone());
        tasks.spawn(async move {
            while !over.load(Ordering::SeqCst) {
                count.step(&session).await?;
            }
            Ok::<_, String>(())
        });
    }
    let mut stuck = None;
    for _ in 0..times {
        let before = count.count.load(Ordering::SeqCst);
        harm();
        // The others go on after each harm, and not only after the last.
        let goes_on = async {
            while count.count.load(Ordering::SeqCst) < before + 8 {
                sleep(Duration::from_millis(10)).await;
            }
        };
        if timeout(SOON, goes_on).await.is_err() {
            stuck = Some("nobody goes on".to_owned());
            break;
        }
    }
    over.store(true, Ordering::SeqCst);
    // What stopped a task says more than that nobody went on.
    while let Some(done) = tasks.join_next().await {
        done.map_err(|why| why.to_string())??;
    }
    if let Some(stuck) = stuck {
        return Err(stuck);
    }
    for session in sessions {
        let left = session.close(Duration::from_secs(5)).await.left;
        if !left.is_empty() {
            return Err(format!("left: {left:?}"));
        }
    }
    Ok(())
}
