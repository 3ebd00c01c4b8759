//! Where the servers are, and how to talk to them.

use std::{fmt, path::PathBuf, time::Duration};

/// Where a Redis is and how to use it. Made by [`Config::from_url`] or by the constructors and methods.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) topology: Topology,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) database: u32,
    pub(crate) tls: Option<Tls>,
    pub(crate) client_name: Option<String>,
    pub(crate) connect_timeout: Duration,
    pub(crate) timeout: Duration,
    pub(crate) connections: usize,
    pub(crate) layout: Layout,
    pub(crate) prefix: Option<String>,
    pub(crate) replicas: Replicas,
    pub(crate) eviction: Eviction,
}

/// How the servers stand to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Topology {
    /// One address; behind it a node, with replicas or without.
    Single(Address),
    /// Sentinels that know where the master of `service` is.
    Sentinel { sentinels: Vec<Address>, service: String, user: Option<String>, password: Option<Secret> },
    /// Some nodes of a cluster; the others are found through them.
    Cluster(Vec<Address>),
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    pub host: String,
    pub port: u16,
}

/// How locks look in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// A line per name: every mode, first come first served, handed over by push.
    #[default]
    Native,
    /// `SET key value NX PX` and compare-and-delete, as the Redis documentation has it.
    Plain,
}

/// How many replicas must have a grant before it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replicas {
    #[default]
    None,
    Any,
    Majority,
    All,
    Count(u32),
}

/// Whether a server that may evict locks is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    #[default]
    Refused,
    Allowed,
}

/// TLS with verification, always.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificates to trust instead of the system's.
    pub ca: Option<PathBuf>,
    /// The client's own certificate and key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
