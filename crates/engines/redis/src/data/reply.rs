//! Answers of a server, as what was asked for.

use bramah_core::{Error, Result};
use redis::Value as Reply;
use serde::de::DeserializeOwned;

use super::{Target, json};

impl Target<'_> {
    pub(super) fn integer(self, reply: &Reply) -> Result<i64> {
        match reply {
            Reply::Int(number) => Ok(*number),
            _ => Err(self.unexpected()),
        }
    }

    pub(super) fn count(self, reply: &Reply) -> Result<u64> {
        u64::try_from(self.integer(reply)?).map_err(|_| self.unexpected())
    }

    /// Whether something was done or is so.
    pub(super) fn flag(self, reply: &Reply) -> Result<bool> {
        self.count(reply).map(|count| count > 0)
    }

    /// A fraction, which Redis writes as a text.
    pub(super) fn fraction(self, reply: &Reply) -> Result<f64> {
        let text = match reply {
            Reply::BulkString(text) => std::str::from_utf8(text).ok(),
            _ => None,
        };
        let number: f64 = text.and_then(|text| text.parse().ok()).ok_or_else(|| self.unexpected())?;
        if number.is_finite() {
            return Ok(number);
        }
        // Redis counts in more bits than we do.
        Err(self.invalid("the step led out of the range of fractions of 64 bits, and is stored; set it anew"))
    }

    pub(super) fn bytes(self, reply: Reply) -> Result<Option<Vec<u8>>> {
        match reply {
            Reply::Nil => Ok(None),
            Reply::BulkString(bytes) => Ok(Some(bytes)),
            _ => Err(self.unexpected()),
        }
    }

    pub(super) fn typed<T: DeserializeOwned>(self, reply: Reply) -> Result<Option<T>> {
        self.bytes(reply)?.map(|text| json::decode(&text, self)).transpose()
    }

    pub(super) fn many<T: DeserializeOwned>(self, reply: Reply) -> Result<Vec<T>> {
        let (Reply::Array(items) | Reply::Set(items)) = reply else { return Err(self.unexpected()) };
        items.into_iter().map(|item| self.typed(item)?.ok_or_else(|| self.unexpected())).collect()
    }

    pub(super) fn unexpected(self) -> Error {
        self.corrupt("redis answered with something else than this command's answer; is it a redis?")
    }
}
