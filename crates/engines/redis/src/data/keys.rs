//! Whatever lies at a key: whether it does, for how long, and its end.

use std::{collections::BTreeMap, future::poll_fn, pin::Pin, task::Poll, time::Duration};

use bramah_core::Result;
use redis::Value as Reply;

use super::{At, Data, Noun, Target, span};
use crate::{
    driver::{Driver, Slot},
    net::slot,
};

/// How many requests to a cluster are on their way at a time.
const AT_A_TIME: usize = 64;

/// How long a key lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// There is no such key.
    NoKey,
    /// It stays until somebody deletes it.
    Unlimited,
    /// It ends by itself after this time.
    Left(Duration),
}

impl Data {
    /// Ends a key after `ttl`, in place of any ttl that it had. Less than a millisecond counts as one. False if there is no
    /// such key.
    ///
    /// # Errors
    /// `Invalid` for a ttl of zero or longer than Redis can count, and what the engine says.
    pub async fn expire(&self, key: &str, ttl: Duration) -> Result<bool> {
        let at = self.key(key);
        let mut cmd = at.cmd("PEXPIRE");
        cmd.arg(span::millis(ttl, at.target())?);
        at.target().flag(&at.send(cmd).await?)
    }

    /// Takes the ttl from a key, so that it stays. False if it had none, or there is no such key.
    ///
    /// # Errors
    /// What the engine says.
    pub async fn persist(&self, key: &str) -> Result<bool> {
        let at = self.key(key);
        at.target().flag(&at.send(at.cmd("PERSIST")).await?)
    }

    /// How long a key lasts.
    ///
    /// # Errors
    /// What the engine says.
    pub async fn ttl(&self, key: &str) -> Result<Ttl> {
        let at = self.key(key);
        match at.target().integer(&at.send(at.cmd("PTTL")).await?)? {
            -2 => Ok(Ttl::NoKey),
            -1 => Ok(Ttl::Unlimited),
            left => match u64::try_from(left) {
                Ok(left_ms) => Ok(Ttl::Left(Duration::from_millis(left_ms))),
                Err(_) => Err(at.target().unexpected()),
            },
        }
    }

    /// Whether there is something at a key.
    ///
    /// # Errors
    /// What the engine says.
    pub async fn exists(&self, key: &str) -> Result<bool> {
        let at = self.key(key);
        at.target().flag(&at.send(at.cmd("EXISTS")).await?)
    }

    /// Deletes a key, whatever it holds. False if there was none.
    ///
    /// # Errors
    /// What the engine says.
    pub async fn delete(&self, key: &str) -> Result<bool> {
        let at = self.key(key);
        at.target().flag(&at.send(at.cmd("DEL")).await?)
    }

    /// Deletes keys, and tells how many there were. Of none it asks nothing.
    ///
    /// In a cluster it is one request for each slot, and not all or nothing.
    ///
    /// # Errors
    /// What the engine says; in a cluster some of the keys may be gone then, and the same call again deletes the rest.
    pub async fn delete_many<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> Result<u64> {
        let is_cluster = self.0.driver.is_cluster();
        let mut by_slot: BTreeMap<Slot, Vec<&str>> = BTreeMap::new();
        for key in keys {
            let slot = if is_cluster { slot::slot_of(key.as_bytes()) } else { 0 };
            by_slot.entry(slot).or_default().push(key);
        }
        let groups: Vec<_> = by_slot.into_iter().collect();
        let mut deleted = 0;
        for groups in groups.chunks(AT_A_TIME) {
            let requests = groups.iter().map(|(slot, keys)| {
                let mut cmd = redis::cmd("DEL");
                cmd.arg(keys);
                self.send(*slot, cmd, None)
            });
            for (answer, (_, keys)) in all(requests).await.into_iter().zip(groups) {
                let first = keys.first().copied().unwrap_or_default();
                let target = Target { noun: Noun::Key, key: first, part: None };
                deleted += target.count(&answer.map_err(|error| target.explain(error))?)?;
            }
        }
        Ok(deleted)
    }

    fn key(&self, key: &str) -> At {
        At::new(self, Noun::Key, key)
    }
}

/// Waits for all of them at the same time, without a runtime to put them on.
async fn all<F>(requests: impl Iterator<Item = F>) -> Vec<Result<Reply>>
where
    F: Future<Output = Result<Reply>>,
{
    let mut waiting: Vec<Pin<Box<F>>> = requests.map(Box::pin).collect();
    let mut answers: Vec<Option<Result<Reply>>> = waiting.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (request, answer) in waiting.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let Poll::Ready(ready) = request.as_mut().poll(context)
            {
                *answer = Some(ready);
            }
        }
        if answers.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers.into_iter().flatten().collect()
}
