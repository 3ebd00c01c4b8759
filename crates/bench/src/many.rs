//! Many locks held by one process: does one more cost more, and does the keeper keep up?

use std::time::{Duration, Instant};

use bramah::{Error, ErrorKind, Guard, Keeper, Memory, Result, Session};

use crate::report::{Report, median};

const PAIRS: usize = 20_000;
const MANY: usize = 100_000;

pub(crate) fn run(report: &mut Report) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::caused(ErrorKind::Unavailable, "no runtime", error))?;
    runtime.block_on(async {
        // First, while the allocator has nothing to give again: what a lock takes is seen then.
        keeping(report).await?;
        growth(report).await
    })
}

/// One lock + release while so many other names are held.
async fn growth(report: &mut Report) -> Result<()> {
    report.heading("memory engine, one lock + release beside other held names, median of 9");
    let mut first = None;
    for others in [10, 1_000, MANY] {
        let session = Session::open(Memory::new()).await?;
        let held = hold(&session, others).await?;
        let mutex = session.mutex("one/more")?;
        let mut runs = Vec::new();
        for _ in 0..9 {
            let began = Instant::now();
            for _ in 0..PAIRS {
                mutex.lock().await?.release().await;
            }
            runs.push(began.elapsed().as_nanos() as f64 / PAIRS as f64);
        }
        let cost = median(runs);
        let ratio = cost / *first.get_or_insert(cost);
        let what = format!("beside {others} held names (goal: at most 1.5 of the first)");
        report.goal(&what, format!("{cost:>9.0} ns  x{ratio:.2}"), ratio <= 1.5);
        drop(held);
    }
    Ok(())
}

async fn hold(session: &Session, count: usize) -> Result<Vec<Guard>> {
    let mut guards = Vec::with_capacity(count);
    for n in 0..count {
        guards.push(session.mutex(format!("held/{n}"))?.lock().await?);
    }
    Ok(guards)
}

/// A hundred thousand locks over several renewal rounds.
async fn keeping(report: &mut Report) -> Result<()> {
    const TTL: Duration = Duration::from_secs(6);
    report.heading(&format!("{MANY} locks held by one process, ttl {TTL:?}, for three ttls"));
    let before = resident()?;
    let keeper = Keeper::spawn()?;
    let session = Session::builder(Memory::new()).ttl(TTL).keeper(keeper.clone()).open().await?;
    let guards = hold(&session, MANY).await?;
    let bytes = (resident()?.saturating_sub(before)) as f64 / MANY as f64;
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    while began.elapsed() < TTL * 3 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        longest = longest.max(keeper.last_round());
    }
    let lost = guards.iter().filter(|guard| !guard.is_held()).count();
    report.line("memory a lock (store, seat and guard)", format!("{bytes:>8.0} bytes"));
    report.goal(
        "longest renewal round (goal: under ttl/10)",
        format!("{longest:>12.1?}"),
        longest < TTL / 10 && !longest.is_zero(),
    );
    report.goal("locks lost (goal: none)", format!("{lost:>12}"), lost == 0);
    let began = Instant::now();
    drop(guards);
    report.line("releasing them all", format!("{:>12.1?}", began.elapsed()));
    Ok(())
}

/// How much memory this process has, in bytes.
fn resident() -> Result<u64> {
    let failed =
        |why: &str| Error::new(ErrorKind::Unavailable, format!("the process's memory is not known: {why}"));
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| failed(&error.to_string()))?;
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or_else(|| failed("no VmRSS"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().map_err(|_| failed(line))?;
    Ok(kib * 1024)
}
