//! What ensembles of servers have in common: members that can be ended, frozen and cut off from each other.

use std::{net::SocketAddr, path::PathBuf};

use rustix::process::Signal;

use crate::{
    daemon::Daemon,
    patience::{PATIENCE, until},
    proxy::{Mesh, Place, Proxy},
};

/// How often other ports are tried.
const PORTS: u32 = 5;

/// The members of an ensemble. They are named by their index, from 0 on. All that they say to each other passes a network
/// of ours, in which any two of them can be cut apart.
///
/// It may be called from several threads.
#[derive(Debug)]
pub struct Members {
    // Before the network: members that lose each other last would write that into their logs.
    daemons: Vec<Daemon>,
    mesh: Mesh,
}

impl Members {
    pub(crate) fn new(daemons: Vec<Daemon>, places: &[Place]) -> Result<Self, String> {
        if daemons.is_empty() {
            return Err("an ensemble of no members".into());
        }
        let mesh = Mesh::new(daemons.len(), places)?;
        Ok(Self { daemons, mesh })
    }

    /// Makes and starts an ensemble, on other ports if somebody else took one of the first ones meanwhile.
    pub(crate) fn retry<T>(
        mut make: impl FnMut() -> Result<T, String>,
        start: impl Fn(&T) -> Result<(), String>,
        members: impl Fn(&T) -> &Self,
    ) -> Result<T, String> {
        let mut tried = 0;
        loop {
            tried += 1;
            let made = make()?;
            let in_use = || members(&made).daemons.iter().any(|daemon| daemon.log().contains("in use"));
            match start(&made) {
                Ok(()) => return Ok(made),
                Err(why) if tried == PORTS || !in_use() => return Err(why),
                Err(_) => {}
            }
        }
    }

    /// Starts all of them at the same time, for one alone may not become ready.
    pub(crate) fn run_all(&self, run: impl Fn(usize) -> Result<(), String> + Sync) -> Result<(), String> {
        std::thread::scope(|scope| {
            let run = &run;
            let started: Vec<_> = self.indices().map(|member| scope.spawn(move || run(member))).collect();
            let ended = |one: std::thread::ScopedJoinHandle<'_, Result<(), String>>| {
                one.join().unwrap_or_else(|_| Err("the start of a member panicked".into()))
            };
            started.into_iter().map(ended).collect::<Vec<_>>().into_iter().collect()
        })
    }

    /// The one that says that it leads. Those that do not answer are not asked twice.
    pub(crate) fn leader(&self, role: impl Fn(usize) -> Result<Role, String>) -> Result<usize, String> {
        let leads = |member: &usize| self.pid(*member).is_some() && role(*member) == Ok(Role::Leads);
        match self.indices().filter(leads).collect::<Vec<_>>().as_slice() {
            [leader] => Ok(*leader),
            [] => Err("no member leads".into()),
            several => Err(format!("members {several:?} all say that they lead")),
        }
    }

    /// Waits until one of these leads and all of them serve.
    pub(crate) fn await_among(
        &self,
        among: &[usize],
        role: impl Fn(usize) -> Result<Role, String>,
    ) -> Result<usize, String> {
        until(&format!("a leader among {among:?}"), PATIENCE, || {
            let mut leader = None;
            for member in among {
                match role(*member)? {
                    Role::Follows => {}
                    Role::Leads if leader.is_none() => leader = Some(*member),
                    Role::Leads => return Err(format!("both {leader:?} and {member} say that they lead")),
                    Role::Neither(why) => return Err(format!("member {member}: {why}")),
                }
            }
            leader.ok_or_else(|| "nobody of them leads".into())
        })
    }

    pub(crate) fn daemon(&self, member: usize) -> Result<&Daemon, String> {
        let count = self.daemons.len();
        self.daemons.get(member).ok_or_else(|| format!("no member {member}: there are {count}"))
    }

    pub(crate) fn door(&self, member: usize) -> Result<SocketAddr, String> {
        self.mesh.door(member)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.daemons.len()
    }

    pub(crate) fn indices(&self) -> std::ops::Range<usize> {
        0..self.count()
    }

    /// Where clients connect, by member: `127.0.0.1:port`.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        self.daemons.iter().map(Daemon::address).collect()
    }

    /// A proxy before each member, for clients.
    ///
    /// # Errors
    ///
    /// When there is no port.
    pub fn proxies(&self) -> Result<Vec<Proxy>, String> {
        self.addresses().iter().map(|address| Proxy::to(address)).collect()
    }

    /// The version that it told: `3.9.3`.
    #[must_use]
    pub fn version(&self) -> &str {
        self.daemons.first().map_or("", |daemon| &daemon.server.version)
    }

    /// The process of a member, while it runs.
    #[must_use]
    pub fn pid(&self, member: usize) -> Option<u32> {
        self.daemon(member).ok()?.pid()
    }

    /// What a member has logged, over all its starts.
    #[must_use]
    pub fn log(&self, member: usize) -> String {
        self.daemon(member).map(Daemon::log).unwrap_or_default()
    }

    /// The directory of a member, which goes with it.
    #[must_use]
    pub fn folder(&self, member: usize) -> PathBuf {
        self.daemon(member).map(|daemon| daemon.folder().to_path_buf()).unwrap_or_default()
    }

    /// Asks a member to end and waits until it has.
    ///
    /// # Errors
    ///
    /// When it does not run, or does not end.
    pub fn stop(&self, member: usize) -> Result<(), String> {
        self.daemon(member)?.stop(Signal::TERM)
    }

    /// Kills a member, as by `kill -9`, and waits until it is gone. One that does not run is left as it is.
    ///
    /// # Errors
    ///
    /// When there is no such member.
    pub fn kill(&self, member: usize) -> Result<(), String> {
        self.daemon(member)?.end();
        Ok(())
    }

    /// Stops a member where it is. Connections stay, and nobody answers on them.
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub fn freeze(&self, member: usize) -> Result<(), String> {
        self.daemon(member)?.freeze()
    }

    /// Lets a frozen one go on.
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub fn thaw(&self, member: usize) -> Result<(), String> {
        self.daemon(member)?.thaw()
    }

    /// Cuts two members apart: what they say to each other is held, and they cannot connect. Clients still reach both.
    pub fn cut(&self, one: usize, other: usize) {
        self.mesh.cut(one, other);
    }

    /// Cuts a member off from all others. Clients still reach it; a [`Proxy`] before it can change that.
    pub fn isolate(&self, member: usize) {
        self.indices().filter(|other| *other != member).for_each(|other| self.cut(member, other));
    }

    /// Takes back every cut. Connections from before it are reset, and what was held on them is lost.
    pub fn heal(&self) {
        for one in self.indices() {
            (0..one).for_each(|other| self.mesh.mend(one, other));
        }
    }

    /// How many bytes of one member have arrived at the other.
    #[must_use]
    pub fn carried(&self, from: usize, to: usize) -> u64 {
        self.mesh.carried(from, to)
    }
}

/// What a member is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Role {
    Leads,
    Follows,
    /// Nothing yet, or no more.
    Neither(String),
}
