//! The server that the tests run on, one at a time, and Redisson's side of it: its scripts' effects, by hand.

use std::{future::Future, sync::OnceLock, time::Duration};

use bramah_core::{Clock, LineView, Moment, Mutex, Name, Session};
use bramah_lab::{Redis as Server, Reply, Wire, servers::Flavor};
use bramah_redis::Redis;
use tokio::{sync::MutexGuard, task::JoinHandle};

/// How long anything may take that is not what a test is about. A busy machine may be very slow.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// An owner as Redisson writes it: a client and a thread.
pub(crate) const JAVA: &str = "8743c9c0-0795-4907-87fd-6c719a6b4586:58";

/// Takes an RLock, again if it is the owner's. Nothing if it got it, else what is left of the other's time, ms.
const LOCK: &str = "if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then \
                    redis.call('HINCRBY', KEYS[1], ARGV[2], 1) redis.call('PEXPIRE', KEYS[1], ARGV[1]) return nil end \
                    return redis.call('PTTL', KEYS[1])";

/// Gives it back once. Nothing if it is not the owner's, 1 if it is free now.
const UNLOCK: &str = "if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return nil end \
                      if redis.call('HINCRBY', KEYS[1], ARGV[2], -1) > 0 then return 0 end \
                      redis.call('DEL', KEYS[1]) redis.call('PUBLISH', ARGV[1], '0') return 1";

/// The server, for one test at a time, and empty when that begins.
pub(crate) struct Stage {
    server: &'static Server,
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    pub(crate) async fn enter() -> Self {
        static SERVER: OnceLock<Server> = OnceLock::new();
        static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let _turn = TURN.lock().await;
        let server = SERVER.get_or_init(|| Server::start(Flavor::Redis7).unwrap());
        server.call(&["FLUSHALL"]).unwrap();
        Self { server, _turn }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/?layout=redisson", self.server.url())
    }

    pub(crate) fn redis(&self) -> Redis {
        Redis::from_url(&self.url()).unwrap()
    }

    /// A session with the ttl that Redisson has as well.
    pub(crate) async fn session(&self) -> Session {
        self.session_of(Session::DEFAULT_TTL).await
    }

    pub(crate) async fn session_of(&self, ttl: Duration) -> Session {
        open(&self.url(), ttl).await
    }

    /// One whose mutexes are fair locks.
    pub(crate) async fn fair(&self, ttl: Duration) -> Session {
        open(&format!("{}&fair=true", self.url()), ttl).await
    }

    /// What redis-cli says.
    pub(crate) fn cli(&self, words: &[&str]) -> String {
        self.server.cli(words).unwrap()
    }

    /// The same as lines.
    pub(crate) fn lines(&self, words: &[&str]) -> Vec<String> {
        self.cli(words).lines().map(str::to_owned).collect()
    }

    pub(crate) fn number(&self, words: &[&str]) -> i64 {
        let said = self.server.call(words).unwrap().text();
        said.parse().unwrap_or_else(|_| panic!("{words:?}: {said:?}"))
    }

    pub(crate) fn pttl(&self, key: &str) -> i64 {
        self.number(&["PTTL", key])
    }

    pub(crate) fn exists(&self, key: &str) -> bool {
        self.number(&["EXISTS", key]) == 1
    }

    /// `tryLock` in Java: nothing if it got the lock.
    pub(crate) fn java_lock(&self, name: &str, owner: &str, lease_ms: u32) -> Option<i64> {
        let lease = lease_ms.to_string();
        match self.server.call(&["EVAL", LOCK, "1", name, &lease, owner]).unwrap() {
            Reply::Nil => None,
            left => Some(left.text().parse().unwrap()),
        }
    }

    /// `unlock` in Java: nothing where that throws.
    pub(crate) fn java_unlock(&self, name: &str, owner: &str) -> Option<i64> {
        let channel = format!("redisson_lock__channel:{{{name}}}");
        match self.server.call(&["EVAL", UNLOCK, "1", name, &channel, owner]).unwrap() {
            Reply::Nil => None,
            free => Some(free.text().parse().unwrap()),
        }
    }

    /// The field and the count of the one who holds a mutex.
    pub(crate) fn holder(&self, name: &str) -> (String, String) {
        let [owner, count]: [String; 2] = self.lines(&["HGETALL", name]).try_into().unwrap();
        (owner, count)
    }

    pub(crate) fn listen(&self, channel: &str) -> Listener {
        let mut wire = self.server.wire().unwrap();
        wire.call(&["SUBSCRIBE", channel]).unwrap();
        Listener { wire, server: self.server, channel: channel.to_owned() }
    }

    /// Starts something that has to wait, and returns when it is told of changes to what it waits for.
    pub(crate) async fn waiting<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let waiting = tokio::spawn(work);
        eventually("somebody who watches", || {
            let stats = self.server.call(&["INFO", "stats"])?.text();
            let watched = stats.lines().find_map(|line| line.strip_prefix("tracking_total_keys:"));
            if watched.is_some_and(|count| count.trim() != "0") { Ok(()) } else { Err("nobody".into()) }
        })
        .await;
        waiting
    }

    /// Waits until the time of a key has been prolonged.
    pub(crate) async fn await_renewal(&self, key: &str) {
        let mut last = self.pttl(key);
        eventually("a renewal", || {
            let before = std::mem::replace(&mut last, self.pttl(key));
            if last > before { Ok(()) } else { Err(format!("{last} ms are left")) }
        })
        .await;
    }
}

pub(crate) async fn open(url: &str, ttl: Duration) -> Session {
    Session::builder(Redis::from_url(url).unwrap()).ttl(ttl).open().await.unwrap()
}

pub(crate) fn mutex(session: &Session, name: &str) -> Mutex {
    session.mutex(name).unwrap()
}

/// The line of a name in which somebody stands.
pub(crate) async fn line(session: &Session, name: &str) -> LineView {
    session.inspect(&Name::new(name).unwrap()).await.unwrap().expect("somebody is there")
}

/// A connection that hears what is published to one channel.
pub(crate) struct Listener {
    wire: Wire,
    server: &'static Server,
    channel: String,
}

impl Listener {
    /// What was published since the last time.
    pub(crate) fn heard(&mut self) -> Vec<String> {
        const END: &str = "no more";
        self.server.call(&["PUBLISH", &self.channel, END]).unwrap();
        let mut heard = Vec::new();
        loop {
            // Each word of ours brings one of the server's, and messages come before the answer.
            let said: Vec<_> = self.wire.call(&["PING"]).unwrap().many().iter().map(Reply::text).collect();
            match said.as_slice() {
                [word, _, payload] if word == "message" && payload == END => return heard,
                [word, _, payload] if word == "message" => heard.push(payload.clone()),
                _ => {}
            }
        }
    }
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn now() -> Moment {
    Clock::boot().now()
}

/// Asks again and again until there is something.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let began = now();
    loop {
        match ask() {
            Ok(found) => return found,
            Err(why) if now().since(began) > PATIENCE => panic!("{what}: not within {PATIENCE:?} ({why})"),
            Err(_) => tokio::time::sleep(ms(5)).await,
        }
    }
}

/// What a future gives, which has to be within a patience.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it takes too long")
}
