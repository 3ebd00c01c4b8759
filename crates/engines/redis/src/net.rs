//! The driver over real servers.
//!
//! A [`Network`] knows by its [route](route) which node has a slot. A node has [links](link), each a place for one
//! connection, which is [dialled](dial) when somebody needs it and watched over by its [wire](wire) until it ends. All
//! connections live on a thread of the network's own: callers' runtimes end, or are blocked.
//! [`carry`] sends, and sends again what was [provably](verdict) not carried out.

mod carry;
mod cluster;
mod dial;
mod link;
mod rejection;
mod route;
mod sentinel;
pub(crate) mod slot;
#[cfg(test)]
mod tests;
mod tls;
mod trace;
mod traffic;
mod verdict;
mod watch;
mod wire;
mod within;

use std::{
    fmt,
    future::Future,
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use bramah_core::{Clock, Error, ErrorKind, Result, Wake};
use bramah_remote::Office;
use redis::{Cmd, Value};

use self::{
    carry::{Item, Load, To},
    cluster::Cluster,
    dial::Dialer,
    link::{Hub, Place},
    route::{Route, Site},
    sentinel::Sentinels,
    trace::Trace,
};
use crate::{
    config::{Address, Config, Restart, Topology},
    driver::{Driver, Ear, Lane, Node, Request, Slot},
};

pub(crate) use self::{link::Peers, within::within};

/// What the thread that the connections live on is named after.
const OFFICE: &str = "redis";

/// How long the farewell to a channel may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// Connections to the servers of one configuration.
pub(crate) struct Network {
    shared: Arc<Shared>,
}

struct Shared {
    hub: Arc<Hub>,
    route: Route,
}

impl Network {
    /// Connections that are made when they are needed. Files that the configuration names are looked at.
    pub(crate) fn new(config: &Config, ear: Weak<dyn Ear>) -> Result<Self> {
        Self::among(config, ear, Arc::default())
    }

    /// The same to a server that is to be another one than those of its peers.
    pub(crate) fn among(config: &Config, ear: Weak<dyn Ear>, peers: Arc<Peers>) -> Result<Self> {
        config.check()?;
        let office = Office::own(OFFICE)?;
        let dialer = Arc::new(Dialer::to_data(config, &office));
        dialer.check()?;
        let hub = Arc::new(Hub {
            dialer,
            ear,
            clock: Clock::boot(),
            asked: (config.restart != Restart::Trusted).then_some(peers),
        });
        let route = match &config.topology {
            Topology::Single(address) => {
                let place = Place::Fixed(address.clone());
                Route::One(Site::new(&hub, &place, address.to_string().into(), config.connections))
            }
            Topology::Sentinel { sentinels, service, .. } => {
                let dialer = Dialer::to_sentinels(config, &office);
                dialer.check()?;
                let place = Place::Service(Sentinels::new(dialer, service, sentinels));
                Route::One(Site::new(&hub, &place, service.as_str().into(), config.connections))
            }
            Topology::Cluster(seeds) => {
                Route::Cluster(Arc::new(Cluster::new(&hub, seeds, config.connections)))
            }
        };
        Ok(Self { shared: Arc::new(Shared { hub, route }) })
    }

    /// Asks every sentinel of the configuration; nobody where there are none.
    pub(crate) async fn ask_sentinels(&self, cmd: &Cmd) -> Vec<(Address, Result<Value>)> {
        match &self.shared.route {
            Route::One(site) => match site.place() {
                Place::Service(sentinels) => sentinels.ask_all(cmd).await,
                Place::Fixed(_) => Vec::new(),
            },
            Route::Cluster(_) => Vec::new(),
        }
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("is_cluster", &self.shared.route.is_cluster()).finish_non_exhaustive()
    }
}

impl Shared {
    /// The answer, and which connection it came over.
    async fn send(&self, request: &Request) -> Result<(Value, u64)> {
        let mut trace = Trace::default();
        let answer = within(
            request.patience,
            pin!(async {
                if !request.track
                    && let Some(answer) = carry::quick(&self.route, request, None, &mut trace).await
                {
                    return answer;
                }
                Box::pin(self.carry(request, &mut trace)).await
            }),
        )
        .await;
        match answer {
            Ok(answer) => answer.map(|answer| (answer, trace.answered)),
            Err(_) => Err(self.give_up(trace, request.patience)),
        }
    }

    async fn send_over(&self, wire: u64, request: &Request) -> Option<Result<Value>> {
        let mut trace = Trace::default();
        let sent = carry::quick(&self.route, request, Some(wire), &mut trace);
        let answer = within(request.patience, pin!(sent)).await;
        match answer {
            Ok(answer) => answer,
            Err(_) => Some(Err(self.give_up(trace, request.patience))),
        }
    }

    async fn carry(&self, request: &Request, trace: &mut Trace) -> Result<Value> {
        let items = vec![Item::new(request).loading(trace.load)];
        let mut load = Load { to: To::Slot(request.slot), lane: request.lane, items };
        load.carry(&self.route, trace).await?;
        load.items.pop().and_then(|item| item.answer).unwrap_or_else(|| Err(unanswered()))
    }

    /// Patience has ended. Perhaps another node should have been asked.
    fn give_up(&self, mut trace: Trace, patience: Duration) -> Error {
        self.route.doubt();
        trace.last = self.route.trouble().or(trace.last);
        trace.give_up(&self.route.name(), patience)
    }

    async fn one(&self, to: To, lane: Lane, item: Item<'_>, patience: Duration) -> Result<Value> {
        let mut trace = Trace::default();
        let mut load = Load { to, lane, items: vec![item] };
        let carried = within(patience, pin!(load.carry(&self.route, &mut trace))).await;
        match carried {
            Ok(Ok(())) => load.items.pop().and_then(|item| item.answer).unwrap_or_else(|| Err(unanswered())),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(self.give_up(trace, patience)),
        }
    }

    async fn all(&self, requests: &[Request]) -> Vec<Result<Value>> {
        let (Some(first), Some(patience)) = (requests.first(), requests.iter().map(|r| r.patience).min())
        else {
            return Vec::new();
        };
        let mut trace = Trace::default();
        let items = requests.iter().map(Item::new).collect();
        let mut load = Load { to: To::Slot(first.slot), lane: first.lane, items };
        let carried = within(patience, pin!(load.carry(&self.route, &mut trace))).await;
        let rest = match carried {
            Ok(Ok(())) => unanswered(),
            Ok(Err(error)) => error,
            Err(_) => self.give_up(trace, patience),
        };
        load.items.into_iter().map(|item| item.answer.unwrap_or_else(|| Err(rest.clone()))).collect()
    }

    fn hears(&self, slot: Slot, channel: &str) -> bool {
        self.route.known(slot).is_some_and(|site| site.link(Lane::Calls, slot).hears(channel))
    }

    async fn forget(&self, suffix: &str) {
        for site in self.route.known_sites() {
            for live in site.calls().iter().filter_map(|link| link.now()) {
                if self.route.is_cluster() {
                    live.wire.ignore(suffix);
                    continue;
                }
                let channels = live.wire.leave(suffix);
                if channels.is_empty() {
                    continue;
                }
                let mut farewell = redis::Pipeline::with_capacity(channels.len());
                for channel in &channels {
                    farewell.cmd("UNSUBSCRIBE").arg(&**channel);
                }
                let mut connection = live.connection;
                let sent = connection.send_packed_commands(&farewell, 0, channels.len());
                let _ = within(FAREWELL, pin!(sent)).await;
            }
        }
    }
}

impl Driver for Network {
    fn send(&self, request: Request) -> impl Future<Output = Result<Value>> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        async move { shared.send(&request).await.map(|(answer, _)| answer) }
    }

    fn send_named(&self, request: Request) -> impl Future<Output = Result<(Value, u64)>> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        async move { shared.send(&request).await }
    }

    fn server(&self, slot: Slot, wire: u64) -> Option<Arc<str>> {
        Some(Arc::clone(self.shared.route.over(slot, wire)?.wire.address()))
    }

    fn send_over(
        &self,
        wire: u64,
        request: Request,
    ) -> impl Future<Output = Option<Result<Value>>> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        async move { shared.send_over(wire, &request).await }
    }

    fn send_all(&self, requests: Vec<Request>) -> impl Future<Output = Vec<Result<Value>>> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        async move { shared.all(&requests).await }
    }

    fn is_listening(&self, slot: Slot, channel: &str) -> bool {
        self.shared.hears(self.shared.ear(slot), channel)
    }

    fn listen(
        &self,
        slot: Slot,
        channel: Arc<str>,
        patience: Duration,
    ) -> impl Future<Output = Result<()>> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        async move {
            let verb = if shared.route.is_cluster() { "SSUBSCRIBE" } else { "SUBSCRIBE" };
            let mut cmd = redis::cmd(verb);
            cmd.arg(&*channel);
            let slot = shared.ear(slot);
            shared.one(To::Slot(slot), Lane::Calls, Item::subscribing(&cmd), patience).await?;
            if shared.hears(slot, &channel) {
                return Ok(());
            }
            Err(Error::new(
                ErrorKind::Unavailable,
                "the connection to redis ended while we subscribed; try again",
            ))
        }
    }

    fn forget(&self, suffix: &str) -> impl Future<Output = ()> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        let suffix = suffix.to_owned();
        async move { shared.forget(&suffix).await }
    }

    fn nodes(&self, patience: Duration) -> impl Future<Output = Result<Vec<Node>>> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        async move {
            let sites = shared.sites(patience).await?;
            Ok(sites.iter().map(|site| site.node().clone()).collect())
        }
    }

    fn ask(
        &self,
        node: &Node,
        cmd: Cmd,
        patience: Duration,
    ) -> impl Future<Output = Result<Value>> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        let node = node.clone();
        async move {
            let site = shared.route.known_sites().into_iter().find(|site| *site.node() == node).ok_or_else(
                || {
                    Error::new(
                        ErrorKind::Unavailable,
                        format!("redis at {} is not one of the nodes any more", node.0),
                    )
                },
            )?;
            shared.one(To::Site(site), Lane::Calls, Item::bare(&cmd), patience).await
        }
    }

    fn watch(
        &self,
        prefix: Vec<u8>,
        patience: Duration,
    ) -> impl Future<Output = Result<Wake>> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        async move {
            let sites = shared.sites(patience).await?;
            watch::over(&shared.hub, &sites, &prefix, patience).await
        }
    }

    fn is_cluster(&self) -> bool {
        self.shared.route.is_cluster()
    }
}

impl Shared {
    /// The slot whose connection messages for `slot` arrive on. Of several to one node it is the first: else each of them
    /// would bring the same message.
    fn ear(&self, slot: Slot) -> Slot {
        if self.route.is_cluster() { slot } else { 0 }
    }

    async fn sites(&self, patience: Duration) -> Result<Vec<Arc<Site>>> {
        match within(patience, pin!(self.route.sites())).await {
            Ok(sites) => sites,
            Err(_) => Err(self.give_up(Trace::default(), patience)),
        }
    }
}

fn unanswered() -> Error {
    Error::new(ErrorKind::Unavailable, "redis left a request without an answer; try again")
}
