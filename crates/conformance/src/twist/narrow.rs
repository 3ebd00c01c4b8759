//! A store that promises less.

use std::sync::Arc;

use bramah_core::{Engine, Modes, Order, Profile};

use super::Twist;

/// Promises these modes and this order at the most.
#[derive(Debug)]
pub struct Narrow {
    /// The most it offers.
    pub modes: Modes,
    /// How it serves.
    pub order: Order,
}

impl Twist for Narrow {
    fn profile(&self, inner: &Arc<dyn Engine>) -> Profile {
        let profile = inner.profile();
        Profile { modes: profile.modes.min(self.modes), order: self.order, ..profile }
    }
}
