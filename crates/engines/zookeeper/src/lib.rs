//! Locks on ZooKeeper.

mod base;
mod claims;
mod config;
mod desk;
mod engine;
mod entry;
mod error;
mod fence;
mod flights;
mod guarded;
mod line;
mod names;
mod office;
mod permits;
mod record;
mod room;
mod sentinel;
mod survey;
mod tls;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use bramah_core::{Engine, Result};

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
        static KNOWN: Mutex<Vec<(String, Weak<Inner>)>> = Mutex::new(Vec::new());
        let config = Config::from_url(url)?;
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, engine)| engine.strong_count() > 0);
        let same = known.iter().find(|(other, _)| other == url);
        if let Some(engine) = same.and_then(|(_, engine)| engine.upgrade()) {
            return Ok(Self(engine));
        }
        let engine = Self::new(&config)?;
        known.push((url.to_owned(), Arc::downgrade(&engine.0)));
        Ok(engine)
    }

    /// The engine for settings of your own.
    ///
    /// # Errors
    /// `Unavailable` if no thread can be had for it. Nothing is connected to yet.
    pub fn new(config: &Config) -> Result<Self> {
        Ok(Self(Arc::new(Inner::new(Base::new(config.clone())?))))
    }
}

impl From<ZooKeeper> for Arc<dyn Engine> {
    fn from(zookeeper: ZooKeeper) -> Self {
        Arc::new(Locks(zookeeper.0))
    }
}
