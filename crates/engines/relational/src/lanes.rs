//! How many calls about one name are under way.
//!
//! Every call that changes a line waits in the database for the lock of its name. A thousand callers of one name would take every
//! connection and spend their timeouts waiting for each other there, and releases would wait behind them. So few calls of a process
//! about one name are in the database at a time, and releases do not queue behind those who enter.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use bramah_core::Name;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::progress::Progress;

/// How many calls of each kind are under way for one name: one that is carried out, and one that waits to be.
const ABREAST: usize = 2;

/// So few entries are never looked through.
const FEW: usize = 256;

/// The lanes of the names in use.
#[derive(Debug, Default)]
pub(crate) struct Lanes(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    lanes: HashMap<Name, Weak<Lane>>,
    /// At how many entries those are removed that nobody uses.
    most: usize,
}

#[derive(Debug)]
struct Lane {
    claims: Arc<Semaphore>,
    releases: Arc<Semaphore>,
    progress: Progress,
}

/// What a call does to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It enters, or asks.
    Claim,
    /// It leaves.
    Release,
}

/// A call under way.
#[derive(Debug)]
pub(crate) struct Call {
    lane: Arc<Lane>,
    _permit: OwnedSemaphorePermit,
}

impl Call {
    /// The database has answered.
    pub(crate) fn answered(self) {
        self.lane.progress.answered();
    }
}

impl Lanes {
    /// Waits for the turn of a call about a name. `None` when no call about it was answered for `limit`.
    pub(crate) async fn begin(&self, name: &Name, kind: Kind, limit: Duration) -> Option<Call> {
        let lane = self.lane(name);
        let semaphore = match kind {
            Kind::Claim => lane.claims.clone(),
            Kind::Release => lane.releases.clone(),
        };
        let permit = match semaphore.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => lane.progress.wait(limit, semaphore.acquire_owned()).await?.ok()?,
        };
        Some(Call { lane, _permit: permit })
    }

    fn lane(&self, name: &Name) -> Arc<Lane> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = known.lanes.get(name).and_then(Weak::upgrade) {
            return lane;
        }
        if known.lanes.len() >= known.most.max(FEW) {
            known.lanes.retain(|_, lane| lane.strong_count() > 0);
            known.most = 2 * known.lanes.len();
        }
        let semaphore = || Arc::new(Semaphore::new(ABREAST));
        let lane =
            Arc::new(Lane { claims: semaphore(), releases: semaphore(), progress: Progress::default() });
        known.lanes.insert(name.clone(), Arc::downgrade(&lane));
        lane
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(50);

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[tokio::test]
    async fn few_calls_about_a_name_are_under_way_and_releases_do_not_wait_for_claims() {
        let lanes = Lanes::default();
        let begin = |text: &str, kind| {
            let (lanes, name) = (&lanes, name(text));
            async move { lanes.begin(&name, kind, LIMIT).await }
        };
        let first = begin("a", Kind::Claim).await.unwrap();
        let _second = begin("a", Kind::Claim).await.unwrap();
        assert!(begin("a", Kind::Claim).await.is_none(), "a third call is under way");
        assert!(begin("a", Kind::Release).await.is_some(), "a release waits for claims");
        assert!(begin("b", Kind::Claim).await.is_some(), "another name waits");
        first.answered();
        assert!(begin("a", Kind::Claim).await.is_some(), "a turn that is over is not given to the next");
    }

    #[tokio::test]
    async fn names_that_nobody_uses_are_forgotten() {
        let lanes = Lanes::default();
        let _kept = lanes.begin(&name("kept"), Kind::Claim, LIMIT).await;
        for n in 0..10_000 {
            lanes.begin(&name(&format!("{n}")), Kind::Claim, LIMIT).await;
        }
        let known = lanes.0.lock().unwrap();
        assert!(known.lanes.len() <= FEW && known.lanes.contains_key(&name("kept")));
    }
}
