//! Locks on ZooKeeper, in the layout of Curator's recipes.
//!
//! # What lies in ZooKeeper
//! ```text
//! /<chroot>/                                     created if it is not there, and stays
//!   orders/42/                                   a lock, a container node
//!     _c_<uuid>-lock-0000000007                  a mutex: the first holds, the others wait (mutex=latch: -latch-)
//!   report/
//!     _c_<uuid>-__READ__0000000003               a read-write lock
//!     _c_<uuid>-__WRIT__0000000004
//!   pool/
//!     locks/_c_<uuid>-lock-0000000009            a semaphore: who waits
//!     leases/_c_<uuid>-lease-0000000002          who holds, a node for each permit
//!   %bramah/floor                                the largest fence that was asked for
//!   %bramah/broken/<name>                        how a lock was last ended by force
//! ```
//! The nodes of claims are ephemeral, and belong to the session with ZooKeeper that each session of ours has. The uuid is a hash of the
//! claim's id.
//!
//! # What happens when
//! | | |
//! |---|---|
//! | a client crashes | its nodes go after 1.5 ttl, when its session expires |
//! | it is paused for longer than its ttl | it knows that it has lost its locks before ZooKeeper drops the session |
//! | a member crashes, or the leader | sessions go on at another one; what was not answered is looked up by its uuid |
//! | a partition | who has no majority on its side loses its locks after the ttl, and knows; the other side grants them after that |
//! | a clock jumps | nothing |
//!
//! The page is `docs/engines/zookeeper.md`.

mod base;
mod change;
pub mod checkup;
mod claims;
mod config;
mod creation;
mod desk;
mod engine;
mod entry;
mod error;
mod fence;
mod guarded;
mod leaving;
mod line;
mod names;
mod permits;
mod record;
mod room;
mod sentinel;
mod solitude;
mod survey;
mod tls;
mod unchanged;

use std::sync::Arc;

use bramah_core::{Engine, Result};
use bramah_remote::{Shelf, Shelved};

use base::Base;
pub use config::{Access, Config};
use engine::{Inner, Locks};

/// Locks on ZooKeeper. Clones share their sessions.
#[derive(Clone, Debug)]
pub struct ZooKeeper(Arc<Inner>);

impl ZooKeeper {
    /// The engine for a URL; see [`Config::from_url`]. While one for the same URL is in use in this process, it is the same.
    ///
    /// # Errors
    /// `Invalid` for a URL that is not understood. Nothing is connected to yet.
    pub fn from_url(url: &str) -> Result<Self> {
        static KNOWN: Shelf<ZooKeeper> = Shelf::new();
        KNOWN.get(url, || Self::new(&Config::from_url(url)?))
    }

    /// The engine for settings of your own.
    ///
    /// # Errors
    /// `Unavailable` if no thread can be had for it. Nothing is connected to yet.
    pub fn new(config: &Config) -> Result<Self> {
        Ok(Self(Arc::new(Inner::new(Base::new(config.clone())?))))
    }
}

impl Shelved for ZooKeeper {
    type Inner = Inner;

    fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    fn of(inner: Arc<Inner>) -> Self {
        Self(inner)
    }
}

impl From<ZooKeeper> for Arc<dyn Engine> {
    fn from(zookeeper: ZooKeeper) -> Self {
        Arc::new(Locks(zookeeper.0))
    }
}
