//! The seam between the protocol and the servers.
//!
//! Above it: what is asked, in which words and scripts, and what the answers mean ([`protocol`](crate::protocol),
//! [`layout`](crate::layout)). Below it: connections, topologies, time-outs, what may be sent again ([`net`](crate::net)).
//! A model server in a simulation is another driver.
//!
//! # What a driver promises
//! - A request is carried out at most once, or the answer is an error. `Unavailable` is the only one that leaves open
//!   whether it was carried out; a driver sends again by itself only what the server said it did not carry out (MOVED,
//!   ASK, TRYAGAIN, LOADING, BUSY, CLUSTERDOWN, MASTERDOWN, READONLY, NOSCRIPT).
//! - Requests of one [lane](Lane) and one slot go over one connection in the order in which they were first polled, as
//!   long as that connection lives. Those that wait for one to be made go in any order, and nothing may depend on theirs: whoever
//!   has to be behind another waits for its answer.
//! - Every future ends by itself within the request's patience, and needs no runtime, to be made or to be polled.
//! - Connections live on no caller's runtime: one that is blocked or has ended holds up nobody else.
//! - What the server pushes reaches the [`Ear`] in the order it came. When a connection that has been listened on ends,
//!   moves or loses a subscription, the ear hears [`Push::Broken`], and [`Driver::is_listening`] is false until somebody
//!   listens again.

use std::{future::Future, sync::Arc, time::Duration};

use bramah_core::Result;
use redis::{Cmd, Value};

use crate::script::Script;

/// Which of the 16384 parts of the key space a key is in. Outside of a cluster every slot is served by the same node.
pub(crate) type Slot = u16;

/// Which connection a request goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// What callers ask.
    Calls,
    /// What the keeper asks, over a connection of its own: a renewal waits behind no call.
    Keep,
}

/// One command, for one node.
#[derive(Debug)]
pub(crate) struct Request {
    /// The slot of its keys.
    pub(crate) slot: Slot,
    pub(crate) lane: Lane,
    /// How long to wait for the answer, connecting and what is sent again included.
    pub(crate) patience: Duration,
    /// The whole command; for a script `EVALSHA sha numkeys …`.
    pub(crate) cmd: Cmd,
    /// The script that `cmd` calls, if it does: to be loaded where the server does not know it.
    pub(crate) script: Option<Arc<Script>>,
    /// Have the server tell when a key that the command *reads* changes ([`Push::Changed`]), once.
    pub(crate) track: bool,
    /// To be carried out only by a server that has surely run for so long; another one's answer is `Unavailable`.
    pub(crate) age: Option<Duration>,
}

/// What a server said without being asked.
#[derive(Debug)]
pub(crate) enum Push {
    /// A message to a channel that was listened on.
    Message { channel: Vec<u8>, payload: Vec<u8> },
    /// A tracked key was changed, removed or has expired.
    Changed { key: Vec<u8> },
    /// Something may have been missed: ask about everything.
    Broken,
}

/// Who hears pushes. Called on a connection's own task: it must not block.
pub(crate) trait Ear: Send + Sync + 'static {
    fn hear(&self, push: Push);
}

/// One of the nodes that have keys, for what has to be asked everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Node(pub(crate) Arc<str>);

/// Carries requests to servers.
pub(crate) trait Driver: Send + Sync + 'static {
    /// Carries a request out and gives the answer. An error that the server answered is an error here.
    fn send(&self, request: Request) -> impl Future<Output = Result<Value>> + Send + 'static;

    /// The same, and which connection the answer came over.
    fn send_named(&self, request: Request) -> impl Future<Output = Result<(Value, u64)>> + Send + 'static;

    /// The address of the server that this connection for `slot` leads to, while it lives.
    fn server(&self, slot: Slot, wire: u64) -> Option<Arc<str>>;

    /// Carries a request out over that connection. `None`: it was not, there or anywhere.
    fn send_over(
        &self,
        wire: u64,
        request: Request,
    ) -> impl Future<Output = Option<Result<Value>>> + Send + 'static;

    /// Sends a pipeline of requests of one slot and lane over one connection, in order, all at once. The answer of each
    /// in its place; one that failed does not keep the others from being answered.
    fn send_all(&self, requests: Vec<Request>) -> impl Future<Output = Vec<Result<Value>>> + Send + 'static;

    /// Whether messages to `channel` reach us now, on a connection to the node of `slot`. Cheap.
    fn is_listening(&self, slot: Slot, channel: &str) -> bool;

    /// Subscribes to `channel` there: with SSUBSCRIBE in a cluster, else with SUBSCRIBE. Harmless when it is already.
    fn listen(
        &self,
        slot: Slot,
        channel: Arc<str>,
        patience: Duration,
    ) -> impl Future<Output = Result<()>> + Send + 'static;

    /// Unsubscribes from every channel that ends with `suffix`, where we are connected; errors do not matter.
    fn forget(&self, suffix: &str) -> impl Future<Output = ()> + Send + 'static;

    /// The nodes that have keys: one, or the masters of a cluster.
    fn nodes(&self, patience: Duration) -> impl Future<Output = Result<Vec<Node>>> + Send + 'static;

    /// Asks one node a command without keys, or one that the node is known to serve the keys of.
    fn ask(
        &self,
        node: &Node,
        cmd: Cmd,
        patience: Duration,
    ) -> impl Future<Output = Result<Value>> + Send + 'static;

    /// Has every node tell of any change to keys that start with `prefix`, over connections made for it. The wake fires
    /// on the first one, and when such a connection ends. What was set up ends with the wake.
    fn watch(
        &self,
        prefix: Vec<u8>,
        patience: Duration,
    ) -> impl Future<Output = Result<bramah_core::Wake>> + Send + 'static;

    /// Whether keys of different slots may live on different nodes: then channels and marks carry a slot's tag, and
    /// messages are sharded.
    fn is_cluster(&self) -> bool;
}
