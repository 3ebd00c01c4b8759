//! Processes that count through the command while the servers fail over, die, freeze and reshard.
//!
//! `cargo xtask soak topologies` does it for longer. Where the store keeps every grant over the faults, the count is exact, the
//! fences rise, and every run ends with 0, or with 79 if it lost the lock. Where it does not, double holds are counted, and a
//! register that checks fences is exact all the same.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::disallowed_methods, reason = "the deadlines of tests are no deadlines of locks")]

#[path = "../cli/support.rs"]
#[allow(dead_code, reason = "it is the support of other tests, too")]
mod support;

mod counting;
mod databases;
mod ensembles;
mod redis;
