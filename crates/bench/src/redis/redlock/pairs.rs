//! Locks that nobody else wants, one name for each task.

use std::{
    future::{Future, poll_fn},
    task::Poll,
    time::Duration,
};

use bramah::{Clock, Session};
use rslock::LockManager;

use crate::drive::{Driven, Locked, Pairs, burst};

use super::{
    super::{
        bare::{self, Least},
        pairs::Peer,
        runtime,
        scores::{Goal, Rounds},
    },
    Fences, Masters, Result, Scores, TTL, peer, session, text,
};

const TASKS: usize = 64;
const WARM_UP: Duration = Duration::from_millis(150);
const SPAN: Duration = Duration::from_millis(1000);
/// How many pairs one task takes one after the other.
const ALONE: usize = 500;

/// The least that a lock on several masters can be: one script at each of them, and another to release it. There is no
/// majority, no time-out and no fence that is the same for all.
struct Bare {
    masters: Vec<Least>,
    key: String,
    number: u64,
}

impl Pairs for Bare {
    async fn pair(&mut self) -> Result<()> {
        self.number += 1;
        let (key, number) = (&self.key, self.number);
        all(self.masters.iter_mut().map(|master| master.lock(key, number))).await?;
        all(self.masters.iter_mut().map(|master| master.unlock(key, number))).await
    }
}

/// Waits for all of them, in one task.
async fn all(futures: impl Iterator<Item = impl Future<Output = Result<()>>>) -> Result<()> {
    let mut waiting: Vec<_> = futures.map(Box::pin).collect();
    let mut outcome = Ok(());
    poll_fn(|cx| {
        waiting.retain_mut(|one| match one.as_mut().poll(cx) {
            Poll::Ready(done) => {
                outcome = outcome.clone().and(done);
                false
            }
            Poll::Pending => true,
        });
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outcome
}

/// Everybody who takes part.
struct Field {
    least: Vec<Least>,
    without: Session,
    fenced: Session,
    peer: LockManager,
}

impl Field {
    async fn connect(masters: &Masters) -> Result<Self> {
        let mut least = Vec::new();
        for url in masters.each() {
            least.push(Least::connect(&url).await?);
        }
        Ok(Self {
            least,
            without: session(&masters.url(Fences::Off)).await?,
            fenced: session(&masters.url(Fences::On)).await?,
            peer: peer(&masters.each().join(",")),
        })
    }

    fn bare(&self, tasks: usize) -> Vec<Bare> {
        let worker = |n| Bare { masters: self.least.clone(), key: format!("least/{n}"), number: 0 };
        (0..tasks).map(worker).collect()
    }

    fn peer(&self, tasks: usize) -> Vec<Peer> {
        Peer::workers(&self.peer, tasks, TTL)
    }
}

/// What each contender is called.
const BARE: &str = "two scripts at each, bare client";
const WITHOUT: &str = "bramah without fences";
const FENCED: &str = "bramah";
const PEER: &str = "rslock (without a fence)";

/// How long one pair takes for who is alone, p50 in microseconds.
async fn alone<P: Pairs>(workers: Vec<P>) -> Result<(P, f64)> {
    let mut worker = workers.into_iter().next().ok_or("nobody works")?;
    // A task as an application has one: the runtime's own thread is woken at a higher price.
    let task = tokio::spawn(async move {
        let (clock, mut spans) = (Clock::boot(), Vec::with_capacity(ALONE));
        for _ in 0..ALONE {
            let began = clock.now();
            worker.pair().await?;
            spans.push(clock.now().since(began).as_secs_f64() * 1e6);
        }
        spans.sort_by(f64::total_cmp);
        Ok((worker, spans[ALONE / 2]))
    });
    task.await.map_err(text)?
}

/// The time of one pair over that of one master's round trip.
pub(super) fn one_task(scores: &mut Scores, masters: &Masters, rounds: usize) -> Result<()> {
    scores.heading(&format!(
        "lock + release by one task, {} masters, {rounds} interleaved rounds, p50 of each",
        masters.0.len(),
    ));
    let first = masters.each().into_iter().next().ok_or("there is no master")?;
    let mut trip = Rounds::new();
    let mut spans = [const { Rounds::new() }; 4];
    runtime()?.block_on(async {
        let field = Field::connect(masters).await?;
        for _ in 0..rounds {
            let url = first.clone();
            trip.push(tokio::spawn(async move { bare::round_trip(&url).await }).await.map_err(text)??);
            let (fenced, fenced_us) = alone(Locked::workers(&field.fenced, 1)?).await?;
            Locked::check(&[fenced], scores);
            let round = [
                alone(field.bare(1)).await?.1,
                alone(Locked::workers(&field.without, 1)?).await?.1,
                fenced_us,
                alone(field.peer(1)).await?.1,
            ];
            for (rounds, us) in spans.iter_mut().zip(round) {
                rounds.push(us);
            }
        }
        Ok::<_, String>(())
    })?;
    scores.figure("a script that does nothing, at one master", &trip, "us");
    for (who, span) in [BARE, WITHOUT, FENCED, PEER].iter().zip(&spans) {
        scores.figure(who, span, "us");
        scores.figure("  over one master's round trip", &span.over(&trip), "");
    }
    Ok(())
}

/// What one contender reached, over the rounds.
#[derive(Default)]
struct Reached {
    rate: Rounds,
    client_us: Rounds,
    server_us: Rounds,
}

impl Reached {
    /// Has all of them lock and release at once, for a while after a warm-up.
    async fn drive<P: Pairs>(&mut self, masters: &Masters, workers: Vec<P>) -> Result<Driven<P>> {
        let warm = burst(workers, WARM_UP).await?;
        let before = masters.cpu()?;
        let driven = burst(warm.workers, SPAN).await?;
        self.rate.push(driven.rate());
        self.client_us.push(driven.cpu_us());
        self.server_us.push((masters.cpu()? - before) * 1e6 / driven.pairs as f64);
        Ok(driven)
    }

    fn print(&self, scores: &Scores, who: &str) {
        scores.figure(&format!("{who}, pairs a second"), &self.rate, "");
        scores.figure("  client CPU a pair", &self.client_us, "us");
        scores.figure("  CPU of all masters a pair", &self.server_us, "us");
    }
}

pub(super) fn many_tasks(scores: &mut Scores, masters: &Masters, rounds: usize) -> Result<()> {
    let size = masters.0.len();
    scores.heading(&format!(
        "lock + release of names that nobody else wants, {TASKS} tasks, {size} masters, {rounds} interleaved rounds"
    ));
    let [mut floor, mut without, mut fenced, mut peer]: [Reached; 4] = Default::default();
    runtime()?.block_on(async {
        let field = Field::connect(masters).await?;
        for _ in 0..rounds {
            floor.drive(masters, field.bare(TASKS)).await?;
            without.drive(masters, Locked::workers(&field.without, TASKS)?).await?;
            let driven = fenced.drive(masters, Locked::workers(&field.fenced, TASKS)?).await?;
            Locked::check(&driven.workers, scores);
            peer.drive(masters, field.peer(TASKS)).await?;
        }
        Ok::<_, String>(())
    })?;
    for (who, reached) in [(BARE, &floor), (WITHOUT, &without), (FENCED, &fenced), (PEER, &peer)] {
        reached.print(scores, who);
    }
    scores.figure("pairs/s without fences over the bare client's", &without.rate.over(&floor.rate), "");
    scores.figure("pairs/s over the bare client's", &fenced.rate.over(&floor.rate), "");
    scores.figure("client CPU without fences over rslock's", &without.client_us.over(&peer.client_us), "");
    scores.figure("client CPU over rslock's", &fenced.client_us.over(&peer.client_us), "");
    let at = |what: &str| format!("{what}, {TASKS} tasks, {size} masters");
    let speed = |ours: &Reached| ours.rate.over(&peer.rate);
    scores.goal("L1", &at("pairs/s without fences over rslock's"), &speed(&without), Goal::AtLeast(1.5));
    scores.goal("L2", &at("pairs/s over rslock's"), &speed(&fenced), Goal::AtLeast(1.0));
    Ok(())
}
