//! The bare Redis client: the connection that the engine has, with nothing of ours above it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bramah::Clock;
use redis::{
    AsyncConnectionConfig, ProtocolVersion, PushInfo, RedisConnectionInfo, Script, Value,
    aio::MultiplexedConnection,
};
use tokio::net::TcpStream;

use super::{Result, text};

/// As the engine has it.
const QUEUE: usize = 4096;
const STAMP_NS: u64 = 1_000_000;

/// What locks are taken for, in ms.
pub(super) const TTL_MS: u64 = 30_000;

/// Connects as the engine does. Pushes go to `hear`.
pub(super) async fn connect(
    url: &str,
    hear: impl Fn(PushInfo) + Send + Sync + 'static,
) -> Result<MultiplexedConnection> {
    let socket = TcpStream::connect(url.trim_start_matches("redis://")).await.map_err(text)?;
    socket.set_nodelay(true).map_err(text)?;
    let login = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    let settings = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_connection_timeout(None)
        .set_pipeline_buffer_size(QUEUE)
        .set_push_sender(move |push| {
            hear(push);
            Ok::<(), redis::aio::SendError>(())
        });
    let (connection, driver) =
        MultiplexedConnection::new_with_config(&login, socket, settings).await.map_err(text)?;
    tokio::spawn(driver);
    Ok(connection)
}

/// A script that the server knows.
pub(super) async fn load(connection: &mut MultiplexedConnection, code: &str) -> Result<Arc<str>> {
    let script = Script::new(code);
    script.load_async(connection).await.map_err(text)?;
    Ok(script.get_hash().into())
}

/// `EVALSHA sha keys… args…`
pub(super) async fn call(
    connection: &mut MultiplexedConnection,
    sha: &str,
    keys: &[&str],
    args: &[&str],
) -> Result<Value> {
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(sha).arg(keys.len());
    for word in keys.iter().chain(args) {
        cmd.arg(word);
    }
    match connection.send_packed_command(&cmd).await.map_err(text)? {
        Value::ServerError(error) => Err(format!("the server refused a script: {error}")),
        value => Ok(value),
    }
}

/// How long one call of an empty script takes with nothing beside it, p50 in microseconds. A lock that is handed over by
/// the server cannot change hands sooner.
pub(super) async fn round_trip(url: &str) -> Result<f64> {
    let mut connection = connect(url, drop).await?;
    let nothing = load(&mut connection, "return 1").await?;
    let clock = Clock::boot();
    let mut spans = Vec::new();
    for _ in 0..1000 {
        let began = clock.now();
        call(&mut connection, &nothing, &[], &[]).await?;
        spans.push(clock.now().since(began).as_secs_f64() * 1e6);
    }
    spans.sort_by(f64::total_cmp);
    Ok(spans[spans.len() / 2])
}

/// The scripts of the engine's lock and release, and what it sends with them.
#[derive(Clone)]
pub(super) struct Ours {
    connection: MultiplexedConnection,
    enter: Arc<str>,
    leave: Arc<str>,
    session: Arc<str>,
    stamped_ns: Arc<AtomicU64>,
}

impl Ours {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        let mut connection = connect(url, drop).await?;
        let [enter, leave] = bramah_redis::bench::enter_and_leave();
        let enter = load(&mut connection, &enter).await?;
        let leave = load(&mut connection, &leave).await?;
        let session = format!("{:032x}", u128::from(Clock::boot().now().ns()));
        Ok(Self { connection, enter, leave, session: session.into(), stamped_ns: Arc::default() })
    }

    /// One lock and release of `key`, the `number`th of this session.
    pub(super) async fn pair(&mut self, key: &str, number: u64) -> Result<()> {
        let claim = format!("{}{number:012x}:5000:m:1:1:{TTL_MS}:0:", self.session);
        let flags = if self.stamp() { "ns" } else { "n" };
        let held =
            call(&mut self.connection, &self.enter, &[key], &[&claim, &TTL_MS.to_string(), flags]).await?;
        if !matches!(held, Value::Int(_)) {
            return Err(format!("{key} was not free: {held:?}"));
        }
        match call(&mut self.connection, &self.leave, &[key], &[&claim]).await? {
            Value::Int(2) => Ok(()),
            other => Err(format!("{key} was not held: {other:?}")),
        }
    }

    /// The engine has one grant in a millisecond written down with its fence.
    fn stamp(&self) -> bool {
        let now = Clock::boot().now().ns();
        let due = now.saturating_sub(self.stamped_ns.load(Ordering::Relaxed)) >= STAMP_NS;
        if due {
            self.stamped_ns.store(now, Ordering::Relaxed);
        }
        due
    }
}

/// A pair of plain scripts on one key: `SET NX PX` and a counter, then compare and delete. What a lock with a fence
/// cannot do without.
#[derive(Clone)]
pub(super) struct Least {
    connection: MultiplexedConnection,
    lock: Arc<str>,
    unlock: Arc<str>,
}

impl Least {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        let mut connection = connect(url, drop).await?;
        let lock = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
                    return redis.call('INCR', 'least:mark') end return false";
        let unlock =
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
        let lock = load(&mut connection, lock).await?;
        let unlock = load(&mut connection, unlock).await?;
        Ok(Self { connection, lock, unlock })
    }

    pub(super) async fn pair(&mut self, key: &str, number: u64) -> Result<()> {
        self.lock(key, number).await?;
        self.unlock(key, number).await
    }

    pub(super) async fn lock(&mut self, key: &str, number: u64) -> Result<()> {
        let owner = format!("{number:032x}");
        call(&mut self.connection, &self.lock, &[key], &[&owner, &TTL_MS.to_string()]).await.map(drop)
    }

    pub(super) async fn unlock(&mut self, key: &str, number: u64) -> Result<()> {
        let owner = format!("{number:032x}");
        call(&mut self.connection, &self.unlock, &[key], &[&owner]).await.map(drop)
    }
}
