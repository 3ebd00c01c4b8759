//! Redisson's lock over the redis crate: its scripts, and its way of waiting. The baseline.
//!
//! As in Redisson, messages come over a connection of their own. Where it does more than a lock needs, that is left out in
//! the baseline's favour: no watchdog, and the latch only where it is asked for.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah::Clock;
use redis::{PushKind, Value, aio::MultiplexedConnection};
use tokio::sync::{Mutex, Semaphore};

use crate::drive::Pairs;

use super::{
    Result,
    bare::{self, TTL_MS},
    text,
};

/// KEYS the lock; ARGV lease, owner. Nil, or how long it is still held.
const ACQUIRE: &str = "\
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])";

/// KEYS the lock, its channel; ARGV what to publish, lease, owner, how to publish.
const UNLOCK: &str = "\
if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end
local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1)
if counter > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 0
end
redis.call('del', KEYS[1])
redis.call(ARGV[4], KEYS[2], ARGV[1])
return 1";

/// The same as shipped, with the latch as the third key and how long to keep it as the fifth argument.
const UNLOCK_WITH_LATCH: &str = "\
local val = redis.call('get', KEYS[3])
if val ~= false then return tonumber(val) end
if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end
local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1)
if counter > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  redis.call('set', KEYS[3], 0, 'px', ARGV[5])
  return 0
end
redis.call('del', KEYS[1])
redis.call(ARGV[4], KEYS[2], ARGV[1])
redis.call('set', KEYS[3], 1, 'px', ARGV[5])
return 1";

const LATCH_MS: &str = "18000";

/// A client: what its locks share.
#[derive(Clone)]
pub(super) struct Redisson {
    connection: MultiplexedConnection,
    acquire: Arc<str>,
    unlock: Arc<str>,
    with_latch: Arc<str>,
    /// A client's id.
    id: Arc<str>,
}

impl Redisson {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        let mut connection = bare::connect(url, drop).await?;
        let acquire = bare::load(&mut connection, ACQUIRE).await?;
        let unlock = bare::load(&mut connection, UNLOCK).await?;
        let with_latch = bare::load(&mut connection, UNLOCK_WITH_LATCH).await?;
        let (one, two) = (u64::from(std::process::id()), Clock::boot().now().ns());
        let id = format!("{one:08x}-0000-4000-8000-{two:012x}").into();
        Ok(Self { connection, acquire, unlock, with_latch, id })
    }

    /// None if it is ours now, else how long it is still held.
    async fn attempt(&mut self, name: &str, owner: &str) -> Result<Option<Duration>> {
        match bare::call(&mut self.connection, &self.acquire, &[name], &[&TTL_MS.to_string(), owner]).await? {
            Value::Nil => Ok(None),
            Value::Int(ms) => Ok(Some(Duration::from_millis(u64::try_from(ms).unwrap_or(TTL_MS)))),
            other => Err(format!("Redisson's acquire answered {other:?}")),
        }
    }

    async fn release(&mut self, name: &str, channel: &str, owner: &str) -> Result<()> {
        let args = ["0", &TTL_MS.to_string(), owner, "publish"];
        match bare::call(&mut self.connection, &self.unlock, &[name, channel], &args).await? {
            Value::Int(1) => Ok(()),
            other => Err(format!("Redisson's unlock answered {other:?}")),
        }
    }

    /// As shipped: the latch is set by the script, and deleted by a command whose answer nobody waits for.
    async fn release_with_latch(
        &mut self,
        name: &str,
        channel: &str,
        owner: &str,
        latch: String,
    ) -> Result<()> {
        let args = ["0", &TTL_MS.to_string(), owner, "publish", LATCH_MS];
        let keys = [name, channel, &latch];
        match bare::call(&mut self.connection, &self.with_latch, &keys, &args).await? {
            Value::Int(1) => {}
            other => return Err(format!("Redisson's unlock answered {other:?}")),
        }
        let mut connection = self.connection.clone();
        tokio::spawn(async move {
            let mut cmd = redis::cmd("DEL");
            cmd.arg(latch);
            let _ = connection.send_packed_command(&cmd).await;
        });
        Ok(())
    }
}

/// Whether the latch is used.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Latch {
    Without,
    AsShipped,
}

/// Locks and releases a name of its own.
pub(super) struct Uncontended {
    client: Redisson,
    name: String,
    channel: String,
    owner: String,
    latch: Latch,
    number: u64,
}

impl Uncontended {
    pub(super) fn workers(client: &Redisson, tasks: usize, latch: Latch) -> Vec<Self> {
        let worker = |n| {
            let name = format!("redisson/{n}");
            Self {
                client: client.clone(),
                channel: channel(&name),
                owner: format!("{}:{n}", client.id),
                name,
                latch,
                number: 0,
            }
        };
        (0..tasks).map(worker).collect()
    }
}

impl Pairs for Uncontended {
    async fn pair(&mut self) -> Result<()> {
        if let Some(left) = self.client.attempt(&self.name, &self.owner).await? {
            return Err(format!("{} was not free for {left:?}", self.name));
        }
        self.number += 1;
        match self.latch {
            Latch::Without => self.client.release(&self.name, &self.channel, &self.owner).await,
            Latch::AsShipped => {
                let latch = format!("redisson_unlock_latch:{{{}}}:{:032x}", self.name, self.number);
                self.client.release_with_latch(&self.name, &self.channel, &self.owner, latch).await
            }
        }
    }
}

fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

/// One lock that the tasks of a process wait for together.
pub(super) struct Waiting {
    client: Redisson,
    name: String,
    channel: String,
    permits: Arc<Semaphore>,
    messages: MultiplexedConnection,
    /// How many need the subscription.
    subscribers: Mutex<u64>,
    threads: AtomicU64,
}

impl Waiting {
    pub(super) async fn connect(url: &str, name: &str) -> Result<Arc<Self>> {
        let client = Redisson::connect(url).await?;
        let permits = Arc::new(Semaphore::new(0));
        let woken = permits.clone();
        let messages = bare::connect(url, move |push| {
            // One message, one of those who wait.
            if matches!(push.kind, PushKind::Message) {
                woken.add_permits(1);
            }
        })
        .await?;
        Ok(Arc::new(Self {
            client,
            name: name.to_owned(),
            channel: channel(name),
            permits,
            messages,
            subscribers: Mutex::default(),
            threads: AtomicU64::new(0),
        }))
    }

    /// The next task's owner.
    pub(super) fn owner(&self) -> String {
        format!("{}:{}", self.client.id, self.threads.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) async fn lock(&self, owner: &str) -> Result<()> {
        let mut client = self.client.clone();
        if client.attempt(&self.name, owner).await?.is_none() {
            return Ok(());
        }
        self.subscribe().await?;
        // Again: it may have been released before the subscription was there.
        while let Some(left) = client.attempt(&self.name, owner).await? {
            if let Ok(permit) = tokio::time::timeout(left, self.permits.acquire()).await {
                permit.map_err(text)?.forget();
            }
        }
        self.unsubscribe().await
    }

    pub(super) async fn unlock(&self, owner: &str) -> Result<()> {
        self.client.clone().release(&self.name, &self.channel, owner).await
    }

    async fn subscribe(&self) -> Result<()> {
        let mut subscribers = self.subscribers.lock().await;
        if *subscribers == 0 {
            self.messages.clone().subscribe(&self.channel).await.map_err(text)?;
        }
        *subscribers += 1;
        Ok(())
    }

    async fn unsubscribe(&self) -> Result<()> {
        let mut subscribers = self.subscribers.lock().await;
        *subscribers -= 1;
        if *subscribers == 0 {
            self.messages.clone().unsubscribe(&self.channel).await.map_err(text)?;
        }
        Ok(())
    }
}
