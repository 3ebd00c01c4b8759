//! What requests are made of.

use bramah_core::Wait;

use crate::{
    config::{Layout, PubSub},
    driver::Slot,
};

/// What names and scripts depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) layout: Layout,
    pub(crate) prefix: Option<&'a str>,
    pub(crate) cluster: bool,
    pub(crate) connections: usize,
    pub(crate) fair: bool,
    pub(crate) pubsub: PubSub,
}

/// How a claim enters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) wait: Wait,
    /// Whether a grant is written down with its fence.
    pub(crate) stamp: bool,
    /// Whether others of this process watch the key, who want to be told of its end even if this one gets it.
    pub(crate) others: bool,
}

/// How a claim leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way<'a> {
    /// It is thought to be alone. In a cluster nobody is made the holder.
    Alone,
    /// Others are thought to wait: the next one is made the holder.
    Line,
    /// It is broken, and this is the record of that. In a cluster nobody is made the holder.
    Broken(&'a str),
}

/// Whether a call in a cluster names the mark, and so can make somebody a holder. While a slot moves, such a call is refused
/// as long as its keys are on different nodes. Outside of a cluster nothing moves, and every call can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Named,
    Unnamed,
}

/// Where a lock is.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) key: String,
    pub(crate) slot: Slot,
}
