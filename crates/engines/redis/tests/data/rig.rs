//! What the tests have in common: three deployments, each started once.

use std::{sync::LazyLock, time::Duration};

use bramah_core::{Error, ErrorKind};
use bramah_lab::{Cluster, Redis as Server, Sentinels, servers::Flavor};
use bramah_redis::{Redis, data::Data};
use serde::{Deserialize, Serialize};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

static ONE: LazyLock<Server> = LazyLock::new(|| Server::start(Flavor::Redis7).unwrap());
static SENTINELS: LazyLock<Sentinels> = LazyLock::new(|| Sentinels::start(Flavor::Redis7, 1).unwrap());
static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| Cluster::start(Flavor::Redis7).unwrap());

/// What is stored in most of the tests.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub(crate) struct Order {
    pub(crate) item: String,
    pub(crate) count: u32,
}

pub(crate) fn order(item: &str, count: u32) -> Order {
    Order { item: item.to_owned(), count }
}

/// Where a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    One,
    Sentinels,
    Cluster,
}

impl On {
    pub(crate) fn url(self) -> String {
        match self {
            Self::One => ONE.url(),
            Self::Sentinels => {
                format!("redis+sentinel://{}/{}", SENTINELS.url_list().join(","), SENTINELS.service())
            }
            Self::Cluster => format!("redis+cluster://{}", CLUSTER.addresses().join(",")),
        }
    }

    pub(crate) fn data(self) -> Data {
        Redis::from_url(&self.url()).unwrap().data()
    }

    /// The servers that have keys.
    pub(crate) fn servers(self) -> Vec<&'static Server> {
        match self {
            Self::One => vec![&ONE],
            Self::Sentinels => vec![SENTINELS.master().unwrap()],
            Self::Cluster => CLUSTER.nodes().iter().collect(),
        }
    }

    /// What redis-cli answers at the server that has the key, which is the second word.
    pub(crate) fn cli(self, words: &[&str]) -> String {
        let server = match self {
            Self::Cluster => &CLUSTER.nodes()[CLUSTER.node_of(Cluster::slot_of(words[1])).unwrap()],
            Self::One | Self::Sentinels => self.servers()[0],
        };
        server.cli(words).unwrap_or_else(|why| panic!("{self:?}: {why}"))
    }

    /// The lines of an answer, in order of the alphabet.
    pub(crate) fn sorted(self, words: &[&str]) -> Vec<String> {
        let mut lines: Vec<String> = self.cli(words).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    /// Whether a key has a ttl of about a minute.
    pub(crate) fn ends_in_a_minute(self, key: &str) -> bool {
        let left: i64 = self.cli(&["PTTL", key]).parse().unwrap();
        left > 0 && left <= 60_000
    }

    pub(crate) fn stays(self, key: &str) -> bool {
        self.cli(&["PTTL", key]) == "-1"
    }
}

/// Runs a test on every deployment.
pub(crate) async fn on_each<F: Future<Output = ()> + Send + 'static>(test: impl Fn(On, Data) -> F) {
    for on in [On::One, On::Sentinels, On::Cluster] {
        if let Err(why) = tokio::spawn(test(on, on.data())).await {
            eprintln!("on {on:?}");
            std::panic::resume_unwind(why.into_panic());
        }
    }
}

/// That it failed so, with all of these in its one line.
pub(crate) fn refused<T: std::fmt::Debug>(done: Result<T, Error>, kind: ErrorKind, parts: &[&str]) {
    let error = done.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(!text.contains('\n'), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}
