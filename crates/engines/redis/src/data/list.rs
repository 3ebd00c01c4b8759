//! A list at a key.

use std::{borrow::Borrow, marker::PhantomData, time::Duration};

use bramah_core::{Error, ErrorKind, Result};
use redis::ServerError;
use serde::{Serialize, de::DeserializeOwned};

use super::{At, fault, json};

/// A list at a key. Items are equal if their JSON is; see [Equality](super#equality).
///
/// Places count from 0 at the front; below zero from the back, which is -1. A ttl is that of the whole list. A list that has
/// lost its last item is gone.
///
/// ```no_run
/// # use bramah_redis::data::End;
/// # async fn example(data: bramah_redis::data::Data) -> bramah_core::Result<()> {
/// let jobs = data.list::<String>("jobs");
/// jobs.push_many(End::Back, ["sweep", "wash"]).await?;
/// assert_eq!(jobs.get(-1).await?, Some("wash".to_owned()));
/// assert_eq!(jobs.range(0, -1).await?, ["sweep", "wash"]);
/// # Ok(()) }
/// ```
pub struct List<T> {
    pub(super) at: At,
    pub(super) of: PhantomData<fn() -> T>,
}

super::handle!(List);

/// Where something is pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Before the first.
    Front,
    /// Behind the last.
    Back,
}

impl End {
    fn verb(self) -> &'static str {
        match self {
            Self::Front => "LPUSH",
            Self::Back => "RPUSH",
        }
    }
}

impl<T: DeserializeOwned> List<T> {
    /// The items from one place to another, both included. `range(0, -1)` is all of them; places beyond the ends are cut off.
    ///
    /// # Errors
    /// `Corrupt` when one of them is not of this type or the key holds something else than a list, and what the engine says.
    pub async fn range(&self, first: i64, last: i64) -> Result<Vec<T>> {
        let mut cmd = self.at.cmd("LRANGE");
        cmd.arg(first).arg(last);
        let reply = self.at.send(cmd).await?;
        self.at.target().many(reply)
    }

    /// The item at a place, if there is one.
    ///
    /// # Errors
    /// As [`range`](Self::range).
    pub async fn get(&self, index: i64) -> Result<Option<T>> {
        let mut cmd = self.at.cmd("LINDEX");
        cmd.arg(index);
        let reply = self.at.send(cmd).await?;
        self.at.target().typed(reply)
    }
}

impl<T> List<T> {
    /// How many items there are.
    ///
    /// # Errors
    /// `Corrupt` when the key holds something else than a list, and what the engine says.
    pub async fn length(&self) -> Result<u64> {
        self.at.target().count(&self.at.send(self.at.cmd("LLEN")).await?)
    }

    /// Adds an item, and tells how many there are now. A ttl of the list stays as it is.
    ///
    /// # Errors
    /// `Invalid` for what cannot be written as JSON, `Corrupt` when the key holds something else than a list, and what the
    /// engine says.
    pub async fn push<Q>(&self, end: End, item: &Q) -> Result<u64>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        let mut cmd = self.at.cmd(end.verb());
        cmd.arg(json::encode(item, self.at.target())?);
        self.at.target().count(&self.at.send(cmd).await?)
    }

    /// Adds an item and ends the whole list after `ttl`, both at once, and tells how many there are now.
    ///
    /// # Errors
    /// As [`push`](Self::push); `Invalid` for a ttl of zero or longer than Redis can count.
    pub async fn push_with_ttl<Q>(&self, end: End, item: &Q, ttl: Duration) -> Result<u64>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        let item = json::encode(item, self.at.target())?;
        self.at.write_for(ttl, end.verb(), [item]).await
    }

    /// Adds items one after the other, all at once, and tells how many there are now; `None` if there was nothing to push,
    /// and nothing was asked. At the front the last of them becomes the first.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub async fn push_many<'a, Q>(
        &self,
        end: End,
        items: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Option<u64>>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized + 'a,
    {
        let items = json::encode_all(items, self.at.target())?;
        if items.is_empty() {
            return Ok(None);
        }
        let mut cmd = self.at.cmd(end.verb());
        cmd.arg(items);
        self.at.target().count(&self.at.send(cmd).await?).map(Some)
    }

    /// As [`push_many`](Self::push_many), and ends the whole list after `ttl`, all at once. For nothing to push the ttl is not
    /// changed.
    ///
    /// # Errors
    /// As [`push_with_ttl`](Self::push_with_ttl).
    pub async fn push_many_with_ttl<'a, Q>(
        &self,
        end: End,
        items: impl IntoIterator<Item = &'a Q>,
        ttl: Duration,
    ) -> Result<Option<u64>>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized + 'a,
    {
        let items = json::encode_all(items, self.at.target())?;
        if items.is_empty() {
            return Ok(None);
        }
        self.at.write_for(ttl, end.verb(), items).await.map(Some)
    }

    /// Puts another item at a place that there is.
    ///
    /// # Errors
    /// As [`push`](Self::push); `Invalid` for a place that there is not.
    pub async fn set<Q>(&self, index: i64, item: &Q) -> Result<()>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        let mut cmd = self.at.cmd("LSET");
        cmd.arg(index).arg(json::encode(item, self.at.target())?);
        self.at.send(cmd).await.map(drop).map_err(|error| self.out_of_range(index, error))
    }

    /// Removes items that are equal to this one, and tells how many. A `count` above zero removes at most so many, from the
    /// front on; below zero at most so many, from the back on; zero removes all of them.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub async fn remove<Q>(&self, count: i64, item: &Q) -> Result<u64>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        let mut cmd = self.at.cmd("LREM");
        cmd.arg(count).arg(json::encode(item, self.at.target())?);
        self.at.target().count(&self.at.send(cmd).await?)
    }

    fn out_of_range(&self, index: i64, error: Error) -> Error {
        let why = match fault::said(&error).and_then(ServerError::details) {
            Some("no such key") => "there is no list yet",
            Some("index out of range") => "the list is shorter",
            _ => return error,
        };
        let text = format!(
            "{}: there is no place {index} to set, for {why}; push the item instead",
            self.at.target()
        );
        Error::caused(ErrorKind::Invalid, text, error)
    }
}
