//! A set at a key.

use std::{borrow::Borrow, marker::PhantomData, time::Duration};

use bramah_core::Result;
use redis::Cmd;
use serde::{Serialize, de::DeserializeOwned};

use super::{At, json};

/// A set at a key. Members are equal if their JSON is; see [Equality](super#equality).
///
/// A ttl is that of the whole set. A set that has lost its last member is gone.
///
/// ```no_run
/// # async fn example(data: bramah_redis::data::Data) -> bramah_core::Result<()> {
/// let tags = data.set::<String>("tags:7");
/// assert!(tags.add("red").await?);
/// assert!(tags.contains("red").await?);
/// assert_eq!(tags.members().await?, ["red"]);
/// # Ok(()) }
/// ```
pub struct Set<T> {
    pub(super) at: At,
    pub(super) of: PhantomData<fn() -> T>,
}

super::handle!(Set);

impl<T: DeserializeOwned> Set<T> {
    /// All members, in no order.
    ///
    /// # Errors
    /// `Corrupt` when one of them is not of this type or the key holds something else than a set, and what the engine says.
    pub async fn members(&self) -> Result<Vec<T>> {
        let reply = self.at.send(self.at.cmd("SMEMBERS")).await?;
        self.at.target().many(reply)
    }
}

impl<T> Set<T> {
    /// Whether something is a member.
    ///
    /// # Errors
    /// `Invalid` for what cannot be written as JSON, `Corrupt` when the key holds something else than a set, and what the
    /// engine says.
    pub async fn contains<Q>(&self, member: &Q) -> Result<bool>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        self.flag("SISMEMBER", member).await
    }

    /// How many members there are.
    ///
    /// # Errors
    /// `Corrupt` when the key holds something else than a set, and what the engine says.
    pub async fn size(&self) -> Result<u64> {
        self.at.target().count(&self.at.send(self.at.cmd("SCARD")).await?)
    }

    /// Adds a member. False if it was one already. A ttl of the set stays as it is.
    ///
    /// # Errors
    /// As [`contains`](Self::contains).
    pub async fn add<Q>(&self, member: &Q) -> Result<bool>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        self.flag("SADD", member).await
    }

    /// Adds a member and ends the whole set after `ttl`, both at once. False if it was a member already.
    ///
    /// # Errors
    /// As [`contains`](Self::contains); `Invalid` for a ttl of zero or longer than Redis can count.
    pub async fn add_with_ttl<Q>(&self, member: &Q, ttl: Duration) -> Result<bool>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        let member = json::encode(member, self.at.target())?;
        self.at.write_for(ttl, "SADD", [member]).await.map(|new| new > 0)
    }

    /// Adds members, all at once, and tells how many are new. Of none it asks nothing.
    ///
    /// # Errors
    /// As [`contains`](Self::contains).
    pub async fn add_many<'a, Q>(&self, members: impl IntoIterator<Item = &'a Q>) -> Result<u64>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized + 'a,
    {
        self.count("SADD", json::encode_all(members, self.at.target())?).await
    }

    /// Adds members and ends the whole set after `ttl`, all at once, and tells how many members are new. Of none it asks
    /// nothing, and the ttl is not changed.
    ///
    /// # Errors
    /// As [`add_with_ttl`](Self::add_with_ttl).
    pub async fn add_many_with_ttl<'a, Q>(
        &self,
        members: impl IntoIterator<Item = &'a Q>,
        ttl: Duration,
    ) -> Result<u64>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized + 'a,
    {
        let members = json::encode_all(members, self.at.target())?;
        if members.is_empty() {
            return Ok(0);
        }
        self.at.write_for(ttl, "SADD", members).await
    }

    /// Removes a member. False if it was none.
    ///
    /// # Errors
    /// As [`contains`](Self::contains).
    pub async fn remove<Q>(&self, member: &Q) -> Result<bool>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        self.flag("SREM", member).await
    }

    /// Removes members, and tells how many there were. Of none it asks nothing.
    ///
    /// # Errors
    /// As [`contains`](Self::contains).
    pub async fn remove_many<'a, Q>(&self, members: impl IntoIterator<Item = &'a Q>) -> Result<u64>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized + 'a,
    {
        self.count("SREM", json::encode_all(members, self.at.target())?).await
    }

    async fn flag<Q: Serialize + ?Sized>(&self, verb: &str, member: &Q) -> Result<bool> {
        let mut cmd: Cmd = self.at.cmd(verb);
        cmd.arg(json::encode(member, self.at.target())?);
        self.at.target().flag(&self.at.send(cmd).await?)
    }

    async fn count(&self, verb: &str, members: Vec<Vec<u8>>) -> Result<u64> {
        if members.is_empty() {
            return Ok(0);
        }
        let mut cmd = self.at.cmd(verb);
        cmd.arg(members);
        self.at.target().count(&self.at.send(cmd).await?)
    }
}
