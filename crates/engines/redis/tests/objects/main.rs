//! Redisson's semaphores, permits and latches on one node, a master with sentinels and a cluster: what is on the wire,
//! who is woken, and what is left behind.

mod crowds;
mod latch;
mod permits;
mod semaphore;
mod stage;
mod trouble;
