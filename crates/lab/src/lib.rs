//! Real servers for tests and benchmarks, and a network that misbehaves on request.
//!
//! - [`servers`] gets the programs: from `PATH`, or from Debian's packages, without root and without installing them.
//! - [`Redis`], [`Replicated`], [`Sentinels`] and [`Cluster`] run them on free ports of 127.0.0.1. They end when they are
//!   dropped, and also when the process that started them is killed.
//! - [`Postgres`], [`MariaDb`] and [`PgBouncer`] do the same for databases.
//! - [`ZooKeeper`] and [`Etcd`] are ensembles, whose members can be cut off from each other.
//! - [`Proxy`] stands before a server and holds, drops or delays what passes, or loses the answer to a request.
//! - [`ShiftedClock`] moves the time of the day of one server, or of one program.
//! - [`interop`] gets the clients of other people, and reports which of them were really run.
//!
//! Everything is plain std with threads, so that it serves tests with and without a runtime. What fails is an error of one
//! line that tells what, which, why and what next.
//!
//! ```no_run
//! use bramah_lab::{Redis, servers::Flavor};
//!
//! let redis = Redis::start(Flavor::Redis7)?;
//! redis.cli(&["SET", "key", "value"])?;
//! assert_eq!(redis.cli(&["GET", "key"])?, "value");
//! # Ok::<(), String>(())
//! ```
#![expect(clippy::disallowed_methods, reason = "the deadlines of tests are no deadlines of locks")]

mod address;
mod clock;
mod cluster;
mod console;
mod daemon;
mod etcd;
pub mod interop;
mod mariadb;
mod members;
pub mod note;
mod patience;
mod pgbouncer;
mod port;
mod postgres;
mod processes;
mod proxy;
mod redis;
mod replicated;
mod scratch;
mod sentinels;
pub mod servers;
mod target;
mod template;
#[cfg(feature = "tls")]
mod tls;
mod user;
mod watched;
mod wire;
mod zookeeper;

pub use address::own_address;
pub use clock::ShiftedClock;
pub use cluster::{Cluster, slot_of};
pub use console::Console;
pub use etcd::Etcd;
pub use mariadb::MariaDb;
pub use members::Members;
pub use patience::until;
pub use pgbouncer::{PgBouncer, Pooling};
pub use postgres::{How, Postgres};
pub use processes::{freeze, thaw};
pub use proxy::{Counts, Fault, Loss, Proxy};
pub use redis::Redis;
pub use replicated::Replicated;
pub use rustix::process::Signal;
pub use scratch::Scratch;
pub use sentinels::Sentinels;
#[cfg(feature = "tls")]
pub use tls::{Certificates, TlsDatabase, TlsEtcd, TlsRedis, TlsZooKeeper};
pub use wire::{Reply, Wire};
pub use zookeeper::ZooKeeper;
