//! The Redis engine.
#![allow(dead_code, reason = "under construction")]

mod config;
mod driver;
mod error;
mod net;
mod script;
mod url;

pub use config::{Address, Config, Eviction, Layout, Replicas, Secret, Tls, Topology};
