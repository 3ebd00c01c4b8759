//! Locks on etcd.
//!
//! A lock is a line of keys, in the order in which etcd created them; each hangs from the lease of its session. It is the protocol of
//! etcd's own concurrency package, so `etcdctl lock` and Go programs stand in the same lines:
//!
//! ```text
//! <prefix><name>/<lease>             a claim on a mutex, the lease in hex
//! <prefix><name>/<lease>.<seq>       a claim of a reader, a writer or a permit
//! <prefix>/bramah/floor/<name>       a fence that later ones have to be above (only if a quorum raised one)
//! <prefix>/bramah/broken/<name>      the last hold that was ended by force
//! ```
//!
//! | what happens | what becomes of it |
//! |---|---|
//! | a process dies | its lease runs out: the ttl and the margin later its keys are gone, and the next is told |
//! | it stands still for longer than its ttl | the same; when it goes on, it knows that it lost the lock before it does anything else |
//! | a member dies or is cut off | another one is asked; watches go on there where they were |
//! | the leader changes | leases begin anew with the new leader: a dead holder is kept up to its ttl longer |
//! | no majority is left | nothing is granted and nothing renewed; holders lose their locks by their own clocks |
//! | etcd is restarted | keys and leases are there still |
//! | a clock jumps | nothing: leases go by etcd's monotonic clock, deadlines by ours; only the ages in listings are wrong |
//! | a lease is revoked by hand | its holders and waiters are told by their watches |
//!
//! [`proto`] has the calls and messages. It is generated from the `.proto` files of etcd, which lie in `proto/`, and is checked in: to
//! build this takes no protoc.

mod behind;
pub mod checkup;
mod claims;
mod condition;
mod config;
mod engine;
mod error;
mod layout;
mod lease;
mod leaving;
mod net;
mod ops;
pub mod proto;
mod queue;
mod renewal;
mod room;
mod survey;
mod turnstile;
mod value;
mod watches;
mod wishes;

use std::sync::Arc;

use bramah_core::{Engine, Guard, Result};
use bramah_remote::{Shelf, Shelved};

pub use condition::Condition;
pub use config::Config;
use engine::Inner;

/// Locks in etcd. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Etcd(Arc<Inner>);

impl Etcd {
    /// The engine for a URL; see [`Config::from_url`]. While one for the same URL is in use in this process, it is the same, with
    /// its connections.
    ///
    /// # Errors
    /// `Invalid` for a URL that is not understood, or files that are not good. Nothing is connected to yet.
    pub fn from_url(url: &str) -> Result<Self> {
        static KNOWN: Shelf<Etcd> = Shelf::new();
        KNOWN.get(url, || Self::new(&Config::from_url(url)?))
    }

    /// The engine for settings of your own.
    ///
    /// # Errors
    /// `Invalid` for files that are not good, `Unavailable` if no thread can be had for it. Nothing is connected to yet.
    pub fn new(config: &Config) -> Result<Self> {
        Ok(Self(Arc::new(Inner::new(config.clone())?)))
    }

    /// What is true in etcd for as long as this guard's lock is held: put it among the comparisons of a transaction of your own, and
    /// that is done under the lock or not at all, however late it arrives. `None` for a guard that is lost, or not of this engine.
    pub fn guard_condition(&self, guard: &Guard) -> Option<Condition> {
        self.0.condition(guard)
    }
}

impl Shelved for Etcd {
    type Inner = Inner;

    fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    fn of(inner: Arc<Inner>) -> Self {
        Self(inner)
    }
}

impl From<Etcd> for Arc<dyn Engine> {
    fn from(etcd: Etcd) -> Self {
        Arc::new(etcd)
    }
}
