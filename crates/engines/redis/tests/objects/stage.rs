//! The servers that the tests run on, and what others see and do there.

use std::{
    future::Future,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bramah_core::{Clock, Moment};
use bramah_lab::{Cluster, Redis as Server, Reply, Sentinels, Wire, servers::Flavor};
use bramah_redis::Redis;
use tokio::{sync::Mutex, task::JoinHandle};

/// How long anything may take that is not what a test is about. A busy machine may be very slow.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What is told is told sooner than this, and what is found by asking once in a while later.
pub(crate) const AT_ONCE: Duration = Duration::from_millis(350);

/// The servers of one kind, which live as long as this process. One test at a time has them.
pub(crate) struct Stage {
    pub(crate) word: &'static str,
    pub(crate) url: String,
    servers: Servers,
    turn: Mutex<()>,
}

enum Servers {
    One(Server),
    Sentinels(Sentinels),
    Cluster(Cluster),
}

impl Stage {
    fn one() -> &'static Self {
        static STAGE: OnceLock<Stage> = OnceLock::new();
        STAGE.get_or_init(|| {
            let server = Server::start(Flavor::Redis7).unwrap();
            Self::new("one", server.url(), Servers::One(server))
        })
    }

    fn sentinels() -> &'static Self {
        static STAGE: OnceLock<Stage> = OnceLock::new();
        STAGE.get_or_init(|| {
            let sentinels = Sentinels::start(Flavor::Redis7, 1).unwrap();
            let url = format!("redis+sentinel://{}/{}", sentinels.url_list().join(","), sentinels.service());
            Self::new("sentinel", url, Servers::Sentinels(sentinels))
        })
    }

    fn cluster() -> &'static Self {
        static STAGE: OnceLock<Stage> = OnceLock::new();
        STAGE.get_or_init(|| {
            let cluster = Cluster::start(Flavor::Redis7).unwrap();
            let url = format!("redis+cluster://{}", cluster.addresses().join(","));
            Self::new("cluster", url, Servers::Cluster(cluster))
        })
    }

    fn new(word: &'static str, url: String, servers: Servers) -> Self {
        Self { word, url, servers, turn: Mutex::const_new(()) }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// An engine of its own, as another process would have.
    pub(crate) fn redis(&self) -> Redis {
        Redis::from_url(&self.url).unwrap()
    }

    /// The server that has the key.
    pub(crate) fn server(&self, key: &str) -> &Server {
        match &self.servers {
            Servers::One(server) => server,
            Servers::Sentinels(sentinels) => sentinels.master().unwrap(),
            Servers::Cluster(cluster) => &cluster.nodes()[cluster.node_of(Cluster::slot_of(key)).unwrap()],
        }
    }

    /// Asks the server of the command's first key.
    pub(crate) fn call(&self, words: &[&str]) -> Reply {
        self.server(words[1]).call(words).unwrap()
    }

    /// The same by the server's own command line client.
    pub(crate) fn cli(&self, words: &[&str]) -> String {
        self.server(words[1]).cli(words).unwrap()
    }

    /// Calls a script with one key.
    pub(crate) fn eval(&self, script: &str, key: &str, args: &[&str]) -> Reply {
        let words: Vec<_> = ["EVAL", script, "1", key].into_iter().chain(args.iter().copied()).collect();
        self.server(key).call(&words).unwrap()
    }

    /// A message as Redisson sends it.
    pub(crate) fn publish(&self, channel: &str, payload: &str) {
        let word = if self.is_cluster() { "SPUBLISH" } else { "PUBLISH" };
        self.server(channel).call(&[word, channel, payload]).unwrap();
    }

    pub(crate) fn listen(&'static self, channel: &str) -> Listener {
        let mut wire = self.server(channel).wire().unwrap();
        let word = if self.is_cluster() { "SSUBSCRIBE" } else { "SUBSCRIBE" };
        wire.call(&[word, channel]).unwrap();
        Listener { wire, stage: self, channel: channel.to_owned() }
    }

    /// How often somebody has asked the server of this key and wants to be told of changes.
    fn tracked(&self, key: &str) -> u64 {
        let stats = self.server(key).call(&["INFO", "commandstats"]).unwrap().text();
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_client|caching:calls="));
        line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
    }

    /// Starts something that has to wait, and returns when all of `waiters` wait for the key.
    pub(crate) async fn waiting<T: Send + 'static>(
        &self,
        key: &str,
        waiters: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
    ) -> Vec<JoinHandle<T>> {
        let before = self.tracked(key);
        let waiting: Vec<_> = waiters.into_iter().map(tokio::spawn).collect();
        let wanted = before + waiting.len() as u64;
        eventually("those who wait", || {
            let asked = self.tracked(key);
            if asked >= wanted { Ok(()) } else { Err(format!("{asked} of {wanted} have asked")) }
        })
        .await;
        waiting
    }
}

/// A connection that hears what is published to one channel.
pub(crate) struct Listener {
    wire: Wire,
    stage: &'static Stage,
    channel: String,
}

impl Listener {
    /// What was published since the last time.
    pub(crate) fn heard(&mut self) -> Vec<String> {
        const END: &str = "no more";
        self.stage.publish(&self.channel, END);
        let mut heard = Vec::new();
        loop {
            // Each word of ours brings one of the server's, and messages come before the answer.
            let said: Vec<_> = self.wire.call(&["PING"]).unwrap().many().iter().map(Reply::text).collect();
            match said.as_slice() {
                [word, channel, payload] if word.ends_with("message") && *channel == self.channel => {
                    if payload == END {
                        return heard;
                    }
                    heard.push(payload.clone());
                }
                _ => {}
            }
        }
    }
}

/// Runs a test on all kinds of servers.
pub(crate) async fn on_all<F: Future<Output = ()> + Send + 'static>(test: impl Fn(&'static Stage) -> F) {
    for stage in [Stage::one, Stage::sentinels, Stage::cluster] {
        let stage = tokio::task::spawn_blocking(stage).await.unwrap();
        let test = test(stage);
        let done = tokio::spawn(async {
            let _turn = stage.turn.lock().await;
            test.await;
        });
        if let Err(why) = done.await {
            eprintln!("on {}", stage.word);
            std::panic::resume_unwind(why.into_panic());
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

/// What a future gives, which has to be soon.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap()
}

/// A machine that is busy with something else is so for a moment; what is found by a timer is so every time.
pub(crate) fn assert_told(mut spans: Vec<Duration>) {
    spans.sort();
    assert!(spans[spans.len() / 2] < AT_ONCE, "found by a timer: {spans:?}");
}

/// The most that were in at once.
#[derive(Clone, Default)]
pub(crate) struct Gauge(Arc<std::sync::Mutex<(u32, u32)>>);

impl Gauge {
    pub(crate) fn enter(&self, many: u32) {
        let mut gauge = self.0.lock().unwrap();
        gauge.0 += many;
        gauge.1 = gauge.1.max(gauge.0);
    }

    pub(crate) fn leave(&self, many: u32) {
        self.0.lock().unwrap().0 -= many;
    }

    pub(crate) fn most(&self) -> u32 {
        self.0.lock().unwrap().1
    }
}
