//! Locks on Redis and Valkey: one node, a master that sentinels watch over, or a cluster.
//!
//! # The native layout
//! A lock is one key. While there is one holder and nobody else it is a string, which Redis itself ends:
//!
//! ```text
//! bramah:{orders/42}   "<session><number>:kept:kind:weight:capacity:ttl:lease:note|fence"     PX ttl
//! ```
//!
//! As soon as somebody waits, or holds beside, the same key is a sorted set, told apart by score:
//!
//! ```text
//! below 0                    a claim that is held          minus its expiry, ms
//! 0 to 4·10^15               F<claim> its fence, X<claim> until when a renewed waiter is kept,
//!                            P<claim> a pushed grant whose lease has not begun, U the capacity in use
//! 4·10^15 and more           a claim that waits            when it entered, µs
//! ```
//!
//! One key has one slot, moves from node to node as a whole, and leaves nothing behind. Beside the locks there are
//! `bramah:mark` (the last fence; in a cluster one in each slot that is used), `bramah:session:<session>` (who is behind a
//! session, never consulted for a grant), `<key>:b` (the record of a break, kept for a day) and the channel
//! `bramah:mark:<session>`, to which the script that removes a claim pushes the grant of the next one.
//!
//! # The plain layout
//! `SET key value NX PX` and compare-and-delete, with the name itself as the key, after a prefix if there is one: what
//! the Redis documentation describes and clients in every language do. Those who wait are told by invalidations of
//! client-side caching.
//!
//! # Redisson's layout
//! The hashes, lists, sorted sets, counters and messages of Redisson's own locks, so that Java services contend for the
//! same ones. [`redisson`] has its other objects.
//!
//! # What happens when
//! - **a client crashes**: what it held is free when its ttl is over; its places in line and what is granted to it there
//!   go on after five seconds ([`Claim::MAX_KEPT`](bramah_core::Claim::MAX_KEPT)).
//! - **a server crashes**: what it had on disk is there again. What it had not is forgotten: holders learn with their next
//!   renewal, and somebody else may hold meanwhile. Fences go on rising.
//! - **a partition**: a holder that cannot renew declares itself lost before its ttl is over; nobody is granted before.
//! - **a pause longer than the ttl**: as a partition; the fence stops what the paused process still writes.
//! - **a clock that jumps** on the server ends leases early, or late. Fences stay in order unless it jumps back by more
//!   than an outage in which the mark was lost.
//! - **a failover** can forget grants that had not reached the replica; see [`Replicas`] for what can be done about it,
//!   and what not.
//!
//! Beside the locks, [`data`] has typed values, maps, sets and lists on the same servers.
//!
//! `docs/engines/redis.md` in the repository has all of it, with options, rights, and a table of failures.

pub mod checkup;
mod config;
pub mod data;
mod driver;
mod ears;
mod engine;
mod error;
mod exits;
mod hints;
mod layout;
mod net;
mod preflight;
mod protocol;
pub mod redisson;
pub mod redlock;
mod renewal;
mod replicas;
mod script;
mod survey;
mod text;
mod url;

pub use config::{Address, Config, Eviction, Layout, PubSub, Replicas, Restart, Secret, Tls, Topology};
pub use engine::Redis;

/// For `cargo xtask bench redis`, and nobody else.
#[doc(hidden)]
pub mod bench {
    pub use crate::layout::enter_and_leave;
}
