//! How fences are made.
//!
//! A fence is the number of the transaction that created the claim's node, which rises over the whole ensemble. That number is the
//! entry's and not the grant's: enough where claims are served in the order of their entry, until somebody asks for a larger one
//! ([`Claim::floor`]). Then the largest that was asked for stands in a node of its own, and a claim whose number is not larger gets the
//! next one after it.

use std::{
    pin::Pin,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bramah_core::{Claim, Fence, Result};
use zookeeper_client::{Client, CreateMode, Error as Said, MultiWriteError, OneshotWatcher};

use crate::{base::Base, entry::Node, record, room::Room, unchanged::Unchanged};

/// How often somebody else may be faster.
const TRIES: usize = 64;

type Asked<'r> = Pin<Box<dyn Future<Output = Result<Option<(Floor, OneshotWatcher)>, Said>> + Send + 'r>>;

/// What stands in the node of the largest fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Floor {
    /// Zero if nobody ever asked for one.
    fence: u64,
    /// Of the node, if it is there.
    version: Option<i32>,
}

impl Floor {
    /// Reads the answer to a question for the node.
    pub(crate) fn read(answer: Result<(Vec<u8>, zookeeper_client::Stat), Said>) -> Result<Self, Said> {
        match answer {
            Ok((data, stat)) => {
                let fence = std::str::from_utf8(&data).ok().and_then(|text| text.parse().ok());
                Ok(Self { fence: fence.unwrap_or(0), version: Some(stat.version) })
            }
            Err(Said::NoNode) => Ok(Self::default()),
            Err(said) => Err(said),
        }
    }
}

/// What a session knows of that node, while its watch on it has not fired: whoever looks here after the answer to a write of his own
/// sees what he would have read behind that write.
#[derive(Default)]
pub(crate) struct Known {
    seen: Mutex<Option<(Floor, Unchanged)>>,
    /// Whether the node was there when it was last looked.
    is_there: AtomicBool,
}

impl Known {
    fn get(&self) -> Option<Floor> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (floor, unchanged) = seen.as_mut()?;
        let floor = unchanged.holds().then_some(*floor);
        if floor.is_none() {
            *seen = None;
        }
        floor
    }

    fn set(&self, floor: Floor, changed: OneshotWatcher) {
        self.is_there.store(floor.version.is_some(), Ordering::Relaxed);
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some((floor, changed.into()));
    }
}

/// The fence of a node's creation.
pub(crate) fn of(node: &Node) -> Fence {
    Fence::new(u64::try_from(node.czxid).unwrap_or(0))
}

impl Room {
    /// The largest fence that was asked for, as it was when this was awaited or later. It is asked for at once if it is not known.
    pub(crate) fn floor<'r>(
        &'r self,
        client: &'r Client,
    ) -> impl Future<Output = Result<Floor, Said>> + Send + 'r {
        let asked = self.floor.get().is_none().then(|| self.ask_floor(client));
        async move {
            let mut asked = asked;
            for _ in 0..TRIES {
                if let Some(asked) = asked.take()
                    && let Some((floor, changed)) = asked.await?
                {
                    self.floor.set(floor, changed);
                    // It was read behind what was sent before it, so it counts although it may have changed since.
                    return Ok(floor);
                }
                if let Some(floor) = self.floor.get() {
                    return Ok(floor);
                }
                asked = Some(self.ask_floor(client));
            }
            Err(Said::Throttled)
        }
    }

    /// Reads the node and watches it. None if it came or went meanwhile.
    fn ask_floor<'r>(&'r self, client: &'r Client) -> Asked<'r> {
        let at = self.base.floor();
        if self.floor.is_there.load(Ordering::Relaxed) {
            let read = client.get_and_watch_data(&at);
            return Box::pin(async move {
                match read.await {
                    Ok((data, stat, changed)) => Ok(Some((Floor::read(Ok((data, stat)))?, changed))),
                    Err(Said::NoNode) => {
                        self.floor.is_there.store(false, Ordering::Relaxed);
                        Ok(None)
                    }
                    Err(said) => Err(said),
                }
            });
        }
        let looked = client.check_and_watch_stat(&at);
        Box::pin(async move {
            let (there, changed) = looked.await?;
            self.floor.is_there.store(there.is_some(), Ordering::Relaxed);
            Ok(there.is_none().then(|| (Floor::default(), changed)))
        })
    }

    /// The fence of a grant, or a larger one for a claim that is held. None if its node is gone.
    pub(crate) async fn mint(
        &self,
        client: &Client,
        claim: &Claim,
        node: &Node,
        last: Option<Fence>,
        mut floor: Floor,
    ) -> Result<Option<Fence>, Said> {
        let own = last.unwrap_or_else(|| of(node));
        for _ in 0..TRIES {
            let is_raised = last.is_some() && claim.floor.is_some_and(|wanted| wanted > own);
            // A fence that was given once is not measured again.
            if !is_raised && (last.is_some() || own.get() > floor.fence) {
                return Ok(Some(own));
            }
            let wanted = claim.floor.filter(|_| is_raised).map_or(0, Fence::get);
            let next = wanted.max(floor.fence.saturating_add(1));
            match self.raise(client, claim, node, next, floor).await {
                Ok(true) => return Ok(Some(Fence::new(next))),
                Ok(false) => return Ok(None),
                Err(Said::BadVersion | Said::NodeExists) => {}
                Err(Said::NoNode) if floor.version.is_none() => {
                    self.base.make_parents(client, &self.base.floor()).await?;
                }
                Err(said) => return Err(said),
            }
            floor = Floor::read(client.get_data(&self.base.floor()).await)?;
        }
        Err(Said::BadVersion)
    }

    /// Writes a fence down as the largest, and as this claim's, at once. Whether the claim's node is there.
    async fn raise(
        &self,
        client: &Client,
        claim: &Claim,
        node: &Node,
        next: u64,
        floor: Floor,
    ) -> Result<bool, Said> {
        let (base, at): (&Base, String) = (&self.base, self.base.floor());
        let text = next.to_string();
        let mut writer = client.new_multi_writer();
        match floor.version {
            Some(version) => writer.add_set_data(&at, text.as_bytes(), Some(version))?,
            None => writer.add_create(&at, text.as_bytes(), &base.with(CreateMode::Persistent))?,
        }
        let line = record::encode(claim, Some(Fence::new(next)), Some(&self.opening.about));
        writer.add_set_data(&node.path, &line, None)?;
        match writer.commit().await {
            Ok(_) => Ok(true),
            Err(MultiWriteError::OperationFailed { index: 1, source: Said::NoNode }) => Ok(false),
            Err(
                MultiWriteError::OperationFailed { source, .. } | MultiWriteError::RequestFailed { source },
            ) => Err(source),
        }
    }
}
