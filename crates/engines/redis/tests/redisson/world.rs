//! Where Redisson and we meet: servers, and a Redisson on them that all tests share.

use std::{
    future::Future,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah_core::{Clock, Guard, Lock, Moment, Session};
use bramah_lab::{Cluster, Redis as Server, Reply, servers::Flavor};
use bramah_redis::Redis;
use tokio::task::JoinHandle;

use crate::{
    PATIENCE,
    asked::Asked,
    java::{CURRENT, Java, OLDER},
};

enum Store {
    One(Box<Server>),
    Cluster(Cluster),
}

/// A deployment, and a Redisson that is never killed.
pub(crate) struct World {
    pub(crate) version: &'static str,
    store: Store,
    pub(crate) java: Java,
    asked: Asked,
}

type Started = LazyLock<Option<World>>;

static WORLDS: [Started; 3] = [
    LazyLock::new(|| World::start(CURRENT, Store::One(one_node().into()))),
    LazyLock::new(|| World::start(OLDER, Store::One(one_node().into()))),
    LazyLock::new(|| World::start(CURRENT, Store::Cluster(Cluster::start(Flavor::Redis7).unwrap()))),
];
static NAMES: AtomicU64 = AtomicU64::new(1);

fn one_node() -> Server {
    Server::start(Flavor::Redis7).unwrap()
}

/// Runs a test in every world at the same time.
pub(crate) async fn everywhere<F: Future<Output = ()> + Send + 'static>(test: impl Fn(&'static World) -> F) {
    let worlds = std::thread::scope(|scope| {
        let starting = WORLDS.each_ref().map(|world| scope.spawn(|| LazyLock::force(world).as_ref()));
        starting.map(|it| it.join().unwrap_or_else(|why| std::panic::resume_unwind(why)))
    });
    let running: Vec<_> =
        worlds.into_iter().flatten().map(|world| (world, tokio::spawn(test(world)))).collect();
    for (world, test) in running {
        if let Err(why) = test.await {
            eprintln!("with {}", world.label());
            std::panic::resume_unwind(why.into_panic());
        }
    }
}

impl World {
    fn start(version: &'static str, store: Store) -> Option<Self> {
        let java = Java::start(version, &[&store.addresses()])?;
        let asked = Asked::default();
        for node in store.nodes() {
            asked.listen(node);
        }
        Some(Self { version, store, java, asked })
    }

    fn label(&self) -> String {
        let place = match self.store {
            Store::One(_) => "one node",
            Store::Cluster(_) => "a cluster",
        };
        format!("redisson {} on {place}", self.version)
    }

    /// Another process with a Redisson, to be killed or frozen.
    pub(crate) fn another(&self) -> Java {
        let start = || Java::start(self.version, &[&self.store.addresses()]);
        tokio::task::block_in_place(start).expect("there is one already")
    }

    /// A name that no other test uses.
    pub(crate) fn name(&self, what: &str) -> String {
        format!("{what}/{}", NAMES.fetch_add(1, Ordering::Relaxed))
    }

    /// The node with this name's keys.
    fn node(&self, name: &str) -> &Server {
        match &self.store {
            Store::One(server) => server,
            Store::Cluster(cluster) => &cluster.nodes()[cluster.node_of(Cluster::slot_of(name)).unwrap()],
        }
    }

    /// A command to the node with this name's keys.
    pub(crate) fn call(&self, name: &str, words: &[&str]) -> Reply {
        self.node(name).call(words).unwrap_or_else(|why| panic!("{words:?}: {why}"))
    }

    /// Where sessions of ours open, with these options too: `&fair=true`.
    pub(crate) fn url(&self, options: &str) -> String {
        match &self.store {
            Store::One(server) => format!("{}?layout=redisson{options}", server.url()),
            Store::Cluster(cluster) => {
                format!("redis+cluster://{}?layout=redisson{options}", cluster.addresses().join(","))
            }
        }
    }

    /// A session of ours, as another process would have.
    pub(crate) async fn session(&self, ttl: Duration, options: &str) -> Session {
        open(&self.url(options), ttl).await
    }

    /// Begins to wait, and returns when the server has refused it: from then on it sleeps until it is told.
    pub(crate) async fn wait_for(&self, lock: &Lock) -> Waiting {
        let name = lock.name().to_string();
        let before = self.asked.count(&name);
        let lock = lock.clone();
        let waiting = tokio::spawn(async move {
            let guard = lock.lock().await.unwrap_or_else(|why| panic!("{why}"));
            (now(), guard)
        });
        eventually(&format!("a waiter of ours for {name}"), || {
            if self.asked.count(&name) > before { Ok(()) } else { Err("none".into()) }
        })
        .await;
        Waiting(waiting)
    }

    /// Waits until so many processes are told of a channel's messages.
    pub(crate) async fn await_subscribers(&self, name: &str, channel: &str, count: usize) {
        let word = match self.store {
            Store::One(_) => "NUMSUB",
            Store::Cluster(_) => "SHARDNUMSUB",
        };
        eventually(&format!("{count} who listen to {channel}"), || {
            let told = self.call(name, &["PUBSUB", word, channel]).many();
            let found = told.get(1).map(Reply::text).unwrap_or_default();
            if found == count.to_string() { Ok(()) } else { Err(format!("there are {found}")) }
        })
        .await;
    }

    /// Waits until so many stand in the queue of a fair lock.
    pub(crate) async fn await_queue(&self, name: &str, count: usize) {
        let queue = format!("redisson_lock_queue:{{{name}}}");
        eventually(&format!("{count} in the queue for {name}"), || {
            let found = self.call(name, &["LLEN", &queue]).text();
            if found == count.to_string() { Ok(()) } else { Err(format!("there are {found}")) }
        })
        .await;
    }
}

/// A task of ours that waits for a lock.
pub(crate) struct Waiting(JoinHandle<(Moment, Guard)>);

impl Waiting {
    pub(crate) fn waits(&self) -> bool {
        !self.0.is_finished()
    }

    /// When it got the lock, and its hold.
    pub(crate) async fn finish(self) -> (Moment, Guard) {
        tokio::time::timeout(PATIENCE, self.0).await.expect("it is free").unwrap()
    }
}

impl Store {
    fn nodes(&self) -> &[Server] {
        match self {
            Self::One(server) => std::slice::from_ref(&**server),
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }

    fn addresses(&self) -> String {
        match self {
            Self::One(server) => server.url(),
            Self::Cluster(cluster) => {
                let each: Vec<_> = cluster.addresses().iter().map(|at| format!("redis://{at}")).collect();
                each.join(",")
            }
        }
    }
}

pub(crate) async fn open(url: &str, ttl: Duration) -> Session {
    let engine = Redis::from_url(url).unwrap_or_else(|why| panic!("{url}: {why}"));
    Session::builder(engine).ttl(ttl).open().await.unwrap_or_else(|why| panic!("{url}: {why}"))
}

/// Ends a session. One that is only dropped has its thread wait, and the others on it.
pub(crate) async fn close(session: Session) {
    let closed = session.close(PATIENCE).await;
    assert!(closed.left.is_empty(), "{closed:?}");
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
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}
