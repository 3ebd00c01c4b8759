//! One lock that everybody wants, with nothing to do for who has it.

use std::{
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah::{Clock, Guard, Session};

use crate::{
    drive::{Pairs, Result, burst, text},
    scores::{Rounds, Scores},
};

const WARM_UP: Duration = Duration::from_millis(300);
const SPAN: Duration = Duration::from_millis(1500);

/// One who wants the lock.
pub(super) trait Contender: Send + 'static {
    /// Waits for it. Its fence.
    fn take(&mut self) -> impl Future<Output = Result<u64>> + Send;
    fn give(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// A lock of ours.
pub(super) struct Ours {
    mutex: bramah::Mutex,
    guard: Option<Guard>,
}

impl Ours {
    /// So many, by turns of these sessions.
    pub(super) fn many(sessions: &[Session], count: usize, name: &str) -> Result<Vec<Self>> {
        let one = |session: &Session| {
            Ok(Self { mutex: session.mutex(name.to_owned()).map_err(text)?, guard: None })
        };
        sessions.iter().cycle().take(count).map(one).collect()
    }
}

impl Contender for Ours {
    async fn take(&mut self) -> Result<u64> {
        let guard = self.mutex.lock().await.map_err(text)?;
        let fence = guard.fence().map_or(0, bramah::Fence::get);
        self.guard = Some(guard);
        Ok(fence)
    }

    async fn give(&mut self) -> Result<()> {
        if let Some(guard) = self.guard.take() {
            guard.release().await;
        }
        Ok(())
    }
}

/// Who sees all grants and releases.
#[derive(Clone, Default)]
pub(super) struct Witness(Arc<Mutex<Seen>>);

#[derive(Clone, Default)]
pub(super) struct Seen {
    holders: u32,
    last: u64,
    released_ns: Option<u64>,
    /// From the beginning of a release to the next grant, in milliseconds.
    pub(super) gaps: Vec<f64>,
    pub(super) grants: u64,
    pub(super) overlaps: u64,
    pub(super) regressions: u64,
}

impl Witness {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn granted(&self, fence: u64, clock: &Clock) {
        let now = clock.now().ns();
        let mut seen = self.seen();
        seen.overlaps += u64::from(seen.holders > 0);
        seen.regressions += u64::from(fence <= seen.last);
        seen.last = fence;
        seen.holders += 1;
        seen.grants += 1;
        if let Some(at) = seen.released_ns.take() {
            seen.gaps.push(now.saturating_sub(at) as f64 / 1e6);
        }
    }

    pub(super) fn releases(&self, clock: &Clock) {
        let mut seen = self.seen();
        seen.holders -= 1;
        seen.released_ns = Some(clock.now().ns());
    }

    /// What was seen so far; grants are counted anew.
    pub(super) fn take(&self) -> Seen {
        let mut seen = self.seen();
        let told = seen.clone();
        (seen.gaps, seen.grants, seen.overlaps, seen.regressions) = (Vec::new(), 0, 0, 0);
        told
    }
}

/// So many hundredths of sorted figures are below it: 50 is the median.
pub(super) fn share(sorted: &[f64], hundredths: usize) -> f64 {
    let at = sorted.len() * hundredths / 100;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// What came of one round.
struct Round {
    seen: Seen,
    seconds: f64,
}

async fn contend<C: Contender>(contenders: Vec<C>) -> Result<Round> {
    let (clock, witness, over) = (Clock::boot(), Witness::default(), Arc::new(AtomicBool::new(false)));
    let mut tasks = tokio::task::JoinSet::new();
    for mut one in contenders {
        let (clock, witness, over) = (clock.clone(), witness.clone(), over.clone());
        tasks.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                let fence = one.take().await?;
                witness.granted(fence, &clock);
                witness.releases(&clock);
                one.give().await?;
            }
            Ok::<_, String>(())
        });
    }
    tokio::time::sleep(WARM_UP).await;
    let warm = witness.take();
    let began = clock.now();
    tokio::time::sleep(SPAN).await;
    let mut seen = witness.take();
    let seconds = clock.now().since(began).as_secs_f64();
    over.store(true, Ordering::Relaxed);
    while let Some(done) = tasks.join_next().await {
        done.map_err(text)??;
    }
    // What was wrong before and after counts as well.
    let after = witness.take();
    seen.overlaps += warm.overlaps + after.overlaps;
    seen.regressions += warm.regressions + after.regressions;
    seen.gaps.sort_by(f64::total_cmp);
    Ok(Round { seen, seconds })
}

/// Ours and the bare recipe by turns, and beside them one that creates and deletes with nobody in its way: one lock has one holder at
/// a time, so that is the most that could be had.
pub(super) async fn run<B: Contender, P: Pairs>(
    scores: &mut Scores,
    server: &str,
    sessions: &[Session],
    tasks: usize,
    rounds: usize,
    bare: impl AsyncFn(usize) -> Result<Vec<B>>,
    alone: impl Fn() -> P,
) -> Result<()> {
    let ours_by = sessions.len().min(tasks);
    scores.heading(&format!(
        "{server}: one lock that {tasks} tasks want, {ours_by} session(s), {rounds} interleaved rounds"
    ));
    let [mut raw, mut floor, mut floor_gap, mut ours, mut gap, mut far] = [const { Rounds::new() }; 6];
    for _ in 0..rounds {
        let warm = burst(vec![alone()], WARM_UP).await?.workers;
        raw.push(burst(warm, SPAN).await?.rate());
        let Round { seen, seconds } = contend(bare(tasks).await?).await?;
        scores.check(seen.grants, seen.overlaps, seen.regressions);
        floor.push(seen.grants as f64 / seconds);
        floor_gap.push(share(&seen.gaps, 50));
        let Round { seen, seconds } = contend(Ours::many(sessions, tasks, "handoff")?).await?;
        scores.check(seen.grants, seen.overlaps, seen.regressions);
        ours.push(seen.grants as f64 / seconds);
        gap.push(share(&seen.gaps, 50));
        far.push(share(&seen.gaps, 99));
    }
    scores.figure("creations and deletions of one alone, a second", &raw, "");
    scores.figure("the bare recipe, hand-offs a second", &floor, "");
    scores.figure("  from a release to the next grant, p50", &floor_gap, "ms");
    scores.figure("bramah, hand-offs a second", &ours, "");
    scores.figure("  from a release to the next grant, p50", &gap, "ms");
    scores.figure("  p99", &far, "ms");
    scores.figure("hand-offs/s over the bare recipe", &ours.over(&floor), "");
    scores.figure("hand-offs/s over the pairs of one alone", &ours.over(&raw), "");
    scores.figure("the same of the bare recipe", &floor.over(&raw), "");
    Ok(())
}
