//! The Redis engine.
#![allow(dead_code, reason = "under construction")]

mod config;
mod driver;
mod net;
mod script;

pub use config::{Address, Config, Eviction, Layout, Replicas, Secret, Tls, Topology};
