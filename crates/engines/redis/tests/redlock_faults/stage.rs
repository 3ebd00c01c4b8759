//! What the tests have in common: masters, the ways that clients have to them, and a resource that is protected.

use std::{ops::Deref, time::Duration};

use bramah_core::{ErrorKind, Fence, Result, Session};
use bramah_lab::{Proxy, Redis as Server, servers::Flavor};
use bramah_redis::redlock::Redlock;

use crate::rig::*;

/// Masters that know nothing of each other. They keep nothing on disk.
pub(crate) struct Masters(Vec<Server>);

impl Masters {
    pub(crate) fn start(number: usize) -> Self {
        Self((0..number).map(|_| server(&[])).collect())
    }

    /// Five, of which the one in the middle has the clock that it is given.
    pub(crate) fn five_around(clock: &bramah_lab::ShiftedClock) -> Self {
        let mut masters = Self::start(4);
        masters.0.insert(MIDDLE, Server::on_clock(Flavor::Redis7, clock, &[]).unwrap());
        masters
    }

    pub(crate) fn url(&self, options: &str) -> String {
        url(self.iter().map(Server::address), options)
    }

    /// Which of them have the key of this lock. One that does not run has none.
    pub(crate) fn voters(&self, name: &str) -> Vec<usize> {
        let has =
            |server: &Server| server.pid().is_some() && server.call(&["EXISTS", name]).unwrap().text() == "1";
        (0..self.len()).filter(|&at| has(&self[at])).collect()
    }

    /// Waits until whoever connects from now on lets all of them vote on claims of this ttl.
    pub(crate) async fn await_age(&self, ttl: Duration) {
        for server in self.iter() {
            eventually("a master that votes", PATIENCE, || {
                let age = uptime(server)?;
                if age > ttl.as_secs() { Ok(()) } else { Err(format!("it has run for {age} s")) }
            })
            .await;
        }
    }

    pub(crate) async fn await_nothing_left(&self) {
        let running: Vec<&Server> = self.iter().filter(|server| server.pid().is_some()).collect();
        await_nothing_left(&running).await;
    }
}

impl Deref for Masters {
    type Target = [Server];

    fn deref(&self) -> &[Server] {
        &self.0
    }
}

/// A ttl that no test sees the end of: what is gone was taken back. (What a session is in doubt about it withdraws until the
/// ttl is over, so nobody waits for its close.)
pub(crate) const LONG: Duration = ms(600_000);

/// Of five.
pub(crate) const MIDDLE: usize = 2;

fn url(addresses: impl Iterator<Item = String>, options: &str) -> String {
    format!("redlock://{}?{options}", addresses.collect::<Vec<_>>().join(","))
}

/// For how long a server says that it has run, in seconds. It may be one second more or less.
pub(crate) fn uptime(server: &Server) -> std::result::Result<u64, String> {
    let info = server.call(&["INFO", "server"])?.text();
    let age = info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:"));
    age.and_then(|age| age.trim().parse().ok()).ok_or_else(|| "it does not say its age".into())
}

/// The ways of one client, each of which can be closed.
pub(crate) struct Ways(Vec<Proxy>);

impl Ways {
    pub(crate) fn to(masters: &Masters) -> Self {
        Self(masters.iter().map(|server| Proxy::to(&server.address()).unwrap()).collect())
    }

    /// All but these, which refuse.
    pub(crate) fn without(masters: &Masters, closed: &[usize]) -> Self {
        let ways = Self::to(masters);
        closed.iter().for_each(|&at| ways[at].refuse(true));
        ways
    }

    pub(crate) fn url(&self, options: &str) -> String {
        url(self.iter().map(Proxy::address), options)
    }
}

impl Deref for Ways {
    type Target = [Proxy];

    fn deref(&self) -> &[Proxy] {
        &self.0
    }
}

/// A session of its own engine, as another process would have. On a busy machine masters may be slow to connect to.
pub(crate) async fn join(url: &str, ttl: Duration) -> Session {
    let began = now();
    loop {
        match try_join(url, ttl).await {
            Ok(session) => return session,
            Err(why) if why.kind() == ErrorKind::Unavailable && now().since(began) < PATIENCE => {}
            Err(why) => panic!("{url}: {why}"),
        }
    }
}

pub(crate) async fn try_join(url: &str, ttl: Duration) -> Result<Session> {
    Session::builder(Redlock::from_url(url)?.engine()?).ttl(ttl).open().await
}

pub(crate) async fn close(sessions: impl IntoIterator<Item = Session>) {
    close_all(sessions, &[]).await;
}

/// What a lock protects. It takes no write with a fence below one that it has seen, unless it does not look at them.
pub(crate) struct Resource {
    looks: bool,
    last: Option<Fence>,
    pub(crate) written: Vec<&'static str>,
}

impl Resource {
    pub(crate) fn fenced() -> Self {
        Self { looks: true, last: None, written: Vec::new() }
    }

    pub(crate) fn open() -> Self {
        Self { looks: false, ..Self::fenced() }
    }

    pub(crate) fn write(&mut self, by: &'static str, fence: Option<Fence>) {
        if self.looks && (fence.is_none() || fence < self.last) {
            return;
        }
        self.last = self.last.max(fence);
        self.written.push(by);
    }
}

/// Two believe to hold: `early` writes, then `late`, and then `early` again, who does not know better. The fence is what
/// keeps the last write out.
pub(crate) fn the_fence_saves_the_resource(early: &Held, late: &Held) {
    assert!(early.is_held() && late.is_held(), "nobody would write twice");
    for (mut resource, expected) in
        [(Resource::fenced(), &["early", "late"][..]), (Resource::open(), &["early", "late", "early"][..])]
    {
        resource.write("early", early.fence());
        resource.write("late", late.fence());
        resource.write("early", early.fence());
        assert_eq!(resource.written, expected);
    }
}
