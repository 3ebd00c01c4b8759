//! What one lock and release costs on the file engine when nobody else wants it, against the bare system calls.

use std::{fs::OpenOptions, io::Write, path::Path, time::Instant};

use bramah::{Error, ErrorKind, File, Result, Session};
use rustix::fs::{FlockOperation, flock};

use crate::report::{Report, median};

const PAIRS: usize = 20_000;

pub(crate) fn run(report: &mut Report) -> Result<()> {
    report.heading("file engine, one lock + release, nobody else there, median of 7 interleaved runs");
    let dir = std::env::temp_dir().join(format!("bramah-bench-{}", std::process::id()));
    let outcome = measure(report, &dir);
    let _ = std::fs::remove_dir_all(&dir);
    outcome
}

fn measure(report: &mut Report, dir: &Path) -> Result<()> {
    let failed =
        |error: std::io::Error| Error::caused(ErrorKind::Unavailable, format!("bench: {error}"), error);
    std::fs::create_dir_all(dir).map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let (mut floor, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..7 {
        floor.push(raw(&dir.join("raw")).map_err(failed)?);
        ours.push(runtime.block_on(engine(&dir.join("engine")))?);
    }
    let (floor, ours) = (median(floor), median(ours));
    report.line("open + flock + token write + close, pairs a second", format!("{floor:>12.0}"));
    report.line("file engine, lock + release, pairs a second", format!("{ours:>12.0}"));
    report.goal("ratio (goal: at least 0.2)", format!("{:>12.2}", ours / floor), ours / floor >= 0.2);
    Ok(())
}

fn raw(path: &Path) -> std::io::Result<f64> {
    let began = Instant::now();
    for token in 0..PAIRS as u64 {
        let mut file = OpenOptions::new().create(true).write(true).truncate(false).open(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        file.write_all(&token.to_le_bytes())?;
    }
    Ok(PAIRS as f64 / began.elapsed().as_secs_f64())
}

async fn engine(dir: &Path) -> Result<f64> {
    let session = Session::open(File::open(dir)?).await?;
    let mutex = session.mutex("uncontended")?;
    let began = Instant::now();
    for _ in 0..PAIRS {
        mutex.lock().await?.release().await;
    }
    Ok(PAIRS as f64 / began.elapsed().as_secs_f64())
}
