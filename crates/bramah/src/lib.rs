//! A distributed lock that says exactly what it promises on each store.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> bramah::Result<()> {
//! let session = bramah::connect("memory:").await?;
//! let guard = session.mutex("orders/42")?.lock().await?;
//! // Work. Give guard.fence() to whatever you write to: it refuses a holder that was paused past its lease.
//! guard.release().await;
//! # Ok(()) }
//! ```
//!
//! | url | store | features |
//! |---|---|---|
//! | `memory:` | this process | always there |
//! | `file:///dir` | the processes of one host | `file`, on by default |
//! | `redis://host`, `redis+sentinel://…`, `redis+cluster://…` | Redis or Valkey; with `rediss` by TLS | `redis` |
//! | `redlock://host,host,host` | several Redis masters that know nothing of each other; with `redlocks` by TLS | `redis` |
//! | `postgres://host/database` | PostgreSQL; [`init`] creates the tables | `postgres` |
//! | `mysql://host/database` | MySQL or MariaDB; [`init`] creates the tables | `mysql` |
//! | `etcd://host,host,host/prefix` | etcd, beside `etcdctl` and Go programs; with `etcds` by TLS | `etcd` |
//! | `zookeeper://host,host,host/chroot` | ZooKeeper, beside Curator; with `zookeepers` by TLS | `zookeeper` |
//!
//! Everything else is in the core crate, re-exported here: [`Session`] opens, [`Mutex`], [`RwLock`], [`Semaphore`] and
//! [`Election`] are the faces, [`Guard`] is what you hold.

#[cfg(feature = "blocking")]
pub mod blocking;
pub mod doctor;
mod init;
mod url;

use std::sync::Arc;

pub use bramah_core::*;
#[cfg(feature = "etcd")]
pub use bramah_etcd as etcd;
#[cfg(feature = "file")]
pub use bramah_file::File;
#[cfg(feature = "mysql")]
pub use bramah_mysql as mysql;
#[cfg(feature = "postgres")]
pub use bramah_postgres as postgres;
#[cfg(feature = "redis")]
pub use bramah_redis as redis;
#[cfg(feature = "zookeeper")]
pub use bramah_zookeeper as zookeeper;
pub use init::{init, schema};

/// Opens a session with the defaults on the store at `url`.
///
/// # Errors
/// `Invalid` for a URL that is not understood, `Unsupported` for a store that was not built in, and what the engine
/// says.
pub async fn connect(url: &str) -> Result<Session> {
    Session::builder(engine(url).await?).store(redacted(url)).open().await
}

/// The engine for `url`, to build a session of your own settings on.
///
/// # Errors
/// As [`connect`].
pub async fn engine(url: &str) -> Result<Arc<dyn Engine>> {
    engine_of(url)
}

/// The engine for `url`. None of them connects before it is asked for something.
fn engine_of(url: &str) -> Result<Arc<dyn Engine>> {
    match url::scheme(url)? {
        ("memory", _) => Ok(Arc::new(Memory::new())),
        #[cfg(feature = "file")]
        ("file", rest) => Ok(Arc::new(File::open(url::directory(rest)?)?)),
        #[cfg(feature = "redis")]
        ("redlock" | "redlocks", _) => Ok(Arc::new(redis::redlock::Redlock::from_url(url)?.engine()?)),
        #[cfg(feature = "redis")]
        (scheme, _) if url::REDIS.contains(&scheme) => Ok(Arc::new(redis::Redis::from_url(url)?)),
        #[cfg(feature = "postgres")]
        ("postgres" | "postgresql", _) => Ok(postgres::Postgres::from_url(url)?.into()),
        #[cfg(feature = "mysql")]
        ("mysql" | "mariadb", _) => Ok(mysql::MySql::from_url(url)?.into()),
        #[cfg(feature = "etcd")]
        ("etcd" | "etcds", _) => Ok(etcd::Etcd::from_url(url)?.into()),
        #[cfg(feature = "zookeeper")]
        ("zookeeper" | "zookeepers", _) => Ok(zookeeper::ZooKeeper::from_url(url)?.into()),
        (scheme, _) => Err(url::unknown(scheme)),
    }
}

/// The same for callers that only read ([`survey`](Engine::survey)): reading does not create a store. A directory that does
/// not exist, or in which no lock was ever taken, is `Invalid`; other stores are as [`engine()`] has them.
///
/// # Errors
/// As [`engine()`].
pub async fn existing(url: &str) -> Result<Arc<dyn Engine>> {
    match url::scheme(url)? {
        #[cfg(feature = "file")]
        ("file", rest) => Ok(Arc::new(File::existing(url::directory(rest)?)?)),
        _ => engine(url).await,
    }
}

/// The stores of this build, by their URLs.
pub fn schemes() -> &'static [&'static str] {
    url::SCHEMES
}

/// `url` without what may be secret in it: user info and the query's values.
///
/// ```
/// assert_eq!(bramah::redacted("redis://user:pass@host:6379/0"), "redis://host:6379/0");
/// ```
pub fn redacted(url: &str) -> String {
    url::redacted(url)
}
