//! Three members, clients that can be cut off from each of them, and what is asked of every failure.

#![allow(dead_code, reason = "each test has its own")]

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah_core::{Clock, Engine, Guard, Look, Moment, Name, Scope, Session};
use bramah_lab::{Fault, Proxy, ZooKeeper as Ensemble};
use bramah_zookeeper::ZooKeeper;
use tokio::{sync::MutexGuard, task::JoinHandle};

pub(crate) const SOON: Duration = Duration::from_secs(40);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// An ensemble of three. One test at a time: each has as many Java processes as this machine can run.
pub(crate) struct Stage {
    pub(crate) ensemble: Ensemble,
    _turn: MutexGuard<'static, ()>,
}

pub(crate) async fn stage() -> Stage {
    stage_with(&[]).await
}

/// With these lines in the members' configuration.
pub(crate) async fn stage_with(settings: &[(&str, &str)]) -> Stage {
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let turn = TURN.lock().await;
    Stage { ensemble: tokio::task::block_in_place(|| Ensemble::with(3, settings)).unwrap(), _turn: turn }
}

impl Stage {
    /// A session with a way of its own to each of these members.
    pub(crate) async fn client(&self, members: &[usize], ttl: Duration) -> (Session, Vec<Proxy>) {
        let addresses = self.ensemble.addresses();
        let proxies: Vec<Proxy> =
            members.iter().map(|member| Proxy::to(&addresses[*member]).unwrap()).collect();
        let hosts: Vec<String> = proxies.iter().map(Proxy::address).collect();
        let url = format!("zookeeper://{}/faults?connect_timeout=20s", hosts.join(","));
        (open(&url, ttl).await, proxies)
    }

    /// A session that nothing is done to.
    pub(crate) async fn session(&self, ttl: Duration) -> Session {
        open(&self.url(), ttl).await
    }

    pub(crate) fn url(&self) -> String {
        format!("zookeeper://{}/faults?connect_timeout=20s", self.ensemble.connect_string())
    }

    pub(crate) fn others(&self, member: usize) -> Vec<usize> {
        (0..3).filter(|other| *other != member).collect()
    }

    pub(crate) fn follower(&self) -> usize {
        let leader = self.ensemble.leader().unwrap();
        self.others(leader)[0]
    }

    /// Nobody stands in any line, and no node of a session is left.
    pub(crate) async fn is_empty(&self) {
        let engine: Arc<dyn Engine> = ZooKeeper::from_url(&self.url()).unwrap().into();
        let empty = async {
            loop {
                match engine.survey(&Scope::All, Look::Once).await {
                    Ok(survey) if survey.lines.is_empty() => return,
                    _ => tokio::time::sleep(ms(50)).await,
                }
            }
        };
        soon("empty lines", empty).await;
        self.counts("zk_ephemerals_count", 0).await;
    }

    /// Closes the sessions, after which nothing is left: no node, and no session with ZooKeeper.
    pub(crate) async fn settled<const N: usize>(&self, sessions: [Session; N]) {
        for session in sessions {
            assert_eq!(session.close(SOON).await.left, []);
        }
        self.is_empty().await;
        self.counts("zk_global_sessions", 0).await;
    }

    /// Waits until the leader counts so many of something.
    async fn counts(&self, what: &str, count: u64) {
        let line = format!("{what}\t{count}");
        let counted = || {
            let told = self.ensemble.ask(self.ensemble.leader()?, "mntr")?;
            let found = told.lines().find(|told| told.starts_with(what)).unwrap_or(what);
            if found == line { Ok(()) } else { Err(found.to_owned()) }
        };
        tokio::task::block_in_place(|| bramah_lab::until(&line, SOON, counted)).unwrap();
    }
}

async fn open(url: &str, ttl: Duration) -> Session {
    let engine: Arc<dyn Engine> = ZooKeeper::from_url(url).unwrap().into();
    Session::builder(engine).ttl(ttl).open().await.unwrap()
}

pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.unwrap_or_else(|_| panic!("{what} did not come"))
}

pub(crate) fn now() -> Moment {
    Clock::boot().now()
}

/// What a client says does not arrive, and it hears nothing.
pub(crate) fn cut_off(proxies: &[Proxy]) {
    for proxy in proxies {
        proxy.requests(Fault::Hold);
        proxy.replies(Fault::Hold);
    }
}

/// The end of that. What was held comes too late, and on connections that are no more.
pub(crate) fn reconnect(proxies: &[Proxy]) {
    for proxy in proxies {
        proxy.sever();
        proxy.requests(Fault::Pass);
        proxy.replies(Fault::Pass);
    }
}

/// Takes a lock however often the ensemble is away.
pub(crate) async fn lock(session: &Session, name: &str) -> Guard {
    let mutex = session.mutex(name).unwrap();
    let patient = async {
        loop {
            match mutex.lock().await {
                Ok(guard) => return guard,
                Err(error) if error.kind().is_transient() => tokio::time::sleep(ms(20)).await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    soon("a grant", patient).await
}

/// Waits for a lock, and tells when it had it.
pub(crate) fn waiter(session: &Session, name: &'static str) -> JoinHandle<(Moment, Guard)> {
    let session = session.clone();
    tokio::spawn(async move {
        let guard = lock(&session, name).await;
        (now(), guard)
    })
}

/// When a loss was told.
pub(crate) fn loss(guard: &Arc<Guard>) -> JoinHandle<Moment> {
    let guard = guard.clone();
    tokio::spawn(async move {
        guard.lost().await;
        now()
    })
}

/// Waits until so many wait in line.
pub(crate) async fn waiting(session: &Session, name: &str, count: usize) {
    let name = Name::new(name).unwrap();
    let look = async {
        loop {
            if let Ok(Some(line)) = session.inspect(&name).await
                && line.waiters().count() == count
            {
                return;
            }
            tokio::time::sleep(ms(10)).await;
        }
    };
    soon(&format!("{count} waiters"), look).await;
}

/// What several tasks do under one lock: whether two were in at once, and whether fences rose.
#[derive(Default)]
pub(crate) struct Counter {
    inside: AtomicBool,
    last: Mutex<u64>,
    count: AtomicU64,
    over: AtomicBool,
}

impl Counter {
    async fn step(&self, session: &Session) {
        let guard = lock(session, "counter").await;
        // A hold that was lost meanwhile is nobody's overlap.
        if guard.is_held() {
            assert!(!self.inside.swap(true, Ordering::SeqCst), "two are in");
            {
                let fence = guard.fence().unwrap().get();
                let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
                assert!(fence > *last, "{fence} after {last}");
                *last = fence;
            }
            tokio::task::yield_now().await;
            self.inside.store(false, Ordering::SeqCst);
            self.count.fetch_add(1, Ordering::SeqCst);
        }
        guard.release().await;
    }

    /// Waits until so many more were in.
    async fn goes_on(&self) {
        let before = self.count.load(Ordering::SeqCst);
        let more = async {
            while self.count.load(Ordering::SeqCst) < before + 8 {
                tokio::time::sleep(ms(10)).await;
            }
        };
        soon("the next turns", more).await;
    }
}

/// Six tasks lock and release while harm is done, once for each of the rounds, and they go on after each.
pub(crate) async fn counts_under(stage: &Stage, rounds: usize, harm: impl Fn(&Ensemble)) {
    let sessions =
        [stage.session(ms(5000)).await, stage.session(ms(5000)).await, stage.session(ms(5000)).await];
    let counter = Arc::new(Counter::default());
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..6 {
        let (session, counter) = (sessions[task % 3].clone(), counter.clone());
        tasks.spawn(async move {
            while !counter.over.load(Ordering::SeqCst) {
                counter.step(&session).await;
            }
        });
    }
    counter.goes_on().await;
    for _ in 0..rounds {
        tokio::task::block_in_place(|| harm(&stage.ensemble));
        counter.goes_on().await;
    }
    counter.over.store(true, Ordering::SeqCst);
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    for session in sessions {
        assert_eq!(session.close(SOON).await.left, []);
    }
    stage.is_empty().await;
}
