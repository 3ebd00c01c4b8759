//! Redlock beside other people's clients, each a process of its own, on masters that know nothing of each other:
//! node-redlock and pottery on the plain layout, redis-py on some of the masters alone, and the locks of Redisson on its own.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../redisson/asked.rs"]
mod asked;
#[path = "../peers/driven.rs"]
mod driven;
mod fleet;
#[path = "../redisson/java.rs"]
#[allow(dead_code, reason = "the tests of Redisson on one store use the rest of it")]
mod java;
mod ours;
mod plain;
mod redis_py;
mod redisson;

use std::time::Duration;

use bramah_core::{Clock, Moment};

/// How long anything may take that is not what a test is about. A busy machine may be very slow.
const PATIENCE: Duration = Duration::from_secs(30);

/// Less than it takes a waiter of ours to look by itself.
const AT_ONCE: Duration = Duration::from_millis(350);

/// What a wait may take longer than the ttl which ends it.
const SOON: Duration = Duration::from_secs(3);

fn now() -> Moment {
    Clock::boot().now()
}
