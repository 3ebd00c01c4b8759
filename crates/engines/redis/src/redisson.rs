//! Objects of Redisson that are no locks: semaphores and latches that a fleet of Java and Rust programs shares.
//!
//! They work on every [`Redis`], whatever its layout, and are not kept by a session: what is taken stays taken until it is
//! given back, or until a lease ends that was given when it was taken.
//!
//! | Redisson | here | keys | channel |
//! |---|---|---|---|
//! | `RSemaphore` | [`Semaphore`] | `N` | `redisson_sc:{N}` |
//! | `RPermitExpirableSemaphore` | [`Permits`] | `N`, `{N}:timeout` | `redisson_sc:{N}` |
//! | `RCountDownLatch` | [`Latch`] | `N` | `redisson_countdownlatch__channel__{N}` |
//!
//! A name is the key as it stands; on an engine of Redisson's layout with a prefix, after that. One with a `{` in it gets no braces of its own, but
//! for the channel of a latch, which always does. Messages go out by `PUBLISH`, in a cluster by `SPUBLISH`, as Redisson
//! sends them by default.
//!
//! # Waiting
//! Redisson waits for a message, and for ever if that is lost. Here the server tells of any change to the key that is
//! waited on, whoever makes it and however (client-side caching), and behind that stands a question once in a while: each
//! second, less often the more there are who wait in one process. Who waits has no place in a line, as in Redisson.
//!
//! # In a cluster
//! All keys of a name have to be in one slot, and so does the channel, if a script is to publish to it. They are not for
//! names whose braces make no hash tag, and for a latch whose name has a tag of its own: those Redisson can neither set
//! nor release nor count down (CROSSSLOT). Here [`Permits`] of such a name are refused as `Invalid`. A [`Semaphore`] or a
//! [`Latch`] works, and publishes nothing: nobody but us can change it, and we wait without messages.

mod crowd;
mod latch;
mod permits;
mod semaphore;

use std::{
    error::Error as _,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bramah_core::{Error, ErrorKind, Moment, Result};
use redis::{Cmd, ServerError, Value};

pub(crate) use self::crowd::Crowd;
use self::crowd::Seat;
pub use self::{
    latch::Latch,
    permits::{LeaseLeft, PermitId, Permits},
    semaphore::Semaphore,
};
use crate::{
    driver::{Driver, Lane, Request, Slot},
    engine::Redis,
    error::clean,
    net::{Network, slot::slot_of},
    protocol::Protocol,
    script::Script,
};

/// The most permits there can be: Redisson counts them in 32 bits.
const MOST: u32 = i32::MAX as u32;

impl Redis {
    /// The semaphore of this name, an `RSemaphore` of Redisson. Nothing is asked yet.
    pub fn redisson_semaphore(&self, name: impl Into<String>) -> Semaphore {
        Semaphore::new(Object::new(self, Kind::Semaphore, name.into()))
    }

    /// The semaphore of this name whose permits have ids and may have leases, an `RPermitExpirableSemaphore` of Redisson.
    /// Nothing is asked yet.
    pub fn redisson_permits(&self, name: impl Into<String>) -> Permits {
        Permits::new(Object::new(self, Kind::Permits, name.into()))
    }

    /// The latch of this name, an `RCountDownLatch` of Redisson. Nothing is asked yet.
    pub fn redisson_latch(&self, name: impl Into<String>) -> Latch {
        Latch::new(Object::new(self, Kind::Latch, name.into()))
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Semaphore,
    Permits,
    Latch,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Semaphore | Self::Permits => "semaphore",
            Self::Latch => "latch",
        }
    }

    fn channel(self, name: &str) -> String {
        match self {
            Self::Semaphore | Self::Permits if name.contains('{') => format!("redisson_sc:{name}"),
            Self::Semaphore | Self::Permits => format!("redisson_sc:{{{name}}}"),
            Self::Latch => format!("redisson_countdownlatch__channel__{{{name}}}"),
        }
    }

    /// All keys, the counter first.
    fn keys(self, name: String) -> Vec<String> {
        match self {
            Self::Semaphore | Self::Latch => vec![name],
            Self::Permits if name.contains('{') => vec![name.clone(), format!("{name}:timeout")],
            Self::Permits => vec![name.clone(), format!("{{{name}}}:timeout")],
        }
    }
}

/// One object on one server.
#[derive(Clone, Debug)]
struct Object {
    protocol: Arc<Protocol<Network>>,
    scripts: &'static Scripts,
    kind: Kind,
    /// The counter first.
    keys: Arc<[String]>,
    /// Where changes are told; nothing where that cannot be.
    channel: Arc<str>,
    slot: Slot,
    /// Whether the keys are where one script cannot have them all.
    apart: bool,
}

impl Object {
    fn new(redis: &Redis, kind: Kind, name: String) -> Self {
        let protocol = redis.0.clone();
        let cluster = protocol.driver.is_cluster();
        let name = protocol.scheme.object_key(name);
        let (channel, keys) = (kind.channel(&name), kind.keys(name));
        let slot = slot_of(keys[0].as_bytes());
        let is_elsewhere = |key: &str| cluster && slot_of(key.as_bytes()) != slot;
        let apart = keys.iter().any(|key| is_elsewhere(key));
        let channel = if is_elsewhere(&channel) { String::new() } else { channel };
        let scripts = Scripts::of(protocol.scheme.tells());
        Self { protocol, scripts, kind, keys: keys.into(), channel: channel.into(), slot, apart }
    }

    /// The name, which is the key of the counter.
    fn name(&self) -> &str {
        &self.keys[0]
    }

    /// The call of a script with all keys.
    fn script(&self, script: &Script) -> Cmd {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(script.hash()).arg(self.keys.len()).arg(&*self.keys);
        cmd
    }

    async fn call(&self, script: &Arc<Script>, cmd: Cmd, track: bool) -> Result<Value> {
        self.send(cmd, Some(script.clone()), track).await
    }

    async fn send(&self, cmd: Cmd, script: Option<Arc<Script>>, track: bool) -> Result<Value> {
        if self.apart {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "the keys of the {} {} are not in one slot of the cluster; use a name without braces, or with one \
                     tag such as {{orders}}",
                    self.kind.word(),
                    clean(self.name())
                ),
            ));
        }
        let patience = self.protocol.terms.timeout;
        let request = Request { slot: self.slot, lane: Lane::Calls, patience, cmd, script, track, age: None };
        match self.protocol.driver.send(request).await {
            Ok(value) => Ok(value),
            Err(error) => Err(self.explain(error).await),
        }
    }

    /// Says which key it is where the server only says that it is not what was expected.
    async fn explain(&self, error: Error) -> Error {
        let Some(said) = error.source().and_then(|source| source.downcast_ref::<ServerError>()) else {
            return error;
        };
        let word = self.kind.word();
        let details = said.details().unwrap_or_default();
        let (kind, text) = match said.code() {
            "WRONGTYPE" => {
                let key = clean(self.mistyped().await);
                (
                    ErrorKind::Corrupt,
                    format!(
                        "the key {key} holds something that is not of a {word} of redisson; use another name, or remove it"
                    ),
                )
            }
            "NONUMBER" => (ErrorKind::Corrupt, self.no_number()),
            "ERR" if details.contains("not an integer") => (ErrorKind::Corrupt, self.no_number()),
            "ERR" if details.contains("overflow") => (
                ErrorKind::Invalid,
                format!("the {word} {} cannot count that far; use a smaller number", clean(self.name())),
            ),
            _ => return error,
        };
        Error::caused(kind, text, error)
    }

    fn no_number(&self) -> String {
        format!(
            "the key {} holds no number, as a {} of redisson does; use another name, or remove it",
            clean(self.name()),
            self.kind.word()
        )
    }

    /// The key with a value of another type.
    async fn mistyped(&self) -> &str {
        let [counter, other] = &*self.keys else { return self.name() };
        let mut cmd = redis::cmd("TYPE");
        cmd.arg(counter);
        let patience = self.protocol.terms.timeout;
        let request = Request {
            slot: self.slot,
            lane: Lane::Calls,
            patience,
            cmd,
            script: None,
            track: false,
            age: None,
        };
        match self.protocol.driver.send(request).await {
            Ok(Value::SimpleString(kind)) if kind == "string" || kind == "none" => other,
            _ => counter,
        }
    }

    /// The counter, 0 where there is none.
    async fn counter(&self, track: bool) -> Result<i64> {
        let mut cmd = redis::cmd("GET");
        cmd.arg(self.name());
        match self.send(cmd, None, track).await? {
            Value::Nil => Ok(0),
            Value::BulkString(bytes) => std::str::from_utf8(&bytes)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| Error::new(ErrorKind::Corrupt, self.no_number())),
            other => self.number(&other),
        }
    }

    /// Removes all keys, and tells nobody.
    async fn remove(&self) -> Result<bool> {
        let mut cmd = redis::cmd("DEL");
        cmd.arg(&*self.keys);
        Ok(self.number(&self.send(cmd, None, false).await?)? > 0)
    }

    /// The number that an answer is.
    fn number(&self, value: &Value) -> Result<i64> {
        match value {
            Value::Int(number) => Ok(*number),
            _ => Err(self.misunderstood()),
        }
    }

    /// The numbers that an answer is.
    fn numbers<const N: usize>(&self, value: &Value) -> Result<[i64; N]> {
        let Value::Array(parts) = value else { return Err(self.misunderstood()) };
        let numbers = parts.iter().map(|part| self.number(part)).collect::<Result<Vec<_>>>()?;
        numbers.try_into().map_err(|_| self.misunderstood())
    }

    fn misunderstood(&self) -> Error {
        Error::new(
            ErrorKind::Corrupt,
            format!(
                "{}: the server's answer about the {} is not understood",
                clean(self.name()),
                self.kind.word()
            ),
        )
    }

    /// So many permits, if there can be so many.
    fn permits(&self, permits: u32, most: u32) -> Result<u32> {
        if (1..=most).contains(&permits) {
            return Ok(permits);
        }
        Err(self.out_of_range(&format!("{permits} permits"), &format!("1 to {most}")))
    }

    fn out_of_range(&self, what: &str, range: &str) -> Error {
        let name = clean(self.name());
        Error::new(
            ErrorKind::Invalid,
            format!("{name}: {what} cannot be had of a {}; use {range}", self.kind.word()),
        )
    }

    /// Takes a seat among those who wait for the counter to change.
    fn sit(&self, need: u32) -> Seat<'_> {
        self.protocol.ears.2.sit(self.name().as_bytes(), need.into())
    }

    fn until(&self, limit: Option<Duration>) -> Moment {
        limit.map_or(Moment::NEVER, |limit| self.protocol.clock.now() + limit)
    }

    /// Waits on a seat; false when the time is up.
    async fn wait(&self, seat: &mut Seat<'_>, sleep: Option<Duration>, deadline: Moment) -> bool {
        seat.wait(&self.protocol.clock, sleep, deadline).await
    }
}

/// The scripts, as they are in a cluster or out of it.
#[derive(Debug)]
struct Scripts {
    semaphore_set: Arc<Script>,
    semaphore_add: Arc<Script>,
    semaphore_acquire: Arc<Script>,
    semaphore_release: Arc<Script>,
    semaphore_drain: Arc<Script>,
    permits_set: Arc<Script>,
    permits_add: Arc<Script>,
    permits_count: Arc<Script>,
    permits_acquire: Arc<Script>,
    permits_release: Arc<Script>,
    permits_lease: Arc<Script>,
    latch_set: Arc<Script>,
    latch_count_down: Arc<Script>,
    latch_delete: Arc<Script>,
}

impl Scripts {
    /// Those that tell with these commands.
    fn of(tells: &[&str]) -> &'static Self {
        static ONE: OnceLock<Scripts> = OnceLock::new();
        static SHARDED: OnceLock<Scripts> = OnceLock::new();
        static BOTH: OnceLock<Scripts> = OnceLock::new();
        let scripts = match tells {
            ["publish"] => &ONE,
            ["spublish"] => &SHARDED,
            _ => &BOTH,
        };
        scripts.get_or_init(|| Self::new(tells))
    }

    fn new(tells: &[&str]) -> Self {
        macro_rules! script {
            ($name:literal) => {
                Arc::new(Script::new(
                    $name,
                    whole(include_str!(concat!("../scripts/", $name, ".lua")), tells),
                ))
            };
        }
        Self {
            semaphore_set: script!("redisson_semaphore_set"),
            semaphore_add: script!("redisson_semaphore_add"),
            semaphore_acquire: script!("redisson_semaphore_acquire"),
            semaphore_release: script!("redisson_semaphore_release"),
            semaphore_drain: script!("redisson_semaphore_drain"),
            permits_set: script!("redisson_permits_set"),
            permits_add: script!("redisson_permits_add"),
            permits_count: script!("redisson_permits_count"),
            permits_acquire: script!("redisson_permits_acquire"),
            permits_release: script!("redisson_permits_release"),
            permits_lease: script!("redisson_permits_lease"),
            latch_set: script!("redisson_latch_set"),
            latch_count_down: script!("redisson_latch_count_down"),
            latch_delete: script!("redisson_latch_delete"),
        }
    }
}

/// The script with the parts that it names.
fn whole(text: &str, tells: &[&str]) -> String {
    let parts = [
        ("redisson_tell", include_str!("../scripts/redisson_tell.lua")),
        ("redisson_permits_time", include_str!("../scripts/redisson_permits_time.lua")),
        ("rights", include_str!("../scripts/rights.lua")),
    ];
    let text = parts
        .into_iter()
        .fold(text.to_owned(), |text, (name, part)| text.replace(&format!("--@include {name}.lua"), part));
    crate::layout::redisson::tells(&text, tells)
}

/// The examples of the guide compile.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/from-redisson.md")]
struct Guide;

#[cfg(test)]
mod tests;
