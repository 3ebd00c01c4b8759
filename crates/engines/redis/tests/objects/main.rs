//! Redisson's semaphores, permits and latches on one node, a master with sentinels and a cluster: what is on the wire,
//! who is woken, and what is left behind.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod crowds;
mod latch;
mod permits;
mod semaphore;
mod stage;
mod trouble;
