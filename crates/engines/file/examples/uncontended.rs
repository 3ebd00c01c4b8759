//! What an uncontended lock costs, beside the least that a lock file can cost: open, flock, a write of 8 bytes, close.
//!
//! `cargo run --release -p bramah-file --example uncontended [directory]`

use std::{error::Error, io::Write, os::unix::fs::OpenOptionsExt, path::PathBuf, sync::Arc, time::Duration};

use bramah_core::{
    About, Claim, ClaimId, Clock, Engine, Exit, Keep, Name, Opening, SessionId, Standing, Wait,
};
use bramah_file::File;
use rustix::fs::{FlockOperation, flock};

const PAIRS: u64 = 100_000;
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let dir = given.unwrap_or_else(std::env::temp_dir).join(format!("bramah-bench-{}", std::process::id()));
    let (mut raw, mut ours) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        raw = raw.min(timed(&mut raw_pairs(&dir)?)?);
        ours = ours.min(timed(&mut engine_pairs(&dir)?)?);
    }
    std::fs::remove_dir_all(&dir)?;
    println!("open + flock + write + close   {:>9.0} pairs/s   {:.2} us", 1e6 / raw, raw);
    println!("claim + withdraw               {:>9.0} pairs/s   {:.2} us", 1e6 / ours, ours);
    println!("ratio                          {:>9.2}", ours / raw);
    Ok(())
}

type Step = Box<dyn FnMut(u64) -> Result<(), Box<dyn Error>>>;

/// Microseconds per pair.
fn timed(step: &mut Step) -> Result<f64, Box<dyn Error>> {
    let clock = Clock::boot();
    let start = clock.now();
    for number in 0..PAIRS {
        step(number)?;
    }
    Ok(clock.now().since(start).as_secs_f64() * 1e6 / PAIRS as f64)
}

fn raw_pairs(dir: &std::path::Path) -> Result<Step, Box<dyn Error>> {
    std::fs::create_dir_all(dir)?;
    let path = dir.join("raw");
    Ok(Box::new(move |number| {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(&number.to_le_bytes())?;
        Ok(())
    }))
}

fn engine_pairs(dir: &std::path::Path) -> Result<Step, Box<dyn Error>> {
    let engine = File::open(dir.join("engine"))?;
    let session = SessionId::random()?;
    let about = About::this_process();
    let opening = Opening::new(session, Duration::from_secs(30), Keep::Process, about);
    now(engine.open(Arc::new(opening)))?;
    let name = Name::new("bench")?;
    Ok(Box::new(move |number| {
        let claim = Arc::new(Claim {
            id: ClaimId { session, seq: number },
            name: name.clone(),
            capacity: 1,
            weight: 1,
            wait: Wait::Line,
            again: false,
            floor: None,
            ttl: Duration::MAX,
            lease: None,
            note: "".into(),
        });
        match now(engine.claim(Arc::clone(&claim)))? {
            Standing::Held { .. } => now(engine.withdraw(claim, Exit::Own)),
            other => Err(format!("not held but {other:?}").into()),
        }
    }))
}

fn now<T>(reply: bramah_core::Reply<T>) -> Result<T, Box<dyn Error>> {
    Ok(reply.into_now().map_err(|_| "not answered at once")??)
}
