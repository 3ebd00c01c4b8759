//! A cluster: which master has which slot, as far as we know.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bramah_core::{Error, ErrorKind, Moment, Result};
use bramah_remote::Lent;
use redis::Value;

use super::within::{nap, within};
use super::{
    dial::text,
    link::{Hub, Place},
    route::Site,
    slot::SLOTS,
    trace::Trace,
};
use crate::{config::Address, driver::Slot, error};

/// How long to leave a map alone that was just read, and one that a server has just corrected.
const REST: Duration = Duration::from_millis(100);

/// The masters of a cluster.
pub(super) struct Cluster {
    hub: Arc<Hub>,
    connections: usize,
    seeds: Vec<Address>,
    state: Mutex<State>,
    /// Held by the one who reads the map.
    reading: tokio::sync::Mutex<()>,
}

struct State {
    sites: HashMap<Address, Arc<Site>>,
    /// By slot; empty before the first reading.
    owners: Vec<Option<Arc<Site>>>,
    /// Wrong in places, perhaps: to be read again from this moment on.
    stale: Option<Moment>,
    read: Option<Moment>,
    /// Who should know.
    source: Option<Address>,
    /// Why it was not read the last time.
    trouble: Option<Error>,
}

/// Who has which slots.
type Shares = Vec<(Slot, Slot, Address)>;

impl Cluster {
    pub(super) fn new(hub: &Arc<Hub>, seeds: &[Address], connections: usize) -> Self {
        let state = State {
            sites: HashMap::new(),
            owners: Vec::new(),
            stale: None,
            read: None,
            source: None,
            trouble: None,
        };
        Self {
            hub: Arc::clone(hub),
            connections,
            seeds: seeds.to_vec(),
            state: Mutex::new(state),
            reading: tokio::sync::Mutex::new(()),
        }
    }

    /// One of its addresses, for errors.
    pub(super) fn name(&self) -> Arc<str> {
        self.seeds.first().map_or_else(|| Arc::from("?"), |seed| seed.to_string().into())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The owner of a slot by what we have read, however old.
    pub(super) fn known(&self, slot: Slot) -> Option<Arc<Site>> {
        self.state().owner(slot)
    }

    /// The owner of a slot, unless the map has to be read before.
    pub(super) fn ready(&self, slot: Slot) -> Option<Arc<Site>> {
        let state = self.state();
        if state.stale.is_some_and(|due| due <= self.hub.clock.now()) { None } else { state.owner(slot) }
    }

    /// Why the map could not be read the last time.
    pub(super) fn trouble(&self) -> Option<Error> {
        self.state().trouble.clone()
    }

    /// The owner of a slot; the map is read as often as it takes.
    pub(super) async fn site(self: &Arc<Self>, slot: Slot, trace: &mut Trace) -> Result<Arc<Site>> {
        loop {
            if let Some(site) = self.ready(slot) {
                return Ok(site);
            }
            self.read().await?;
            let owner = self.known(slot);
            if let Some(site) = owner {
                return Ok(site);
            }
            trace.last = Some(Error::new(
                ErrorKind::Unavailable,
                format!("no node of the redis cluster has slot {slot}; look at its nodes"),
            ));
            self.state().stale = Some(Moment::from_ns(0));
            nap(REST).await;
        }
    }

    /// The masters that have slots.
    pub(super) async fn masters(self: &Arc<Self>) -> Result<Vec<Arc<Site>>> {
        self.state().stale = Some(Moment::from_ns(0));
        loop {
            self.read().await?;
            let mut masters: Vec<Arc<Site>> = Vec::new();
            for site in self.state().owners.iter().flatten() {
                if !masters.iter().any(|known| Arc::ptr_eq(known, site)) {
                    masters.push(Arc::clone(site));
                }
            }
            if !masters.is_empty() {
                masters.sort_by(|a, b| a.node().cmp(b.node()));
                return Ok(masters);
            }
            self.state().stale = Some(Moment::from_ns(0));
            nap(REST).await;
        }
    }

    pub(super) fn sites(&self) -> Vec<Arc<Site>> {
        self.state().sites.values().cloned().collect()
    }

    /// A server says that another has the slot. It is believed at once, and the map is read again soon.
    pub(super) fn moved(&self, slot: Slot, to: &str, from: &str) -> Option<Arc<Site>> {
        let address = target(to, from)?;
        let site = self.at(&address);
        let mut state = self.state();
        if state.owners.is_empty() {
            state.owners = vec![None; usize::from(SLOTS)];
        }
        if let Some(owner) = state.owners.get_mut(usize::from(slot)) {
            *owner = Some(Arc::clone(&site));
        }
        let due = self.hub.clock.now() + REST;
        state.stale.get_or_insert(due);
        state.source = Some(address);
        Some(site)
    }

    /// The node that a server has sent us to, for once.
    pub(super) fn elsewhere(&self, to: &str, from: &str) -> Option<Arc<Site>> {
        target(to, from).map(|address| self.at(&address))
    }

    pub(super) fn doubt(&self) {
        let mut state = self.state();
        let due = state.read.map_or(Moment::from_ns(0), |read| read + REST);
        state.stale = Some(state.stale.map_or(due, |stale| stale.min(due)));
    }

    fn at(&self, address: &Address) -> Arc<Site> {
        let mut state = self.state();
        let fresh = || {
            let place = Place::Fixed(address.clone());
            Site::new(&self.hub, &place, address.to_string().into(), self.connections)
        };
        Arc::clone(state.sites.entry(address.clone()).or_insert_with(fresh))
    }

    /// Reads the map, from whoever answers, unless somebody else just has. On the thread of the connections: a caller whose
    /// executor is blocked does not hold up the others.
    fn read(self: &Arc<Self>) -> Lent<()> {
        let (cluster, asked) = (Arc::clone(self), self.hub.clock.now());
        self.hub.dialer.office().lend(async move { cluster.read_since(asked).await })
    }

    async fn read_since(&self, asked: Moment) -> Result<()> {
        let _reading = self.reading.lock().await;
        if self.state().read.is_some_and(|read| read > asked) {
            return Ok(());
        }
        let mut pause = REST / 4;
        loop {
            for address in self.candidates() {
                let asked = self.hub.clock.now();
                match self.shares(&address).await {
                    Ok(shares) => {
                        self.adopt(shares, asked);
                        return Ok(());
                    }
                    Err(error) if error.kind().is_transient() => self.state().trouble = Some(error),
                    Err(error) => return Err(error),
                }
            }
            nap(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = (pause * 2).min(REST * 5);
        }
    }

    /// Whom to ask: who should know, then those we know in any order, then those of the url.
    fn candidates(&self) -> Vec<Address> {
        let mut state = self.state();
        let mut known: Vec<_> = state.sites.keys().cloned().collect();
        fastrand::shuffle(&mut known);
        let mut seeds = self.seeds.clone();
        fastrand::shuffle(&mut seeds);
        let mut all: Vec<_> = state.source.take().into_iter().chain(known).chain(seeds).collect();
        let mut seen = std::collections::HashSet::new();
        all.retain(|address| seen.insert(address.clone()));
        all
    }

    async fn shares(&self, address: &Address) -> Result<Shares> {
        let mut line = self.hub.dialer.open(address, |_| (), Arc::default()).await?;
        let mut cmd = redis::cmd("CLUSTER");
        cmd.arg("SLOTS");
        let answer = line.connection.send_packed_command(&cmd);
        let answer = within(self.hub.dialer.timeout(), pin!(answer)).await.map_err(|_| {
            Error::new(
                ErrorKind::Unavailable,
                format!("redis at {address} did not tell its slots; is it frozen?"),
            )
        })?;
        match answer.map_err(|error| error::from_break(&error, &address.to_string()))? {
            Value::ServerError(error)
                if error.details().is_some_and(|said| said.contains("cluster support disabled")) =>
            {
                Err(Error::new(
                    ErrorKind::Invalid,
                    format!("redis at {address} is not in a cluster; use redis:// for it"),
                ))
            }
            Value::ServerError(error) => Err(error::from_server(&error, &address.to_string())),
            answer => {
                Some(read_shares(&answer, address)).filter(|shares| !shares.is_empty()).ok_or_else(|| {
                    // As one that was reset says it: no reason to forget what the others told.
                    let text = format!("redis at {address} knows of no slots; has it joined the cluster?");
                    Error::new(ErrorKind::Unavailable, text)
                })
            }
        }
    }

    /// Takes over what was read at a moment.
    fn adopt(&self, shares: Shares, asked: Moment) {
        let mut owners = vec![None; usize::from(SLOTS)];
        let mut sites = HashMap::new();
        for (first, last, address) in shares {
            let site = self.at(&address);
            if let Some(range) = owners.get_mut(usize::from(first)..=usize::from(last)) {
                range.fill(Some(Arc::clone(&site)));
            }
            sites.insert(address, site);
        }
        let mut state = self.state();
        state.read = Some(self.hub.clock.now());
        state.trouble = None;
        // What was corrected while we read is still to be read.
        if state.stale.is_none_or(|due| due <= asked) {
            state.stale = None;
        }
        let (old_sites, old_owners) =
            (std::mem::replace(&mut state.sites, sites), std::mem::replace(&mut state.owners, owners));
        drop(state);
        drop(old_owners);
        // A node that has no slots any more, as after a failover, is let go of: who listened there hears of it.
        drop(old_sites);
    }
}

impl State {
    fn owner(&self, slot: Slot) -> Option<Arc<Site>> {
        self.owners.get(usize::from(slot)).cloned().flatten()
    }
}

/// `host:port` as in MOVED; without a host it is that of the server that said it.
fn target(to: &str, from: &str) -> Option<Address> {
    let (host, port) = to.rsplit_once(':')?;
    let port = port.parse().ok().filter(|&port| port > 0)?;
    let host = if is_unknown(host) { from.rsplit_once(':')?.0 } else { host };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| Address { host: host.to_owned(), port })
}

/// A node that does not know its own name sends none, or a question mark.
fn is_unknown(host: &str) -> bool {
    host.is_empty() || host == "?"
}

/// The answer to CLUSTER SLOTS. What does not look like it is left out.
fn read_shares(answer: &Value, asked: &Address) -> Shares {
    let Value::Array(ranges) = answer else { return Vec::new() };
    let number = |value: &Value| match value {
        Value::Int(number) => u16::try_from(*number).ok(),
        _ => None,
    };
    let mut shares = Vec::with_capacity(ranges.len());
    for range in ranges {
        let Value::Array(range) = range else { continue };
        let [first, last, Value::Array(master), ..] = &**range else { continue };
        let [host, port, ..] = &**master else { continue };
        let (Some(first), Some(last), Some(port)) = (number(first), number(last), number(port)) else {
            continue;
        };
        let host = text(host).filter(|host| !is_unknown(host)).unwrap_or(&asked.host);
        if first <= last && last < SLOTS {
            shares.push((first, last, Address { host: host.to_owned(), port }));
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_without_a_host_is_on_the_same_host() {
        let of = |to: &str| target(to, "10.0.0.1:6379").map(|address| address.to_string());
        assert_eq!(of("10.0.0.2:6380").as_deref(), Some("10.0.0.2:6380"));
        assert_eq!(of(":6380").as_deref(), Some("10.0.0.1:6380"));
        assert_eq!(of("?:6380").as_deref(), Some("10.0.0.1:6380"));
        assert_eq!(of("fe80::1:6380").as_deref(), Some("[fe80::1]:6380"));
        assert_eq!(target(":7", "[::1]:6").map(|a| a.to_string()).as_deref(), Some("[::1]:7"));
        for broken in ["", ":", "host", "host:", "host:0", "host:70000", "host:x"] {
            assert_eq!(of(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_map_is_read_and_nonsense_in_it_left_out() {
        let node =
            |host: Value, port| Value::Array(vec![host, Value::Int(port), Value::SimpleString("id".into())]);
        let range = |first, last, node| Value::Array(vec![Value::Int(first), Value::Int(last), node]);
        let asked = Address { host: "seed".into(), port: 1 };
        let answer = Value::Array(vec![
            range(0, 5, node(Value::BulkString(b"a".to_vec()), 7)),
            range(6, 6, node(Value::Nil, 8)),
            range(7, 8, node(Value::BulkString(Vec::new()), 9)),
            range(9, 8, node(Value::Nil, 8)),
            range(-1, 8, node(Value::Nil, 8)),
            range(9, 16384, node(Value::Nil, 8)),
            range(9, 10, Value::Nil),
            Value::Nil,
        ]);
        let read: Vec<_> =
            read_shares(&answer, &asked).into_iter().map(|(a, b, c)| format!("{a}-{b} {c}")).collect();
        assert_eq!(read, ["0-5 a:7", "6-6 seed:8", "7-8 seed:9"]);
    }
}
