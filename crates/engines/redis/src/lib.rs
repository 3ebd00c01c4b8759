//! The Redis engine.
#![allow(dead_code, reason = "under construction")]

pub mod checkup;
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
