//! Everyday data beside the locks: typed values, maps, sets and lists, with a time to live, over the engine's connections.
//!
//! What is stored is JSON, by serde. A [`Value`], [`Map`], [`Set`] or [`List`] is a key together with the type of what lies
//! there; making one asks the server nothing. Keys are yours, as they stand: no prefix goes before them, also not that of
//! the locks.
//!
//! ```
//! use std::time::Duration;
//!
//! use bramah_redis::Redis;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize, Debug, PartialEq)]
//! struct Order {
//!     item: String,
//!     count: u32,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = bramah_lab::Redis::start(bramah_lab::servers::Flavor::Redis7)?;
//! # let url = server.url();
//! let data = Redis::from_url(&url)?.data();
//!
//! let order = data.value::<Order>("order:42");
//! order.set_with_ttl(&Order { item: "apple".into(), count: 3 }, Duration::from_secs(60)).await?;
//! assert_eq!(order.get().await?.map(|order| order.count), Some(3));
//!
//! let visits = data.value::<i64>("visits");
//! assert_eq!(visits.increment(2).await?, 2);
//! assert!(data.delete("order:42").await?);
//! # Ok(()) }
//! ```
//!
//! # Guarantees
//! - **A value and its ttl are written together**, by one command or one script: whenever a client is killed, there is no
//!   value that should end and does not.
//! - **A request is carried out once, or the answer is an error.** `Unavailable` is the only one that leaves open whether it
//!   was carried out.
//! - **Nothing foreign is taken for yours.** What is not JSON of the type that was asked for is `Corrupt`, and so is a key
//!   that holds something of another kind.
//! - It is the same on one node, behind sentinels and in a cluster.
//!
//! A failover or a crash can forget writes, as [the engine](crate) tells.
//!
//! # Equality
//! Members of a set and items of a list are equal if their JSON is the same text. Serde writes the fields of a struct in
//! their order, always; in what you compare, use a `BTreeMap` and not a `HashMap`. JSON has no word for a fraction that is
//! not finite: serde writes `null` for it.
//!
//! # Cancel safety
//! A future that is dropped may have been carried out or not.
//!
//! `docs/guide/typed-data.md` in the repository is the way in, with more examples.

mod at;
mod fault;
mod json;
mod keys;
mod list;
mod map;
mod reply;
mod script;
mod set;
mod span;
mod value;

use std::{fmt, sync::Arc};

use self::{
    at::At,
    fault::{Noun, Target},
};
pub use self::{
    keys::Ttl,
    list::{End, List},
    map::Map,
    script::{Call, Script},
    set::Set,
    value::Value,
};
use crate::{engine::Redis, net::Network, protocol::Protocol};

/// Typed data on the servers of an engine. Clones share its connections.
#[derive(Clone)]
pub struct Data(Arc<Protocol<Network>>);

impl Redis {
    /// Values, maps, sets and lists on the same servers, over the same connections.
    ///
    /// It does not matter which layout the locks have, or whether there are any.
    #[must_use]
    pub fn data(&self) -> Data {
        Data(Arc::clone(&self.0))
    }
}

impl Data {
    /// The value at a key.
    pub fn value<T>(&self, key: &str) -> Value<T> {
        Value::new(At::new(self, Noun::Value, key))
    }

    /// The map at a key: a hash, as Redis calls it. Its fields are texts.
    pub fn map<V>(&self, key: &str) -> Map<V> {
        Map::new(At::new(self, Noun::Map, key))
    }

    /// The set at a key.
    pub fn set<T>(&self, key: &str) -> Set<T> {
        Set::new(At::new(self, Noun::Set, key))
    }

    /// The list at a key.
    pub fn list<T>(&self, key: &str) -> List<T> {
        List::new(At::new(self, Noun::List, key))
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Data").finish_non_exhaustive()
    }
}

/// What every kind of handle has, whatever type it is of.
macro_rules! handle {
    ($handle:ident) => {
        impl<T> $handle<T> {
            pub(super) fn new(at: super::At) -> Self {
                Self { at, of: std::marker::PhantomData }
            }

            /// Its key.
            #[must_use]
            pub fn key(&self) -> &str {
                self.at.key()
            }
        }

        impl<T> Clone for $handle<T> {
            fn clone(&self) -> Self {
                Self::new(self.at.clone())
            }
        }

        impl<T> std::fmt::Debug for $handle<T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($handle)).field(&self.key()).finish()
            }
        }
    };
}
use handle;

/// The examples of the guide compile.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/typed-data.md")]
struct Guide;
