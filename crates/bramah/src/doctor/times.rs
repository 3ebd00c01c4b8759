//! How long things take.

use std::{sync::Arc, time::Duration};

use bramah_core::{Clock, Engine, Error, ErrorKind, Name, Order, Result, Session};

use super::Span;

/// Medians of a few rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Opening the store and a session on it.
    pub open: Duration,
    /// Taking a lock that is free, and releasing it.
    pub round: Duration,
    /// From the release of a lock until the next in line has it; both are sessions of one process.
    pub hand_over: Duration,
}

const OPENINGS: usize = 5;
const ROUNDS: usize = 15;
const HAND_OVERS: usize = 7;
/// Nobody else knows the lock, so whatever takes longer than this is stuck.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long somebody has to begin to wait where that cannot be seen.
const UNSEEN: Duration = Duration::from_millis(50);
/// How long the end waits for the store to confirm that everything is withdrawn.
const CLOSING: Duration = Duration::from_secs(2);

pub(super) async fn measure(url: &str, engine: &Arc<dyn Engine>, span: Span, name: &Name) -> Result<Times> {
    let clock = Clock::boot();
    let mut open = Vec::new();
    for _ in 0..OPENINGS {
        let start = clock.now();
        let session = crate::connect(url).await?;
        open.push(clock.now().since(start));
        let _ = session.close(CLOSING).await;
    }
    let here = Session::open(Arc::clone(engine)).await?;
    // A connection of its own where that leads to the same store: as another process would have.
    let there = match span {
        Span::Engine => Session::open(Arc::clone(engine)).await?,
        Span::Own => crate::connect(url).await?,
    };
    let measured = on(&here, &there, name, &clock).await;
    for session in [here, there] {
        // What is left ends with its ttl, and the keeper has logged it.
        let _ = session.close(CLOSING).await;
    }
    let (round, hand_over) = measured?;
    Ok(Times { open: median(open), round, hand_over })
}

async fn on(here: &Session, there: &Session, name: &Name, clock: &Clock) -> Result<(Duration, Duration)> {
    let mutex = here.mutex(name)?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let start = clock.now();
        mutex.lock_within(PATIENCE).await?.release().await;
        rounds.push(clock.now().since(start));
    }
    let mut hand_overs = Vec::new();
    for _ in 0..HAND_OVERS {
        hand_overs.push(hand_over(here, there, name, clock).await?);
    }
    Ok((median(rounds), median(hand_overs)))
}

async fn hand_over(from: &Session, to: &Session, name: &Name, clock: &Clock) -> Result<Duration> {
    let guard = from.mutex(name)?.lock_within(PATIENCE).await?;
    let next = to.mutex(name)?;
    let take = async {
        let taken = next.lock_within(PATIENCE).await?;
        let end = clock.now();
        taken.release().await;
        Ok::<_, Error>(end)
    };
    let give = async {
        wait_for_waiter(from, name, clock).await?;
        let start = clock.now();
        guard.release().await;
        Ok::<_, Error>(start)
    };
    let (end, start) = tokio::try_join!(take, give)?;
    Ok(end.since(start))
}

async fn wait_for_waiter(session: &Session, name: &Name, clock: &Clock) -> Result<()> {
    if session.profile().order == Order::Unordered {
        // Where there is no line nobody can be seen to wait.
        clock.sleep_until(clock.now() + UNSEEN).await;
        return Ok(());
    }
    let until = clock.now() + PATIENCE;
    while clock.now() < until {
        if session.glance(name).await?.is_some_and(|line| line.waiters().next().is_some()) {
            return Ok(());
        }
        clock.sleep_until(clock.now() + Duration::from_millis(1)).await;
    }
    Err(Error::new(ErrorKind::Timeout, format!("{name}: nobody came to stand in line; try again")))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        let times = [9, 1, 100, 2, 3].map(Duration::from_millis).to_vec();
        assert_eq!(median(times), Duration::from_millis(3));
        assert_eq!(median(Vec::new()), Duration::ZERO);
    }
}
