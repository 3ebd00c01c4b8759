//! A map at a key.

use std::{borrow::Borrow, collections::BTreeMap, marker::PhantomData, time::Duration};

use bramah_core::Result;
use redis::{Cmd, Value as Reply};
use serde::{Serialize, de::DeserializeOwned};

use super::{At, Target, json, value::whole_step};

/// A map at a key: a hash, as Redis calls it, from fields to values.
///
/// A ttl is that of the whole map. A map that has lost its last field is gone. For fields of several types make a handle
/// for each: they may be for the same key.
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn example(data: bramah_redis::data::Data) -> bramah_core::Result<()> {
/// let cart = data.map::<i64>("cart:7");
/// cart.set_many_with_ttl([("apple", &3), ("pear", &1)], Duration::from_secs(3600)).await?;
/// assert_eq!(cart.increment("apple", 2).await?, 5);
/// for (item, count) in cart.entries().await? {
///     println!("{count} of {item}");
/// }
/// # Ok(()) }
/// ```
pub struct Map<T> {
    pub(super) at: At,
    pub(super) of: PhantomData<fn() -> T>,
}

super::handle!(Map);

impl<T: DeserializeOwned> Map<T> {
    /// What a field has, if there is one.
    ///
    /// # Errors
    /// `Corrupt` when it is not of this type or the key holds something else than a map, and what the engine says.
    pub async fn get(&self, field: &str) -> Result<Option<T>> {
        let target = self.at.field(field);
        let reply = self.at.send_about(target, self.naming("HGET", field)).await?;
        target.typed(reply)
    }

    /// All fields and what they have.
    ///
    /// # Errors
    /// As [`get`](Self::get), if it is so for any of them or a field is not a text.
    pub async fn entries(&self) -> Result<BTreeMap<String, T>> {
        let target = self.at.target();
        let Reply::Map(pairs) = self.at.send(self.at.cmd("HGETALL")).await? else {
            return Err(target.unexpected());
        };
        let mut entries = BTreeMap::new();
        for (field, value) in pairs {
            let field = target.bytes(field)?.unwrap_or_default();
            let field = String::from_utf8(field)
                .map_err(|_| target.corrupt("the name of a field is not utf-8; use another key"))?;
            let value =
                self.at.field(&field).typed(value)?.ok_or_else(|| self.at.field(&field).unexpected())?;
            entries.insert(field, value);
        }
        Ok(entries)
    }
}

impl<T> Map<T> {
    /// Writes a field. True if it is new. A ttl of the map stays as it is.
    ///
    /// # Errors
    /// `Invalid` for what cannot be written as JSON, `Corrupt` when the key holds something else than a map, and what the
    /// engine says.
    pub async fn set<Q>(&self, field: &str, value: &Q) -> Result<bool>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        let target = self.at.field(field);
        let mut cmd = self.naming("HSET", field);
        cmd.arg(json::encode(value, target)?);
        target.flag(&self.at.send_about(target, cmd).await?)
    }

    /// Writes a field and ends the whole map after `ttl`, both at once. True if the field is new.
    ///
    /// # Errors
    /// As [`set`](Self::set); `Invalid` for a ttl of zero or longer than Redis can count.
    pub async fn set_with_ttl<Q>(&self, field: &str, value: &Q, ttl: Duration) -> Result<bool>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        let value = json::encode(value, self.at.field(field))?;
        self.at.write_for(ttl, "HSET", [field.into(), value]).await.map(|new| new > 0)
    }

    /// Writes fields, all at once, and tells how many are new. Of none it asks nothing. A ttl of the map stays as it is.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub async fn set_many<'a, Q>(&self, entries: impl IntoIterator<Item = (&'a str, &'a Q)>) -> Result<u64>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized + 'a,
    {
        let words = self.words(entries)?;
        if words.is_empty() {
            return Ok(0);
        }
        let mut cmd = self.at.cmd("HSET");
        cmd.arg(words);
        self.at.target().count(&self.at.send(cmd).await?)
    }

    /// Writes fields and ends the whole map after `ttl`, all at once, and tells how many fields are new. Of none it asks
    /// nothing, and the ttl is not changed.
    ///
    /// # Errors
    /// As [`set_with_ttl`](Self::set_with_ttl).
    pub async fn set_many_with_ttl<'a, Q>(
        &self,
        entries: impl IntoIterator<Item = (&'a str, &'a Q)>,
        ttl: Duration,
    ) -> Result<u64>
    where
        T: Borrow<Q>,
        Q: Serialize + ?Sized + 'a,
    {
        let words = self.words(entries)?;
        if words.is_empty() {
            return Ok(0);
        }
        self.at.write_for(ttl, "HSET", words).await
    }

    /// Whether there is such a field.
    ///
    /// # Errors
    /// `Corrupt` when the key holds something else than a map, and what the engine says.
    pub async fn contains(&self, field: &str) -> Result<bool> {
        let target = self.at.field(field);
        target.flag(&self.at.send_about(target, self.naming("HEXISTS", field)).await?)
    }

    /// How many fields there are.
    ///
    /// # Errors
    /// As [`contains`](Self::contains).
    pub async fn size(&self) -> Result<u64> {
        self.at.target().count(&self.at.send(self.at.cmd("HLEN")).await?)
    }

    /// Deletes a field. False if there was none.
    ///
    /// # Errors
    /// As [`contains`](Self::contains).
    pub async fn delete(&self, field: &str) -> Result<bool> {
        let target = self.at.field(field);
        target.flag(&self.at.send_about(target, self.naming("HDEL", field)).await?)
    }

    /// Deletes fields, and tells how many there were. Of none it asks nothing.
    ///
    /// # Errors
    /// As [`contains`](Self::contains).
    pub async fn delete_many<'a>(&self, fields: impl IntoIterator<Item = &'a str>) -> Result<u64> {
        let fields: Vec<&str> = fields.into_iter().collect();
        if fields.is_empty() {
            return Ok(0);
        }
        let mut cmd = self.at.cmd("HDEL");
        cmd.arg(fields);
        self.at.target().count(&self.at.send(cmd).await?)
    }

    fn naming(&self, verb: &str, field: &str) -> Cmd {
        let mut cmd = self.at.cmd(verb);
        cmd.arg(field);
        cmd
    }

    fn words<'a, Q>(&self, entries: impl IntoIterator<Item = (&'a str, &'a Q)>) -> Result<Vec<Vec<u8>>>
    where
        Q: Serialize + ?Sized + 'a,
    {
        let mut words = Vec::new();
        for (field, value) in entries {
            let value = json::encode(value, self.at.field(field))?;
            words.extend([field.into(), value]);
        }
        Ok(words)
    }
}

/// Fields that count in whole steps. What is not there counts as zero; a ttl of the map stays as it is.
impl Map<i64> {
    /// Adds a step above zero to a field, and gives the sum.
    ///
    /// # Errors
    /// `Invalid` for a step of zero or below, and for one that leads out of 64 bits; `Corrupt` when what the field has is not
    /// a whole number, or the key holds something else than a map; and what the engine says.
    pub async fn increment(&self, field: &str, step: i64) -> Result<i64> {
        let step = whole_step(step, self.at.field(field))?;
        self.step(field, step).await
    }

    /// Takes a step above zero away from a field, and gives the rest.
    ///
    /// # Errors
    /// As [`increment`](Self::increment).
    pub async fn decrement(&self, field: &str, step: i64) -> Result<i64> {
        let step = whole_step(step, self.at.field(field))?;
        self.step(field, -step).await
    }

    async fn step(&self, field: &str, step: i64) -> Result<i64> {
        let target = self.at.field(field);
        let mut cmd = self.naming("HINCRBY", field);
        cmd.arg(step);
        target.integer(&self.at.send_about(target, cmd).await?)
    }
}

/// Fields that count in fractions. What is not there counts as zero; a ttl of the map stays as it is. Redis keeps 17 digits
/// after the point.
impl Map<f64> {
    /// Adds a step above zero to a field, and gives the sum.
    ///
    /// # Errors
    /// `Invalid` for a step of zero or below, for one that is not finite, and for one that leads to a sum that is not: Redis
    /// counts in more bits, and has stored it then;
    /// `Corrupt` when what the field has is not a number, or the key holds something else than a map; and what the engine
    /// says.
    pub async fn increment(&self, field: &str, step: f64) -> Result<f64> {
        let step = fractional_step(step, self.at.field(field))?;
        self.step(field, step).await
    }

    /// Takes a step above zero away from a field, and gives the rest.
    ///
    /// # Errors
    /// As [`increment`](Self::increment).
    pub async fn decrement(&self, field: &str, step: f64) -> Result<f64> {
        let step = fractional_step(step, self.at.field(field))?;
        self.step(field, -step).await
    }

    async fn step(&self, field: &str, step: f64) -> Result<f64> {
        let target = self.at.field(field);
        let mut cmd = self.naming("HINCRBYFLOAT", field);
        cmd.arg(format!("{step:e}"));
        target.fraction(&self.at.send_about(target, cmd).await?)
    }
}

fn fractional_step(step: f64, target: Target<'_>) -> Result<f64> {
    if step > 0.0 && step.is_finite() {
        return Ok(step);
    }
    Err(target.invalid(format_args!(
        "a step of {step}; it must be finite and above zero, the call says in which direction"
    )))
}
