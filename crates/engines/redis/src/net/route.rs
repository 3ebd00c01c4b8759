//! Which server has which slot.

use std::sync::Arc;

use bramah_core::{Error, Result};

use super::{
    link::{Hub, Link, Place},
    trace::Trace,
};
use crate::driver::{Lane, Node, Slot};

/// The connections to one node.
pub(super) struct Site {
    node: Node,
    place: Place,
    calls: Box<[Arc<Link>]>,
    keep: Arc<Link>,
}

impl Site {
    pub(super) fn new(hub: &Arc<Hub>, place: &Place, name: Arc<str>, connections: usize) -> Arc<Self> {
        let link = || Link::new(Arc::clone(hub), place.clone());
        Arc::new(Self {
            node: Node(name),
            place: place.clone(),
            calls: (0..connections.max(1)).map(|_| link()).collect(),
            keep: link(),
        })
    }

    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    pub(super) fn link(&self, lane: Lane, slot: Slot) -> &Arc<Link> {
        match lane {
            Lane::Calls => &self.calls[usize::from(slot) % self.calls.len()],
            Lane::Keep => &self.keep,
        }
    }

    /// The links that are listened on.
    pub(super) fn calls(&self) -> &[Arc<Link>] {
        &self.calls
    }
}

/// How the servers stand to each other.
pub(super) enum Route {
    /// One node for everything: a fixed one, or the master of a service.
    One(Arc<Site>),
}

impl Route {
    /// The node of a slot, as far as it is known.
    pub(super) fn known(&self, _slot: Slot) -> Option<Arc<Site>> {
        match self {
            Self::One(site) => Some(Arc::clone(site)),
        }
    }

    /// The node of a slot.
    pub(super) async fn site(&self, _slot: Slot, _trace: &mut Trace) -> Result<Arc<Site>> {
        match self {
            Self::One(site) => Ok(Arc::clone(site)),
        }
    }

    /// Every node that has keys.
    pub(super) async fn sites(&self, _trace: &mut Trace) -> Result<Vec<Arc<Site>>> {
        match self {
            Self::One(site) => Ok(vec![Arc::clone(site)]),
        }
    }

    /// Every node that we may be connected to.
    pub(super) fn known_sites(&self) -> Vec<Arc<Site>> {
        match self {
            Self::One(site) => vec![Arc::clone(site)],
        }
    }

    /// The node that a server has sent us to; none where there is only one.
    pub(super) fn moved(&self, _slot: Slot, _to: &str, _from: &str) -> Option<Arc<Site>> {
        match self {
            Self::One(_) => None,
        }
    }

    /// The node that a server has sent us to, for once.
    pub(super) fn elsewhere(&self, _to: &str, _from: &str) -> Option<Arc<Site>> {
        match self {
            Self::One(_) => None,
        }
    }

    /// Something does not fit what we know: look again before the next request.
    pub(super) fn doubt(&self, _error: &Error) {
        match self {
            Self::One(_) => {}
        }
    }

    pub(super) fn is_cluster(&self) -> bool {
        match self {
            Self::One(_) => false,
        }
    }
}
