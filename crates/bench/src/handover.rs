//! How often a lock changes hands inside one process, against `tokio::sync::Mutex`.

use std::{sync::Arc, time::Instant};

use bramah::{Memory, Result, Session};

use crate::report::{Report, median};

const HANDOVERS: usize = 200_000;

pub(crate) fn run(report: &mut Report) -> Result<()> {
    for (workers, tasks) in [(1, 64), (2, 64)] {
        report.heading(&format!(
            "hand-over, {tasks} tasks on {workers} worker thread(s), median of 5 interleaved runs"
        ));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            .enable_all()
            .build()
            .map_err(|error| bramah::Error::caused(bramah::ErrorKind::Unavailable, "no runtime", error))?;
        let (mut floor, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            floor.push(runtime.block_on(tokio_mutex(tasks)));
            ours.push(runtime.block_on(memory(tasks))?);
        }
        let (floor, ours) = (median(floor), median(ours));
        report.line("tokio::sync::Mutex, hand-overs a second", format!("{floor:>12.0}"));
        report.line("memory engine, hand-overs a second", format!("{ours:>12.0}"));
        report.goal("ratio (goal: at least 0.2)", format!("{:>12.2}", ours / floor), ours / floor >= 0.2);
    }
    Ok(())
}

/// Every task takes the lock, lets the others run while it has it, and gives it back: all the others are in line, so
/// each acquisition is a hand-over.
async fn tokio_mutex(tasks: usize) -> f64 {
    let mutex = Arc::new(tokio::sync::Mutex::new(()));
    let began = Instant::now();
    let workers: Vec<_> = (0..tasks)
        .map(|_| {
            let mutex = mutex.clone();
            tokio::spawn(async move {
                for _ in 0..HANDOVERS / tasks {
                    let guard = mutex.lock().await;
                    tokio::task::yield_now().await;
                    drop(guard);
                }
            })
        })
        .collect();
    for worker in workers {
        let _ = worker.await;
    }
    HANDOVERS as f64 / began.elapsed().as_secs_f64()
}

async fn memory(tasks: usize) -> Result<f64> {
    let session = Session::open(Memory::new()).await?;
    let mutex = session.mutex("hot")?;
    let began = Instant::now();
    let workers: Vec<_> = (0..tasks)
        .map(|_| {
            let mutex = mutex.clone();
            tokio::spawn(async move {
                for _ in 0..HANDOVERS / tasks {
                    let guard = mutex.lock().await?;
                    tokio::task::yield_now().await;
                    guard.release().await;
                }
                Ok::<_, bramah::Error>(())
            })
        })
        .collect();
    for worker in workers {
        worker
            .await
            .map_err(|error| bramah::Error::caused(bramah::ErrorKind::Unavailable, "a task died", error))??;
    }
    Ok(HANDOVERS as f64 / began.elapsed().as_secs_f64())
}
