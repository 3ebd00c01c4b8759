//! What the tests have in common: sessions, a ledger of who believes to hold, and what may be left in a store.

use std::{
    future::Future,
    ops::Deref,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use bramah_core::{Clock, ErrorKind, Fence, Guard, Lock, Moment, Release, Result, Session};
use bramah_lab::{Redis as Server, servers::Flavor};
use bramah_redis::Redis;
use tokio::task::JoinHandle;

/// How long anything may take that is not what a test is about. A busy machine may be very slow.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The layouts that a failure is tried on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Native,
    Plain,
    Redisson,
}

impl Layout {
    pub(crate) const BOTH: [Self; 2] = [Self::Native, Self::Plain];
    pub(crate) const ALL: [Self; 3] = [Self::Native, Self::Plain, Self::Redisson];

    /// A URL with the option for this layout.
    pub(crate) fn url(self, base: &str) -> String {
        let word = match self {
            Self::Native => "native",
            Self::Plain => "plain",
            Self::Redisson => "redisson",
        };
        let sign = if base.contains('?') { '&' } else { '?' };
        format!("{base}{sign}layout={word}")
    }
}

/// Runs a test on both layouts of ours at the same time.
pub(crate) async fn on_both<F: Future<Output = ()> + Send + 'static>(test: impl Fn(Layout) -> F) {
    on(&Layout::BOTH, test).await;
}

/// And on Redisson's.
pub(crate) async fn on_all<F: Future<Output = ()> + Send + 'static>(test: impl Fn(Layout) -> F) {
    on(&Layout::ALL, test).await;
}

async fn on<F: Future<Output = ()> + Send + 'static>(layouts: &[Layout], test: impl Fn(Layout) -> F) {
    let running: Vec<_> = layouts.iter().map(|&layout| (layout, tokio::spawn(test(layout)))).collect();
    for (layout, test) in running {
        if let Err(why) = test.await {
            eprintln!("on the layout {layout:?}");
            std::panic::resume_unwind(why.into_panic());
        }
    }
}

pub(crate) fn server(options: &[(&str, &str)]) -> Server {
    Server::with(Flavor::Redis7, options).unwrap()
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn now() -> Moment {
    Clock::boot().now()
}

pub(crate) async fn nap(span: Duration) {
    tokio::time::sleep(span).await;
}

/// A session of its own engine, as another process would have.
pub(crate) async fn open(url: &str, ttl: Duration) -> Session {
    try_open(url, ttl).await.unwrap_or_else(|why| panic!("{url}: {why}"))
}

pub(crate) async fn try_open(url: &str, ttl: Duration) -> Result<Session> {
    Session::builder(Redis::from_url(url)?).ttl(ttl).open().await
}

/// Asks again and again until there is something.
pub(crate) async fn eventually<T>(
    what: &str,
    limit: Duration,
    mut ask: impl FnMut() -> std::result::Result<T, String>,
) -> T {
    let began = now();
    loop {
        match ask() {
            Ok(found) => return found,
            Err(why) if now().since(began) > limit => panic!("{what}: not within {limit:?} ({why})"),
            Err(_) => nap(ms(5)).await,
        }
    }
}

/// Who believes to hold one lock. Every grant is checked against everybody who still does, and its fence against the
/// last.
#[derive(Debug)]
pub(crate) struct Ledger {
    known: Mutex<Known>,
    /// A store that forgets hands a lock out twice: then only the fences count.
    forgiving: bool,
}

#[derive(Debug, Default)]
struct Known {
    held: Vec<Weak<Guard>>,
    last: Option<Fence>,
    grants: usize,
}

impl Ledger {
    pub(crate) fn strict() -> Arc<Self> {
        Arc::new(Self { known: Mutex::default(), forgiving: false })
    }

    pub(crate) fn forgiving() -> Arc<Self> {
        Arc::new(Self { known: Mutex::default(), forgiving: true })
    }

    /// A grant has just been returned. As belief only ends and never comes back, two overlap if and only if the elder one
    /// is still believed when the younger one begins.
    pub(crate) fn granted(self: &Arc<Self>, guard: Guard) -> Held {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let guard = Arc::new(guard);
        let other = known.held.iter().filter_map(Weak::upgrade).find(|other| other.is_held());
        let fence = guard.fence();
        let risen = fence > known.last && fence.is_some();
        let last = known.last;
        known.last = fence.max(last);
        known.grants += 1;
        known.held.push(Arc::downgrade(&guard));
        drop(known);
        if let Some(other) = other.filter(|_| !self.forgiving) {
            panic!("{guard:?} was granted while {other:?} is held for {:?} more", other.remaining());
        }
        assert!(risen, "{guard:?} was granted after the fence {last:?}");
        Held { guard: Some(guard), ledger: self.clone() }
    }

    pub(crate) async fn lock(self: &Arc<Self>, lock: &Lock) -> Held {
        self.granted(lock.lock().await.unwrap_or_else(|why| panic!("{why}")))
    }

    /// The same for one who is not put off by a store that does not answer.
    pub(crate) async fn persist(self: &Arc<Self>, lock: &Lock) -> Held {
        let began = now();
        loop {
            match lock.lock().await {
                Ok(guard) => return self.granted(guard),
                Err(why) if why.kind() != ErrorKind::Unavailable => panic!("{why}"),
                Err(why) if now().since(began) > PATIENCE => panic!("{why}"),
                Err(_) => {}
            }
        }
    }

    pub(crate) fn grants(&self) -> usize {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).grants
    }
}

/// A guard that a ledger knows of.
#[derive(Debug)]
pub(crate) struct Held {
    guard: Option<Arc<Guard>>,
    ledger: Arc<Ledger>,
}

impl Held {
    /// Belief ends here, and then the lock is released.
    pub(crate) async fn release(mut self) -> Release {
        match self.strike() {
            Some(guard) => guard.release().await,
            None => panic!("somebody else has the guard"),
        }
    }

    fn strike(&mut self) -> Option<Guard> {
        let mut known = self.ledger.known.lock().unwrap_or_else(PoisonError::into_inner);
        let guard = self.guard.take()?;
        known.held.retain(|other| other.strong_count() > 0 && !std::ptr::eq(other.as_ptr(), &*guard));
        Arc::into_inner(guard)
    }

    /// Waits until the loss is told.
    pub(crate) async fn await_loss(&self, limit: Duration) {
        let told = tokio::time::timeout(limit, self.lost()).await;
        assert!(told.is_ok(), "the loss of {self:?} was not told within {limit:?}");
        assert!(!self.is_held());
    }
}

impl Deref for Held {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        self.guard.as_ref().unwrap_or_else(|| unreachable!("only a release takes it"))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.strike());
    }
}

/// The locks of many, one after the other, each noted in the ledger.
pub(crate) fn wait_for(ledger: &Arc<Ledger>, lock: &Lock) -> JoinHandle<Held> {
    let (ledger, lock) = (ledger.clone(), lock.clone());
    tokio::spawn(async move { ledger.lock(&lock).await })
}

/// A mutex of this session, as a lock.
pub(crate) fn mutex(session: &Session, name: &str) -> Lock {
    session.mutex(name).map(|mutex| Lock::clone(&mutex)).unwrap_or_else(|why| panic!("{why}"))
}

/// Waits until so many of the session's claims are in the store, held or waiting.
pub(crate) async fn await_line(server: &Server, layout: Layout, name: &str, members: usize) {
    let what = format!("a line of {members}");
    eventually(&what, PATIENCE, || {
        let found = match layout {
            Layout::Native => {
                let key = format!("bramah:{{{name}}}");
                match server.call(&["TYPE", &key])?.text().as_str() {
                    "zset" => server
                        .call(&["ZRANGE", &key, "0", "-1"])?
                        .many()
                        .iter()
                        .filter(|member| !member.text().starts_with(|c: char| c.is_ascii_uppercase()))
                        .count(),
                    "string" => 1,
                    _ => 0,
                }
            }
            // Nobody stands in a line; who waits has its connection tell it of changes, and has been refused once.
            Layout::Plain | Layout::Redisson => {
                let tracking = server.call(&["INFO", "clients"])?.text();
                let clients = tracking.lines().find_map(|line| line.strip_prefix("tracking_clients:"));
                let clients: usize = clients.and_then(|n| n.trim().parse().ok()).unwrap_or(0);
                if clients + 1 >= members { members } else { clients }
            }
        };
        if found == members { Ok(()) } else { Err(format!("{found} are in it")) }
    })
    .await;
}

/// The keys that should not be there: all but the marks and Redisson's tokens, which are there for good.
pub(crate) fn leftovers(server: &Server) -> std::result::Result<Vec<String>, String> {
    let keys = server.call(&["KEYS", "*"])?.many();
    Ok(keys.iter().map(|key| key.text()).filter(|key| !is_mark(key)).collect())
}

fn is_mark(key: &str) -> bool {
    if key.starts_with("redisson_lock_token:") {
        return true;
    }
    let rest = key.strip_prefix("bramah:").unwrap_or_default();
    rest == "mark" || rest.strip_prefix('{').is_some_and(|rest| rest.ends_with("}:mark"))
}

/// Closes the sessions and sees that nothing of them is left.
pub(crate) async fn close_all(sessions: impl IntoIterator<Item = Session>, servers: &[&Server]) {
    for session in sessions {
        let closed = session.close(PATIENCE).await;
        assert!(closed.left.is_empty(), "{closed:?}");
    }
    await_nothing_left(servers).await;
}

pub(crate) async fn await_nothing_left(servers: &[&Server]) {
    eventually("an empty store", PATIENCE, || {
        let left: Vec<_> = servers.iter().map(|server| leftovers(server)).collect::<Result<_, _>>()?;
        if left.iter().all(Vec::is_empty) { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use bramah_core::Memory;

    use super::*;

    /// The checks of the ledger have to be able to fail.
    #[tokio::test]
    async fn a_ledger_notices_two_holders_and_a_fence_that_falls() {
        let session = Session::open(Memory::new()).await.unwrap();
        let [one, two, three] = ["one", "two", "three"].map(|name| mutex(&session, name));
        let noticed = |ledger: &Arc<Ledger>, guard: Guard| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(ledger.granted(guard)))).is_err()
        };
        let (lower, higher) = (one.lock().await.unwrap(), two.lock().await.unwrap());
        assert!(lower.fence() <= higher.fence());
        let strict = Ledger::strict();
        let held = strict.granted(lower);
        assert!(noticed(&strict, higher), "two of them held");
        drop(held);
        let falling = Ledger::forgiving();
        let early = three.lock().await.unwrap();
        while one.lock().await.unwrap().fence() <= early.fence() {}
        let held = falling.granted(one.lock().await.unwrap());
        assert!(noticed(&falling, early), "the fence fell");
        drop(held);
    }
}
