//! One lock, and many who wait for it: does a hand-over take longer when the line is longer?

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bramah::{Clock, Name, Session, Tag};

use super::{
    handoff::{Witness, share},
    spy::Counts,
};
use crate::{
    drive::{Result, text},
    scores::{Goal, Rounds, Scores},
};

/// How long the lines are.
const LINES: [usize; 4] = [10, 100, 1_000, 2_000];
/// How many hand-overs are timed: those of a line that is still as long.
const TIMED: usize = 50;
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(300);

pub(super) struct Crowd<'c> {
    pub(super) server: &'c str,
    /// How the waiters are spread over sessions, in words.
    pub(super) shape: &'c str,
    /// Their sessions, by turns. The first one is the holder's, too.
    pub(super) sessions: &'c [Session],
    pub(super) holder: &'c Session,
    pub(super) counts: &'c Counts,
}

/// What came of one line.
struct Line {
    entered_ms: f64,
    gap_ms: f64,
    far_ms: f64,
    all_ms: f64,
    wakes: f64,
    asks: f64,
    out_of_order: u64,
}

pub(super) async fn run(
    scores: &mut Scores,
    crowd: &Crowd<'_>,
    rounds: usize,
    listing: impl AsyncFn(&str) -> Result<()>,
) -> Result<()> {
    let Crowd { server, shape, .. } = crowd;
    scores.heading(&format!("{server}: many wait for one lock, {shape}, {rounds} rounds"));
    println!("  {} threads in this process", threads()?);
    let mut first: Option<Rounds> = None;
    for count in LINES {
        let [mut entered, mut gap, mut far, mut all, mut wakes, mut asks, mut list] =
            [const { Rounds::new() }; 7];
        for round in 0..rounds {
            let name = format!("crowd/{count}/{round}");
            let (line, listed) = crowd.line(scores, &name, count, &listing).await?;
            entered.push(line.entered_ms);
            gap.push(line.gap_ms);
            far.push(line.far_ms);
            all.push(line.all_ms);
            wakes.push(line.wakes);
            asks.push(line.asks);
            list.push(listed);
            scores.check(count as u64, 0, line.out_of_order);
        }
        println!("  {count} waiters");
        scores.figure("  until all stand in line", &entered, "ms");
        scores.figure("  a bare listing of the line", &list, "ms");
        scores.figure("  from a release to the next grant, p50", &gap, "ms");
        scores.figure("  p99 of the first 50", &far, "ms");
        scores.figure("  until all were served", &all, "ms");
        scores.figure("  wakes a release", &wakes, "");
        scores.figure("  questions a release", &asks, "");
        let most = format!("wakes a release, {count} waiters, {shape}, {server}");
        scores.goal("C3", &most, &wakes, Goal::AtMost(2.0));
        if let Some(first) = &first {
            let what = format!("release to grant over that of 10 and a listing, {count}, {shape}, {server}");
            scores.goal("C4", &what, &gap.over(&first.plus(&list)), Goal::AtMost(1.25));
        } else {
            first = Some(gap);
        }
    }
    println!("  {} threads in this process", threads()?);
    Ok(())
}

impl Crowd<'_> {
    async fn line(
        &self,
        scores: &mut Scores,
        name: &str,
        count: usize,
        listing: &impl AsyncFn(&str) -> Result<()>,
    ) -> Result<(Line, f64)> {
        let (clock, witness) = (Clock::boot(), Witness::default());
        let name = Name::new(name).map_err(text)?;
        let guard = self.holder.mutex(name.clone()).map_err(text)?.lock().await.map_err(text)?;
        witness.granted(guard.fence().map_or(0, bramah::Fence::get), &clock);
        self.counts.clear();
        let began = clock.now();
        let mut tasks = tokio::task::JoinSet::new();
        for session in self.sessions.iter().cycle().take(count) {
            let (clock, witness) = (clock.clone(), witness.clone());
            let mutex = session.mutex(name.clone()).map_err(text)?;
            tasks.spawn(async move {
                let guard = mutex.lock_within(PATIENCE).await.map_err(text)?;
                witness.granted(guard.fence().map_or(0, bramah::Fence::get), &clock);
                let tag = guard.tag();
                witness.releases(&clock);
                guard.release().await;
                Ok::<_, String>((clock.now().ns(), tag))
            });
        }
        while self.counts.queued.load(Ordering::Relaxed) < count as u64 {
            if clock.now().since(began) > PATIENCE {
                return Err(format!("{name}: not all {count} came to stand in line"));
            }
            if let Some(done) = tasks.try_join_next() {
                done.map_err(text)??;
                return Err(format!("{name}: one of the waiters did not wait"));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let entered_ms = clock.now().since(began).as_secs_f64() * 1e3;
        let expected = self.tags(&name).await?;
        let before = clock.now();
        listing(name.as_str()).await?;
        let listed_ms = clock.now().since(before).as_secs_f64() * 1e3;
        self.counts.clear();
        let began = clock.now();
        witness.releases(&clock);
        guard.release().await;
        let mut served = Vec::with_capacity(count);
        while let Some(done) = tasks.join_next().await {
            served.push(done.map_err(text)??);
        }
        let all_ms = clock.now().since(began).as_secs_f64() * 1e3;
        let seen = witness.take();
        scores.check(seen.grants, seen.overlaps, seen.regressions);
        served.sort_unstable_by_key(|(at, _)| *at);
        let out_of_order = served.iter().zip(&expected).filter(|((_, tag), due)| tag != *due).count();
        let missing = expected.len().abs_diff(count);
        let mut gaps: Vec<f64> = seen.gaps.into_iter().take(TIMED).collect();
        gaps.sort_by(f64::total_cmp);
        let a_release =
            |counted: &std::sync::atomic::AtomicU64| counted.load(Ordering::Relaxed) as f64 / count as f64;
        let line = Line {
            entered_ms,
            gap_ms: share(&gaps, 50),
            far_ms: share(&gaps, 99),
            all_ms,
            wakes: a_release(&self.counts.wakes),
            asks: a_release(&self.counts.asks),
            out_of_order: (out_of_order + missing) as u64,
        };
        Ok((line, listed_ms))
    }

    /// Those who wait, in order, as the store shows them.
    async fn tags(&self, name: &Name) -> Result<Vec<Tag>> {
        let line = self.holder.inspect(name).await.map_err(text)?;
        let line = line.ok_or_else(|| format!("{name}: nobody is in the line"))?;
        Ok(line.waiters().map(|place| place.claim.id.tag()).collect())
    }
}

/// So many sessions of one engine and one keeper.
pub(super) async fn open(
    engine: &Arc<super::spy::Spy>,
    keeper: &bramah::Keeper,
    count: usize,
    ttl: Duration,
) -> Result<Vec<Session>> {
    let mut tasks = tokio::task::JoinSet::new();
    let mut sessions = Vec::with_capacity(count);
    for _ in 0..count {
        let engine: Arc<dyn bramah::Engine> = engine.clone();
        tasks.spawn(Session::builder(engine).ttl(ttl).keeper(keeper.clone()).open());
        // So many at a time as a server answers within its patience.
        if tasks.len() >= 64
            && let Some(opened) = tasks.join_next().await
        {
            sessions.push(opened.map_err(text)?.map_err(text)?);
        }
    }
    while let Some(opened) = tasks.join_next().await {
        sessions.push(opened.map_err(text)?.map_err(text)?);
    }
    Ok(sessions)
}

fn threads() -> Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task").map_err(text)?.count())
}
