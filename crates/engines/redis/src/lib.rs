//! The Redis engine.
#![allow(dead_code, reason = "under construction")]

mod config;
mod driver;
mod ears;
mod engine;
mod error;
mod layout;
mod net;
mod preflight;
mod protocol;
mod renewal;
mod script;
mod survey;
mod text;
mod url;

pub use config::{Address, Config, Eviction, Layout, Replicas, Secret, Tls, Topology};
pub use engine::Redis;

/// For `cargo xtask bench redis`, and nobody else.
#[doc(hidden)]
pub mod bench {
    pub use crate::layout::enter_and_leave;
}
