//! A lock on several masters, against rslock on the same ones, by turns.
//!
//! Both take each lock for the same ttl, and rslock comes with its own settings. The masters trust that they have not
//! forgotten anything: what is measured is not how long one waits that was just started.

mod handover;
mod pairs;

use std::time::Duration;

use bramah::Session;
use bramah_redis::redlock::Redlock;
use rslock::LockManager;

use super::{Result, scores::Scores, server::Server, text};

/// What locks are taken for, by everybody.
pub(super) const TTL: Duration = Duration::from_secs(10);

/// How many masters there are, in the order in which they are measured.
const SIZES: [usize; 2] = [3, 5];

/// Whether a grant has a fence, which takes another round trip.
#[derive(Clone, Copy)]
enum Fences {
    Off,
    On,
}

/// Masters that know nothing of each other.
struct Masters(Vec<Server>);

impl Masters {
    fn start(count: usize) -> Result<Self> {
        (0..count).map(|_| Server::start()).collect::<Result<_>>().map(Self)
    }

    /// `redlock://…`
    fn url(&self, fences: Fences) -> String {
        let hosts: Vec<String> =
            self.0.iter().map(|server| server.url().trim_start_matches("redis://").to_owned()).collect();
        let fences = matches!(fences, Fences::On);
        format!("redlock://{}?restart=trust&fences={fences}", hosts.join(","))
    }

    /// `redis://…`, each.
    fn each(&self) -> Vec<String> {
        self.0.iter().map(Server::url).collect()
    }

    /// Seconds of CPU that all of them have used.
    fn cpu(&self) -> Result<f64> {
        self.0.iter().map(Server::cpu).sum()
    }
}

/// A session of ours, at the masters that the URL has.
pub(super) async fn session(url: &str) -> Result<Session> {
    let engine = Redlock::from_url(url).and_then(|redlock| redlock.engine()).map_err(text)?;
    Session::builder(engine).ttl(TTL).open().await.map_err(text)
}

/// The peer, at masters that are given with commas between them.
pub(super) fn peer(urls: &str) -> LockManager {
    LockManager::new(urls.split(',').collect())
}

/// Measures one thing on so many masters, in so many rounds.
type Part = fn(&mut Scores, &Masters, usize) -> Result<()>;

pub(super) fn run(scores: &mut Scores, rounds: usize) -> Result<()> {
    let only = std::env::var("BRAMAH_BENCH_ONLY").ok();
    let parts: [(&str, Part); 3] =
        [("latency", pairs::one_task), ("pairs", pairs::many_tasks), ("handover", handover::run)];
    let wanted: Vec<_> =
        parts.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)).collect();
    if wanted.is_empty() {
        return Err("BRAMAH_BENCH_ONLY: known are latency, pairs, handover".into());
    }
    for (_, part) in wanted {
        for size in SIZES {
            part(scores, &Masters::start(size)?, rounds)?;
        }
    }
    Ok(())
}
