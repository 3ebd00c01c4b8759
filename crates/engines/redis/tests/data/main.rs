//! Typed data on real servers: the same on one node, behind sentinels and in a cluster, and read back by redis-cli.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod rig;

mod faults;
mod flavors;
mod keys;
mod killed;
mod lists;
mod maps;
mod scripts;
mod sets;
mod values;
