//! Where the servers are, and how to talk to them.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use bramah_core::{Error, ErrorKind, Result, Session};

/// Where a Redis is and how to use it. Made by [`Config::from_url`] or by the constructors and methods.
///
/// # Examples
/// ```
/// use bramah_redis::{Config, Replicas};
///
/// let config = Config::sentinel([("sentinel-1", 26379), ("sentinel-2", 26379)], "locks")
///     .password("secret")
///     .replicas(Replicas::Majority);
/// let same = Config::from_url("redis+sentinel://:secret@sentinel-1,sentinel-2/locks?replicas=majority")?;
/// assert_eq!(config, same);
/// # Ok::<(), bramah_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub(crate) topology: Topology,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) database: u32,
    pub(crate) tls: Option<Tls>,
    pub(crate) client_name: Option<String>,
    pub(crate) connect_timeout: Duration,
    pub(crate) timeout: Duration,
    /// How long to wait for an answer that concerns a claim, if that is less.
    pub(crate) claim_timeout: Duration,
    pub(crate) connections: usize,
    pub(crate) layout: Layout,
    pub(crate) prefix: Option<String>,
    pub(crate) fair: bool,
    pub(crate) pubsub: PubSub,
    pub(crate) replicas: Replicas,
    pub(crate) eviction: Eviction,
    pub(crate) restart: Restart,
    pub(crate) fences: bool,
}

/// How the servers stand to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Topology {
    /// One address; behind it a node, with replicas or without.
    Single(Address),
    /// Sentinels that know where the master of `service` is.
    Sentinel {
        /// Some of the sentinels.
        sentinels: Vec<Address>,
        /// What they call the master.
        service: String,
        /// The user at the sentinels, if they have users.
        user: Option<String>,
        /// The password at the sentinels.
        password: Option<Secret>,
        /// A file with the password at the sentinels.
        password_file: Option<PathBuf>,
    },
    /// Some nodes of a cluster; the others are found through them.
    Cluster(Vec<Address>),
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// A name or an IP address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl<H: Into<String>> From<(H, u16)> for Address {
    fn from((host, port): (H, u16)) -> Self {
        Self { host: host.into(), port }
    }
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
    /// Redisson's keys, fields, channels and scripts' effects, so that Java services contend for the same locks.
    Redisson,
}

/// How Redisson's waiters in a cluster are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PubSub {
    /// As Redisson finds out by itself: sharded where the server knows that, which all that we work with do.
    #[default]
    Auto,
    /// `SPUBLISH`.
    Sharded,
    /// `PUBLISH`.
    Plain,
    /// Both, for a fleet that does not agree.
    Both,
}

/// How many replicas must have a grant before it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replicas {
    /// The master's word is enough.
    #[default]
    None,
    /// At least one.
    Any,
    /// So many that they and the master are more than half.
    Majority,
    /// Every one that follows.
    All,
    /// This many.
    Count(u32),
}

/// Whether a server that may evict locks is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Eviction {
    /// It is an error.
    #[default]
    Refused,
    /// It is used all the same.
    Allowed,
}

/// Whether a server that was just started grants locks at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Restart {
    /// Yes: it is new, or never forgets.
    #[default]
    Trusted,
    /// No: it may have forgotten who holds what. It grants when the longest ttl or lease is over that it can have granted
    /// before: so long as this, or as [`DEFAULT_MAX_TTL`](Restart::DEFAULT_MAX_TTL) if not said. A longer ttl or lease is
    /// refused. All clients of a server have to agree on it.
    Waits(Option<Duration>),
}

impl Restart {
    /// For how long a server that was just started does not vote if nothing is said: the default ttl of a session.
    pub const DEFAULT_MAX_TTL: Duration = Session::DEFAULT_TTL;
}

/// TLS with verification, always.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificates to trust instead of the system's, as a PEM file.
    pub ca: Option<PathBuf>,
    /// The client's own certificate and key, as PEM files.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The first line of a file, as a password.
pub(crate) fn read_password(path: &Path) -> Result<Secret> {
    let wrong = |why: String| {
        let text = format!("password_file {} {why}", path.display());
        Error::new(ErrorKind::Invalid, text)
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| wrong(format!("cannot be read: {}", crate::error::clean(&error.to_string()))))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.is_empty() || line.contains(['\n', '\r']) {
        return Err(wrong("must hold one line with the password".to_owned()));
    }
    Ok(Secret(line.to_owned()))
}

/// The most connections to one node.
pub(crate) const MOST_CONNECTIONS: usize = 64;

impl Config {
    pub(crate) fn new(topology: Topology) -> Self {
        Self {
            topology,
            user: None,
            password: None,
            password_file: None,
            database: 0,
            tls: None,
            client_name: Some("bramah".to_owned()),
            connect_timeout: Duration::from_secs(2),
            timeout: Duration::from_secs(2),
            claim_timeout: Duration::MAX,
            connections: 1,
            layout: Layout::Native,
            prefix: None,
            fair: false,
            pubsub: PubSub::Auto,
            replicas: Replicas::None,
            eviction: Eviction::Refused,
            restart: Restart::Trusted,
            fences: true,
        }
    }

    /// One node.
    pub fn single(host: impl Into<String>, port: u16) -> Self {
        Self::new(Topology::Single((host, port).into()))
    }

    /// The master that these sentinels name `service`.
    pub fn sentinel(
        sentinels: impl IntoIterator<Item = impl Into<Address>>,
        service: impl Into<String>,
    ) -> Self {
        Self::new(Topology::Sentinel {
            sentinels: sentinels.into_iter().map(Into::into).collect(),
            service: service.into(),
            user: None,
            password: None,
            password_file: None,
        })
    }

    /// The cluster that these nodes belong to.
    pub fn cluster(nodes: impl IntoIterator<Item = impl Into<Address>>) -> Self {
        Self::new(Topology::Cluster(nodes.into_iter().map(Into::into).collect()))
    }

    /// The user to log in as; without one it is `default`.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// The password to log in with.
    #[must_use]
    pub fn password(mut self, password: impl Into<Secret>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// A file of one line with the password. It is read for every connection, so that the password may change.
    #[must_use]
    pub fn password_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.password_file = Some(path.into());
        self
    }

    /// The user at the sentinels. Means nothing without sentinels.
    #[must_use]
    pub fn sentinel_user(mut self, name: impl Into<String>) -> Self {
        if let Topology::Sentinel { user, .. } = &mut self.topology {
            *user = Some(name.into());
        }
        self
    }

    /// The password at the sentinels. Means nothing without sentinels.
    #[must_use]
    pub fn sentinel_password(mut self, secret: impl Into<Secret>) -> Self {
        if let Topology::Sentinel { password, .. } = &mut self.topology {
            *password = Some(secret.into());
        }
        self
    }

    /// A file of one line with the password at the sentinels. Means nothing without sentinels.
    #[must_use]
    pub fn sentinel_password_file(mut self, path: impl Into<PathBuf>) -> Self {
        if let Topology::Sentinel { password_file, .. } = &mut self.topology {
            *password_file = Some(path.into());
        }
        self
    }

    /// The database; 0 if not said. A cluster has only that one.
    #[must_use]
    pub fn database(mut self, database: u32) -> Self {
        self.database = database;
        self
    }

    /// Talks TLS, to the sentinels as well.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// What our connections are called in `CLIENT LIST`: `bramah` if not said, nothing if empty.
    #[must_use]
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.client_name = Some(name.into()).filter(|name: &String| !name.is_empty());
        self
    }

    /// How long an attempt to connect may take; 2 s if not said.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long to wait for an answer, at most; 2 s if not said.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How many connections to each node carry requests, from 1 (if not said) to 64. Renewals have one more.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// How locks look in the store.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Whether mutexes of the layout [`Redisson`](Layout::Redisson) stand in the queue of its fair lock. Such an engine has
    /// no other locks.
    #[must_use]
    pub fn fair(mut self, fair: bool) -> Self {
        self.fair = fair;
        self
    }

    /// How Redisson's waiters in a cluster are told.
    #[must_use]
    pub fn pubsub(mut self, pubsub: PubSub) -> Self {
        self.pubsub = pubsub;
        self
    }

    /// What every key starts with.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// How many replicas must have a grant before it counts.
    #[must_use]
    pub fn replicas(mut self, replicas: Replicas) -> Self {
        self.replicas = replicas;
        self
    }

    /// Whether a server that may evict locks is used.
    #[must_use]
    pub fn eviction(mut self, eviction: Eviction) -> Self {
        self.eviction = eviction;
        self
    }

    /// Whether a server that was just started grants locks at once: yes if not said, for one that forgets what it is alone
    /// responsible for is lost either way. Members of a quorum are to wait.
    #[must_use]
    pub fn restart(mut self, restart: Restart) -> Self {
        self.restart = restart;
        self
    }

    /// Whether it can be meant.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |text: &str| Err(Error::new(ErrorKind::Invalid, text));
        let hosts = match &self.topology {
            Topology::Single(address) => std::slice::from_ref(address),
            Topology::Sentinel { service, .. } if service.is_empty() => {
                return wrong("sentinels need the name of a service: redis+sentinel://host/<service>");
            }
            Topology::Sentinel { password: Some(_), password_file: Some(_), .. } => {
                return wrong("the sentinels' password is given twice; keep one of the two");
            }
            Topology::Sentinel { sentinels, .. } => sentinels,
            Topology::Cluster(_) if self.database != 0 => {
                return wrong("a cluster has only database 0; leave the database out");
            }
            Topology::Cluster(nodes) => nodes,
        };
        if hosts.is_empty() || hosts.iter().any(|address| address.host.is_empty()) {
            return wrong("a redis needs a host");
        }
        if self.password.is_some() && self.password_file.is_some() {
            return wrong("the password is given twice; keep either the one in the url or the password_file");
        }
        if self.user.is_some() && self.password.is_none() && self.password_file.is_none() {
            return wrong("a user needs a password; give it in the url or as password_file");
        }
        if self.layout != Layout::Redisson && (self.fair || self.pubsub != PubSub::Auto) {
            return wrong("fair and pubsub are options of layout=redisson; add that, or leave them out");
        }
        if !(1..=MOST_CONNECTIONS).contains(&self.connections) {
            return wrong("connections must be from 1 to 64");
        }
        if self.connect_timeout.is_zero() || self.timeout.is_zero() {
            return wrong("a timeout must be longer than 0");
        }
        if self.client_name.as_ref().is_some_and(|name| !name.bytes().all(|b| (b'!'..=b'~').contains(&b))) {
            return wrong("client_name must be printable ascii without spaces");
        }
        if self.tls.is_some() && cfg!(not(feature = "tls")) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "this build has no tls for rediss://; build bramah-redis with the feature tls",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_file_is_one_line() {
        let path = std::env::temp_dir().join(format!("bramah-password-{}", std::process::id()));
        for (text, good) in [
            ("a b", Some("a b")),
            ("x\n", Some("x")),
            ("x\r\n", Some("x")),
            ("", None),
            ("\n", None),
            ("a\nb\n", None),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read_password(&path).ok().as_ref().map(Secret::expose), good, "{text:?}");
        }
        std::fs::remove_file(&path).unwrap();
        let error = read_password(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }

    #[test]
    fn no_secret_is_shown() {
        let config = Config::sentinel([("h", 1)], "s").password("hunter2").sentinel_password("hunter3");
        assert!(!format!("{config:?}").contains("hunter"));
        assert_eq!(config.password.as_ref().unwrap().expose(), "hunter2");
    }
}
