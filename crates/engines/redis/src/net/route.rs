//! Which server has which slot.

use std::sync::Arc;

use bramah_core::{Error, Result};

use super::{
    cluster::Cluster,
    link::{Hub, Link, Live, Place},
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
    /// Masters that share the slots.
    Cluster(Arc<Cluster>),
}

impl Route {
    /// The node of a slot by what we know, however old that is.
    pub(super) fn known(&self, slot: Slot) -> Option<Arc<Site>> {
        match self {
            Self::One(site) => Some(Arc::clone(site)),
            Self::Cluster(cluster) => cluster.known(slot),
        }
    }

    /// The node of a slot, if nothing has to be looked up for it.
    pub(super) fn ready(&self, slot: Slot) -> Option<Arc<Site>> {
        match self {
            Self::One(site) => Some(Arc::clone(site)),
            Self::Cluster(cluster) => cluster.ready(slot),
        }
    }

    /// The connection for calls of a slot with this number, while it lives. A node that a server has sent us to for once
    /// may have answered over it.
    pub(super) fn over(&self, slot: Slot, wire: u64) -> Option<Live> {
        let with =
            |site: &Arc<Site>| site.link(Lane::Calls, slot).now().filter(|live| live.wire.id() == wire);
        self.known(slot).as_ref().and_then(with).or_else(|| self.known_sites().iter().find_map(with))
    }

    /// The node of a slot.
    pub(super) async fn site(&self, slot: Slot, trace: &mut Trace) -> Result<Arc<Site>> {
        match self {
            Self::One(site) => Ok(Arc::clone(site)),
            Self::Cluster(cluster) => Box::pin(cluster.site(slot, trace)).await,
        }
    }

    /// Every node that has keys.
    pub(super) async fn sites(&self) -> Result<Vec<Arc<Site>>> {
        match self {
            Self::One(site) => Ok(vec![Arc::clone(site)]),
            Self::Cluster(cluster) => Box::pin(cluster.masters()).await,
        }
    }

    /// Every node that we may be connected to.
    pub(super) fn known_sites(&self) -> Vec<Arc<Site>> {
        match self {
            Self::One(site) => vec![Arc::clone(site)],
            Self::Cluster(cluster) => cluster.sites(),
        }
    }

    /// The node that a server has sent us to; none where there is only one.
    pub(super) fn moved(&self, slot: Slot, to: &str, from: &str) -> Option<Arc<Site>> {
        match self {
            Self::One(_) => None,
            Self::Cluster(cluster) => cluster.moved(slot, to, from),
        }
    }

    /// The node that a server has sent us to, for once.
    pub(super) fn elsewhere(&self, to: &str, from: &str) -> Option<Arc<Site>> {
        match self {
            Self::One(_) => None,
            Self::Cluster(cluster) => cluster.elsewhere(to, from),
        }
    }

    /// Something does not fit what we know: look again before the next request.
    pub(super) fn doubt(&self) {
        match self {
            Self::One(_) => {}
            Self::Cluster(cluster) => cluster.doubt(),
        }
    }

    /// Why it cannot be found out who has a slot, if so.
    pub(super) fn trouble(&self) -> Option<Error> {
        match self {
            Self::One(_) => None,
            Self::Cluster(cluster) => cluster.trouble(),
        }
    }

    /// Whom it leads to, for errors.
    pub(super) fn name(&self) -> Arc<str> {
        match self {
            Self::One(site) => Arc::clone(&site.node().0),
            Self::Cluster(cluster) => cluster.name(),
        }
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }
}
