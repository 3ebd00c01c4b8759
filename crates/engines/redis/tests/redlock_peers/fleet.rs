//! Masters that know nothing of each other, some of them down.

use std::{
    fs,
    future::Future,
    path::{Path, PathBuf},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah_core::{ErrorKind, Guard, Lock, Moment, Release, Result, Session};
use bramah_lab::{Redis as Server, Signal, servers::Flavor, until};
use bramah_redis::redlock::Redlock;
use tokio::task::JoinHandle;

use crate::{PATIENCE, asked::Asked, now};

/// What has become of the first master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    Up,
    /// Nobody listens.
    Killed,
    /// Connections are made, and nothing is answered.
    Frozen,
}

pub(crate) struct Fleet {
    masters: Vec<Server>,
    first: First,
    /// For each of the masters.
    asked: Vec<Asked>,
}

type Started = LazyLock<Fleet>;

/// All tests share them, with locks of their own.
static FLEETS: [Started; 4] = [
    LazyLock::new(|| Fleet::start(3, First::Up)),
    LazyLock::new(|| Fleet::start(3, First::Killed)),
    LazyLock::new(|| Fleet::start(5, First::Up)),
    LazyLock::new(|| Fleet::start(5, First::Frozen)),
];
static NAMES: AtomicU64 = AtomicU64::new(1);

/// Three masters that are all there.
pub(crate) fn three() -> &'static Fleet {
    &FLEETS[0]
}

pub(crate) fn fleets() -> [&'static Fleet; 4] {
    FLEETS.each_ref().map(|fleet| tokio::task::block_in_place(|| LazyLock::force(fleet)))
}

/// Runs tests at the same time, and says which has failed.
pub(crate) async fn together<F: Future<Output = ()> + Send + 'static>(
    tests: impl IntoIterator<Item = (String, F)>,
) {
    let running: Vec<_> = tests.into_iter().map(|(label, test)| (label, tokio::spawn(test))).collect();
    for (label, test) in running {
        if let Err(why) = test.await {
            eprintln!("with {label}");
            std::panic::resume_unwind(why.into_panic());
        }
    }
}

/// A name that no other test uses.
pub(crate) fn fresh(what: &str) -> String {
    format!("{what}/{}", NAMES.fetch_add(1, Ordering::Relaxed))
}

impl Fleet {
    pub(crate) fn start(count: usize, first: First) -> Self {
        let masters: Vec<_> = (0..count).map(|_| Server::start(Flavor::Redis7).unwrap()).collect();
        let asked: Vec<_> = masters.iter().map(|_| Asked::default()).collect();
        for (master, asked) in masters.iter().zip(&asked) {
            asked.listen(master);
        }
        Self { masters, first: First::Up, asked }.but(first)
    }

    /// Lets the first one fail.
    pub(crate) fn but(self, first: First) -> Self {
        match first {
            First::Up => {}
            // Not by its owner, who would keep its directory, and is never dropped.
            First::Killed => {
                self.masters[0].signal(Signal::KILL).unwrap();
                until("its end", PATIENCE, || match self.masters[0].pid() {
                    Some(_) => Err("it runs".into()),
                    None => Ok(()),
                })
                .unwrap();
            }
            First::Frozen => self.masters[0].signal(Signal::STOP).unwrap(),
        }
        Self { first, ..self }
    }

    pub(crate) fn label(&self) -> String {
        format!("{} masters, the first one {:?}", self.masters.len(), self.first)
    }

    pub(crate) fn masters(&self) -> Vec<&Server> {
        self.masters.iter().collect()
    }

    /// Those which answer, and where they are.
    fn live(&self) -> impl Iterator<Item = (usize, &Server)> {
        self.masters.iter().enumerate().skip(usize::from(self.first != First::Up))
    }

    /// Where sessions of ours open, with these options too: `&layout=redisson`.
    pub(crate) fn url(&self, options: &str) -> String {
        let each: Vec<_> = self.masters.iter().map(Server::address).collect();
        format!("redlock://{}?restart=trust&node_timeout=500ms{options}", each.join(","))
    }

    /// A session of ours, as another process would have.
    pub(crate) async fn session(&self, ttl: Duration, options: &str) -> Session {
        open(&self.url(options), ttl).await
    }

    /// So many that no other claim has as many.
    pub(crate) fn majority(&self) -> usize {
        self.masters.len() / 2 + 1
    }

    /// Begins to wait, and returns when so many have refused it, which is why it has to: from then on it sleeps until it
    /// is told.
    pub(crate) async fn wait_for(&self, lock: &Lock, key: &str, refused: usize) -> Waiting {
        let counts = || self.live().map(|(at, _)| self.asked[at].count(key)).collect::<Vec<_>>();
        let before = counts();
        let lock = lock.clone();
        let waiting = tokio::spawn(async move {
            let guard = lock.lock().await.unwrap_or_else(|why| panic!("{why}"));
            (now(), guard)
        });
        eventually(&format!("a waiter of ours for {key}"), || {
            let now = counts();
            if before.iter().zip(&now).filter(|(before, now)| now > before).count() >= refused {
                Ok(())
            } else {
                Err(format!("from {before:?} to {now:?}"))
            }
        })
        .await;
        Waiting(waiting)
    }

    /// Waits until nobody has the key any more.
    pub(crate) async fn await_free(&self, key: &str) {
        eventually(&format!("{key} to be free"), || {
            for (_, master) in self.live() {
                let found = master.call(&["EXISTS", key])?.text();
                if found != "0" {
                    return Err(format!("{} has it", master.address()));
                }
            }
            Ok(())
        })
        .await;
    }
}

/// A machine that is busy starting Java may be too slow for the first time.
pub(crate) async fn open(url: &str, ttl: Duration) -> Session {
    let began = now();
    loop {
        match try_open(url, ttl).await {
            Ok(session) => return session,
            Err(why) if why.kind() != ErrorKind::Unavailable || now().since(began) > PATIENCE => {
                panic!("{url}: {why}")
            }
            Err(_) => {}
        }
    }
}

pub(crate) async fn try_open(url: &str, ttl: Duration) -> Result<Session> {
    Session::builder(Redlock::from_url(url)?.engine()?).ttl(ttl).open().await
}

/// A mutex of this session, as a lock.
pub(crate) fn mutex(session: &Session, name: &str) -> Lock {
    Lock::clone(&session.mutex(name).unwrap())
}

/// Ends a session. One that is only dropped has its thread wait, and the others on it.
pub(crate) async fn close(session: Session) {
    let closed = session.close(PATIENCE).await;
    assert!(closed.left.is_empty(), "{closed:?}");
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

/// Asks again and again until there is something.
async fn eventually<T>(what: &str, mut ask: impl FnMut() -> std::result::Result<T, String>) -> T {
    let began = now();
    loop {
        match ask() {
            Ok(found) => return found,
            Err(why) if now().since(began) > PATIENCE => panic!("{what}: not within {PATIENCE:?} ({why})"),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// A number in a file, to which one is added in three steps that only a lock keeps together.
pub(crate) struct Counter(PathBuf);

impl Counter {
    pub(crate) fn new(name: &str) -> Self {
        let file = format!("bramah-count-{}-{}", std::process::id(), name.replace('/', "-"));
        let counter = Self(std::env::temp_dir().join(file));
        fs::write(&counter.0, "0").unwrap();
        counter
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn read(&self) -> u32 {
        fs::read_to_string(&self.0).unwrap().parse().unwrap()
    }

    /// So many times: takes the lock, and adds one, slowly.
    pub(crate) async fn count(&self, lock: Lock, times: u32, pause: Duration) {
        for _ in 0..times {
            let guard = lock.lock().await.unwrap_or_else(|why| panic!("{why}"));
            let number = self.read();
            tokio::time::sleep(pause).await;
            fs::write(&self.0, (number + 1).to_string()).unwrap();
            // On a machine that is busy with the whole crowd the answer may be late.
            let released = guard.release().await;
            assert!(matches!(released, Release::Released | Release::Unknown), "{released:?}");
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // What is left in the temporary directory does no harm.
        let _ = fs::remove_file(&self.0);
    }
}
