//! One value at a key.

use std::{borrow::Borrow, marker::PhantomData, time::Duration};

use bramah_core::{Error, Result};
use redis::{Cmd, Value as Reply};
use serde::{Serialize, de::DeserializeOwned};

use super::{At, Data, Noun, Target, json, span};

/// A value at a key.
///
/// What is written may be borrowed: a `Value<String>` takes a `&str`.
///
/// ```no_run
/// # async fn example(data: bramah_redis::data::Data) -> bramah_core::Result<()> {
/// let greeting = data.value::<String>("greeting");
/// greeting.set("hello").await?;
/// assert!(!greeting.set_if_absent("good day", None).await?);
/// assert_eq!(greeting.get_and_set("bye", None).await?, Some("hello".to_owned()));
/// # Ok(()) }
/// ```
pub struct Value<T> {
    pub(super) at: At,
    pub(super) of: PhantomData<fn() -> T>,
}

super::handle!(Value);

impl<T: DeserializeOwned> Value<T> {
    /// What is there, if something is.
    ///
    /// # Errors
    /// `Corrupt` when it is not of this type, and what the engine says.
    pub async fn get(&self) -> Result<Option<T>> {
        let reply = self.at.send(self.at.cmd("GET")).await?;
        self.at.target().typed(reply)
    }

    /// Writes and gives what was there before. Without a ttl it stays, also if it had one.
    ///
    /// # Errors
    /// As [`set_with_ttl`](Self::set_with_ttl); `Corrupt` when what was there is not of this type. Then the new value is
    /// written all the same, unless the key held something else than a value.
    pub async fn get_and_set<Q>(&self, value: &Q, ttl: Option<Duration>) -> Result<Option<T>>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        let mut cmd = self.setting(value, ttl)?;
        cmd.arg("GET");
        let reply = self.at.send(cmd).await?;
        self.at.target().typed(reply).map_err(|error| {
            let text = format!("{error}; it was there before, and the new value is written");
            Error::caused(error.kind(), text, error)
        })
    }
}

impl<T> Value<T> {
    /// Writes. It stays, also if there was a ttl before.
    ///
    /// # Errors
    /// `Invalid` for what cannot be written as JSON, and what the engine says.
    pub async fn set<Q>(&self, value: &Q) -> Result<()>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        self.at.send(self.setting(value, None)?).await.map(drop)
    }

    /// Writes what ends by itself after `ttl`. Less than a millisecond counts as one.
    ///
    /// # Errors
    /// As [`set`](Self::set); `Invalid` for a ttl of zero or longer than Redis can count.
    pub async fn set_with_ttl<Q>(&self, value: &Q, ttl: Duration) -> Result<()>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        self.at.send(self.setting(value, Some(ttl))?).await.map(drop)
    }

    /// Writes if there is nothing at the key. False if there was.
    ///
    /// # Errors
    /// As [`set_with_ttl`](Self::set_with_ttl).
    pub async fn set_if_absent<Q>(&self, value: &Q, ttl: Option<Duration>) -> Result<bool>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        self.set_if("NX", self.setting(value, ttl)?).await
    }

    /// Writes if there is something at the key, whatever it is. False if there was nothing. Without a ttl it stays, also if
    /// it had one.
    ///
    /// # Errors
    /// As [`set_with_ttl`](Self::set_with_ttl).
    pub async fn set_if_present<Q>(&self, value: &Q, ttl: Option<Duration>) -> Result<bool>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        self.set_if("XX", self.setting(value, ttl)?).await
    }

    async fn set_if(&self, condition: &str, mut cmd: Cmd) -> Result<bool> {
        cmd.arg(condition);
        match self.at.send(cmd).await? {
            Reply::Okay => Ok(true),
            Reply::Nil => Ok(false),
            _ => Err(self.at.target().unexpected()),
        }
    }

    fn setting<Q: Serialize + ?Sized>(&self, value: &Q, ttl: Option<Duration>) -> Result<Cmd> {
        setting(&self.at, &json::encode(value, self.at.target())?, ttl)
    }
}

/// A counter: plain decimal text, which is also JSON. What is not there counts as zero; a ttl stays as it is.
///
/// ```no_run
/// # async fn example(data: bramah_redis::data::Data) -> bramah_core::Result<()> {
/// let hits = data.value::<i64>("hits");
/// hits.increment(1).await?;
/// assert_eq!(hits.get().await?, Some(1));
/// # Ok(()) }
/// ```
impl Value<i64> {
    /// Adds a step above zero, and gives the sum.
    ///
    /// # Errors
    /// `Invalid` for a step of zero or below, and for one that leads out of 64 bits; `Corrupt` when what is there is not a
    /// whole number; and what the engine says.
    pub async fn increment(&self, step: i64) -> Result<i64> {
        self.step("INCRBY", step).await
    }

    /// Takes a step above zero away, and gives the rest.
    ///
    /// # Errors
    /// As [`increment`](Self::increment).
    pub async fn decrement(&self, step: i64) -> Result<i64> {
        self.step("DECRBY", step).await
    }

    async fn step(&self, verb: &str, step: i64) -> Result<i64> {
        let mut cmd = self.at.cmd(verb);
        cmd.arg(whole_step(step, self.at.target())?);
        self.at.target().integer(&self.at.send(cmd).await?)
    }
}

impl Data {
    /// The bytes at a key as they are, JSON or not.
    ///
    /// # Errors
    /// `Corrupt` when the key holds something else than a value, and what the engine says.
    pub async fn get_bytes(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let at = At::new(self, Noun::Value, key);
        at.target().bytes(at.send(at.cmd("GET")).await?)
    }

    /// Writes bytes as they are. Without a ttl they stay, also if there was one before.
    ///
    /// # Errors
    /// `Invalid` for a ttl of zero or longer than Redis can count, and what the engine says.
    pub async fn set_bytes(&self, key: &str, bytes: &[u8], ttl: Option<Duration>) -> Result<()> {
        let at = At::new(self, Noun::Value, key);
        at.send(setting(&at, bytes, ttl)?).await.map(drop)
    }
}

/// One command for the value and its ttl.
fn setting(at: &At, bytes: &[u8], ttl: Option<Duration>) -> Result<Cmd> {
    let mut cmd = at.cmd("SET");
    cmd.arg(bytes);
    if let Some(ttl) = ttl {
        cmd.arg("PX").arg(span::millis(ttl, at.target())?);
    }
    Ok(cmd)
}

/// A step above zero.
pub(super) fn whole_step(step: i64, target: Target<'_>) -> Result<i64> {
    if step > 0 {
        return Ok(step);
    }
    Err(target
        .invalid(format_args!("a step of {step}; it must be above zero, the call says in which direction")))
}
