//! What is known of one claim of ours.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use bramah_core::{Claim, Fence, Moment};
use tokio::sync::watch;

use crate::names;

/// A node of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) path: String,
    /// The number of the transaction that created it.
    pub(crate) czxid: i64,
}

impl Node {
    /// Its name in its folder.
    pub(crate) fn leaf(&self) -> &str {
        self.path.rsplit_once('/').map_or(self.path.as_str(), |(_, leaf)| leaf)
    }

    /// The folder that it is in.
    pub(crate) fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// Its number there.
    pub(crate) fn number(&self) -> Option<i64> {
        names::Kid::parse(self.leaf()).and_then(|kid| kid.number().parse().ok())
    }
}

/// What we believe of it. What is true is in ZooKeeper.
#[derive(Clone, Debug)]
pub(crate) enum Seat {
    /// Nothing was sent.
    New,
    /// Something was sent, and whether it was done is not known. Its nodes are found by their protection id.
    Doubt,
    Waiting(Node),
    Held {
        /// One, or as many as it has permits.
        nodes: Vec<Node>,
        fence: Option<Fence>,
    },
    Gone,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) uuid: String,
    /// As it was entered, with the note that was last written.
    claim: Mutex<Arc<Claim>>,
    seat: Mutex<Seat>,
    /// When core last asked for it.
    heard: Mutex<Moment>,
    /// The node that it waits for while that is watched, and how many were ahead when it was looked.
    behind: Mutex<Option<(String, usize)>>,
    /// Whether a node of it went that it had.
    gone: watch::Sender<bool>,
    /// Whether it counts as gone although its nodes may be there.
    void: AtomicBool,
    /// One call about a claim at a time.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

impl Entry {
    pub(crate) fn new(claim: Arc<Claim>, now: Moment) -> Self {
        let uuid = names::uuid(claim.id);
        Self {
            uuid,
            behind: Mutex::default(),
            gone: watch::Sender::new(false),
            void: AtomicBool::new(false),
            claim: Mutex::new(claim),
            seat: Mutex::new(Seat::New),
            heard: Mutex::new(now),
            turn: tokio::sync::Mutex::default(),
        }
    }

    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn claim(&self) -> Arc<Claim> {
        Self::lock(&self.claim).clone()
    }

    pub(crate) fn rename(&self, claim: Arc<Claim>) {
        *Self::lock(&self.claim) = claim;
    }

    pub(crate) fn hear(&self, now: Moment) {
        *Self::lock(&self.heard) = now;
    }

    pub(crate) fn heard(&self) -> Moment {
        *Self::lock(&self.heard)
    }

    pub(crate) fn seat(&self) -> Seat {
        Self::lock(&self.seat).clone()
    }

    /// Whether this is a node that it has, as far as we know.
    pub(crate) fn has(&self, path: &str) -> bool {
        match &*Self::lock(&self.seat) {
            Seat::Waiting(node) => node.path == path,
            Seat::Held { nodes, .. } => nodes.iter().any(|node| node.path == path),
            Seat::New | Seat::Doubt | Seat::Gone => false,
        }
    }

    /// Gives up a hold that its session was not proved for. Whether that is new.
    pub(crate) fn annul(&self) -> bool {
        !self.void.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_void(&self) -> bool {
        self.void.load(Ordering::Acquire)
    }

    /// A node that it had has gone.
    pub(crate) fn tell_gone(&self) {
        self.gone.send_replace(true);
    }

    /// Ends when a node has gone that it had.
    pub(crate) fn gone(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut gone = self.gone.subscribe();
        async move {
            if gone.wait_for(|gone| *gone).await.is_err() {
                // Nobody keeps it any more, and nobody waits for it.
                std::future::pending::<()>().await;
            }
        }
    }

    pub(crate) fn behind(&self) -> Option<(String, usize)> {
        Self::lock(&self.behind).clone()
    }

    pub(crate) fn set_behind(&self, node: Option<(String, usize)>) {
        *Self::lock(&self.behind) = node;
    }

    pub(crate) fn sit(&self, seat: Seat) {
        *Self::lock(&self.seat) = seat;
    }
}
