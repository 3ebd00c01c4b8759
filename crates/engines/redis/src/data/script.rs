//! Scripts of the caller's.

use std::{any::type_name, fmt, sync::Arc};

use bramah_core::{Error, ErrorKind, Result};
use redis::{ServerError, Value as Reply};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value as Json;

use super::{Data, Noun, Target, fault, json};
use crate::{driver::Driver, error::clean, net::slot, script};

/// Lua that runs on the server, all of it or nothing in between. It goes there by its hash, and as a whole where the server
/// does not know it.
///
/// Keep it: making one computes the hash, and clones are cheap.
///
/// ```no_run
/// # use bramah_redis::data::Script;
/// # async fn example(data: bramah_redis::data::Data) -> bramah_core::Result<()> {
/// let take = Script::new("local v = redis.call('GET', KEYS[1]) redis.call('DEL', KEYS[1]) return v");
/// let taken: Option<String> = data.run(take.call().key("greeting")).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Script(Arc<script::Script>);

impl Script {
    /// A script of this text.
    #[must_use]
    pub fn new(code: impl Into<String>) -> Self {
        Self(Arc::new(script::Script::new("yours", code.into())))
    }

    /// The SHA-1 of its text in hex, by which the server knows it.
    #[must_use]
    pub fn hash(&self) -> &str {
        self.0.hash()
    }

    /// A call of it, still without keys and arguments.
    pub fn call(&self) -> Call {
        Call { script: self.clone(), keys: Vec::new(), words: Ok(Vec::new()) }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Script").field(&self.hash()).finish()
    }
}

/// A script with its keys and arguments, for [`Data::run`].
#[derive(Clone)]
#[must_use = "a call does nothing before it is run"]
pub struct Call {
    script: Script,
    keys: Vec<String>,
    words: Result<Vec<Vec<u8>>>,
}

impl Call {
    /// One key more: `KEYS[1]` and so on. In a cluster a script must name all keys that it uses, and they must share a slot:
    /// give them the same `{tag}`.
    pub fn key(mut self, key: &str) -> Self {
        self.keys.push(key.to_owned());
        self
    }

    /// One argument more as JSON: `ARGV[1]` and so on. It is what a [value](super::Value) of the same type has in it.
    pub fn arg<T: Serialize + ?Sized>(mut self, arg: &T) -> Self {
        let word = json::encode(arg, self.target());
        self.words = self.words.and_then(|mut words| {
            words.push(word?);
            Ok(words)
        });
        self
    }

    /// One argument more as it stands, as the field of a map.
    pub fn text(mut self, text: &str) -> Self {
        if let Ok(words) = &mut self.words {
            words.push(text.into());
        }
        self
    }

    fn target(&self) -> Target<'_> {
        Target { noun: Noun::Script, key: self.script.hash(), part: None }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("script", &self.script).field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl Data {
    /// Runs a script and gives its answer.
    ///
    /// A number is a number, nothing (and Lua's `false`) is `null`, a table is a list, a status is a text, and a text is JSON,
    /// as everything that is stored: `return redis.call('GET', KEYS[1])` is the value there. Return any other text by
    /// `cjson.encode`. To ignore the answer, ask for [`serde::de::IgnoredAny`] and return a number.
    ///
    /// An error that the script returns must not begin with a word by which Redis says that nothing was done, such as
    /// `TRYAGAIN` or `LOADING`: the call would be made again.
    ///
    /// # Errors
    /// `Invalid` when the keys do not share a slot in a cluster, when an argument cannot be written as JSON, and when the
    /// script does not compile or ends with an error; `Corrupt` when the answer is not of this type; and what the engine
    /// says.
    pub async fn run<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        let target = call.target();
        let words = call.words.as_ref().map_err(Error::clone)?;
        let mut slots = call.keys.iter().map(|key| slot::slot_of(key.as_bytes()));
        let first = slots.next().unwrap_or(0);
        if self.0.driver.is_cluster()
            && let Some(at) = slots.position(|slot| slot != first)
        {
            return Err(target.invalid(format_args!(
                "the keys \"{}\" and \"{}\" are in different slots of the cluster; give them the same {{tag}}",
                clean(&call.keys[0]),
                clean(&call.keys[at + 1]),
            )));
        }
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(call.script.hash()).arg(call.keys.len()).arg(&call.keys).arg(words);
        let script = Arc::clone(&call.script.0);
        let reply = self.send(first, cmd, Some(script)).await.map_err(|error| failed(target, error))?;
        read(reply, target)
    }
}

/// What a script ended with. Errors about the way there stay what they are.
fn failed(target: Target<'_>, error: Error) -> Error {
    match fault::said(&error) {
        Some(said) if error.kind() == ErrorKind::Corrupt => {
            let words = clean(said.details().unwrap_or_default());
            let text = format!("{target} ended with an error: {} {words}", clean(said.code()));
            Error::caused(ErrorKind::Invalid, text, error)
        }
        _ => target.explain(error),
    }
}

fn read<T: DeserializeOwned>(reply: Reply, target: Target<'_>) -> Result<T> {
    if let Reply::BulkString(text) = &reply {
        return serde_json::from_slice(text).map_err(|why| foreign::<T>(&why, target));
    }
    let json = to_json::<T>(reply, target)?;
    serde_json::from_value(json).map_err(|why| foreign::<T>(&why, target))
}

fn foreign<T>(why: &serde_json::Error, target: Target<'_>) -> Error {
    let what = if why.is_data() { "is not of the type" } else { "has a text that is not json, for" };
    target.corrupt(format_args!(
        "its answer {what} {}; ask for what it returns, and let it return texts by cjson.encode",
        type_name::<T>()
    ))
}

/// As deep as the answer, which the parser of answers has limited.
fn to_json<T>(reply: Reply, target: Target<'_>) -> Result<Json> {
    Ok(match reply {
        Reply::Nil => Json::Null,
        Reply::Int(number) => number.into(),
        Reply::Boolean(is) => is.into(),
        Reply::Double(number) => number.into(),
        Reply::Okay => "OK".into(),
        Reply::SimpleString(text) | Reply::VerbatimString { text, .. } => text.into(),
        Reply::BulkString(text) => serde_json::from_slice(&text).map_err(|why| foreign::<T>(&why, target))?,
        Reply::Array(items) | Reply::Set(items) => {
            items.into_iter().map(|item| to_json::<T>(item, target)).collect::<Result<_>>()?
        }
        Reply::ServerError(error) => return Err(ended(target, &error)),
        _ => return Err(target.corrupt("its answer has a form that json does not have; return another")),
    })
}

fn ended(target: Target<'_>, error: &ServerError) -> Error {
    target.invalid(format_args!(
        "a part of its answer is an error: {} {}",
        clean(error.code()),
        clean(error.details().unwrap_or_default())
    ))
}
