//! Beside Redisson itself, in Java, on the same keys: its current release and an older one on one node, and the current
//! one on a cluster.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod asked;
mod exclusive;
mod gone;
mod java;
mod objects;
mod order;
mod peer;
mod permits;
mod readers;
mod world;

use std::time::Duration;

use world::now;

/// How long anything may take that is not what a test is about. A busy machine may be very slow.
const PATIENCE: Duration = Duration::from_secs(30);

/// Far less than any ttl of a lock that somebody waits for.
const AT_ONCE: Duration = Duration::from_secs(5);

/// A ttl that no test waits for.
const LONG: Duration = Duration::from_millis(LONG_MS);
const LONG_MS: u64 = 25_000;
