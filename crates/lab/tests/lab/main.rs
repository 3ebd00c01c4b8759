//! The lab against the servers that it runs.
#![expect(clippy::disallowed_methods, reason = "how long a start took is no deadline of a lock")]

mod cluster;
mod redis;
mod replicated;
mod sentinels;
#[cfg(feature = "tls")]
mod tls;
