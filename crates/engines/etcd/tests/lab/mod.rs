//! Sessions on members that fail.

#![allow(dead_code, reason = "each test has its own")]

pub(crate) mod naive;
pub(crate) mod raw;

use std::{sync::Arc, time::Duration};

use bramah_core::{Engine, Guard, Name, Reply, Session};
use bramah_etcd::{Config, Etcd};
use bramah_lab::{
    Etcd as Server, Proxy,
    servers::{self, Flavor},
};

pub(crate) const SOON: Duration = Duration::from_secs(40);

/// The flavors that this machine has; the others are reported.
pub(crate) fn flavors() -> impl Iterator<Item = Flavor> {
    Flavor::ETCD.into_iter().filter(|flavor| {
        let got = servers::get(*flavor);
        if let Err(why) = &got {
            servers::missing(*flavor, why);
        }
        got.is_ok()
    })
}

/// An engine with connections of its own.
pub(crate) fn engine(url: &str) -> Arc<dyn Engine> {
    Etcd::new(&Config::from_url(url).unwrap()).unwrap().into()
}

pub(crate) fn url(server: &Server, members: &[usize]) -> String {
    let addresses = server.addresses();
    let some: Vec<&str> = members.iter().map(|member| &*addresses[*member]).collect();
    format!("etcd://{}", some.join(","))
}

/// A session that knows these members.
pub(crate) async fn session_at(server: &Server, members: &[usize], ttl: Duration) -> Session {
    Session::builder(engine(&url(server, members))).ttl(ttl).open().await.unwrap()
}

/// A proxy before each member.
pub(crate) struct Proxied {
    pub(crate) proxies: Vec<Proxy>,
}

impl Proxied {
    pub(crate) fn before(server: &Server) -> Self {
        Self { proxies: server.proxies().unwrap() }
    }

    pub(crate) fn url(&self) -> String {
        let addresses: Vec<String> = self.proxies.iter().map(Proxy::address).collect();
        format!("etcd://{}", addresses.join(","))
    }

    pub(crate) async fn session(&self, ttl: Duration) -> Session {
        Session::builder(engine(&self.url())).ttl(ttl).open().await.unwrap()
    }

    pub(crate) fn all(&self, change: impl Fn(&Proxy)) {
        self.proxies.iter().for_each(change);
    }
}

/// The members of three that are not this one.
pub(crate) fn others(of: usize) -> Vec<usize> {
    (0..3).filter(|member| *member != of).collect()
}

/// Waits for a lock, however often etcd is away.
pub(crate) fn waiter(session: &Session, name: &str) -> tokio::task::JoinHandle<Guard> {
    let mutex = session.mutex(name).unwrap();
    tokio::spawn(async move {
        loop {
            match mutex.lock().await {
                Ok(guard) => return guard,
                Err(error) if error.kind().is_transient() => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    })
}

pub(crate) async fn got(waiter: tokio::task::JoinHandle<Guard>) -> Guard {
    tokio::time::timeout(SOON, waiter).await.expect("no grant").unwrap()
}

/// Waits until so many wait in a line.
pub(crate) async fn waiting(session: &Session, name: &str, count: usize) {
    let name = Name::new(name).unwrap();
    let look = async {
        loop {
            let line = session.inspect(&name).await.ok().flatten();
            if line.map_or(0, |line| line.waiters().count()) == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, look).await.expect("not so many wait");
}

/// The answer, once etcd is there again.
pub(crate) async fn until_ok<T>(call: impl Fn() -> Reply<T>) -> T {
    let calls = async {
        loop {
            match call().await {
                Ok(answer) => return answer,
                Err(error) if error.kind().is_transient() => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(SOON, calls).await.expect("no answer")
}

/// Kills all members and starts them again.
pub(crate) fn restart(server: &Server) {
    let all: Vec<usize> = (0..server.count()).collect();
    all.iter().for_each(|member| server.kill(*member).unwrap());
    std::thread::scope(|scope| {
        for member in &all {
            scope.spawn(|| server.start_again(*member).unwrap());
        }
    });
    server.await_leader(&all).unwrap();
}

/// Waits until nobody is in any line.
pub(crate) fn until_free(server: &Server) {
    bramah_lab::until("empty lines", SOON, || {
        let keys = server.ctl(&["get", "", "--prefix", "--keys-only"])?;
        let left: Vec<&str> = keys.lines().filter(|key| !key.is_empty() && !key.starts_with('/')).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("left over: {left:?}")) }
    })
    .unwrap();
}

/// Closes the sessions, after which nothing is left: no key, and no lease.
pub(crate) async fn settled<const N: usize>(server: &Server, sessions: [Session; N]) {
    for session in sessions {
        assert_eq!(session.close(SOON).await.left, []);
    }
    until_free(server);
    bramah_lab::until("no leases", SOON, || {
        let leases = server.ctl(&["lease", "list"])?;
        if leases.lines().count() <= 1 { Ok(()) } else { Err(leases) }
    })
    .unwrap();
}
