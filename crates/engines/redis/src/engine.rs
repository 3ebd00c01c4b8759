//! The engine that core sees.

use std::{
    fmt,
    future::Future,
    os::fd::OwnedFd,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bramah_core::{
    Claim, ClaimId, Engine, Error, Exit, Look, Name, Opening, Profile, Renewal, Reply, Result, Scope,
    SessionId, Standing, Survey,
};

use crate::{
    config::Config,
    driver::{Driver, Ear},
    ears::Ears,
    layout::{Scheme, Setting},
    net::{Network, Peers},
    protocol::{Protocol, Terms},
    survey,
};

/// Locks on Redis or Valkey. Clones share their connections.
///
/// Connections are made when they are needed and made again when they break. They live on a thread
/// of the engine's own, so neither a blocked nor an ended runtime of a caller holds them up.
#[derive(Clone)]
pub struct Redis(pub(crate) Arc<Protocol<Network>>);

impl Redis {
    /// The engine for a URL; see [`Config::from_url`].
    ///
    /// # Errors
    /// `Invalid` for a URL that is not understood, `Unsupported` for one that this build has no support for. Nothing is
    /// connected to yet.
    pub fn from_url(url: &str) -> Result<Self> {
        Self::new(&Config::from_url(url)?)
    }

    /// The engine for settings of your own.
    ///
    /// # Errors
    /// `Invalid` when they contradict each other. Nothing is connected to yet.
    pub fn new(config: &Config) -> Result<Self> {
        Self::among(config, Arc::default())
    }

    /// One of several servers that are to be different ones.
    pub(crate) fn among(config: &Config, peers: Arc<Peers>) -> Result<Self> {
        let ears = Arc::new(Ears::default());
        let ear: Arc<dyn Ear> = ears.clone();
        let network = Network::among(config, Arc::downgrade(&ear), peers)?;
        let scheme = Scheme::new(Setting {
            layout: config.layout,
            prefix: config.prefix.as_deref(),
            cluster: network.is_cluster(),
            connections: config.connections,
            fair: config.fair,
            pubsub: config.pubsub,
        });
        let terms = Terms {
            layout: config.layout,
            timeout: config.timeout,
            claim_timeout: config.claim_timeout,
            replicas: config.replicas,
            eviction: config.eviction,
            restart: config.restart,
            fences: config.fences,
        };
        Ok(Self(Arc::new(Protocol::new(network, scheme, terms, ears))))
    }
}

/// Of the layout [`Redisson`](crate::Layout::Redisson).
impl Redis {
    /// Removes the counter that the tokens of a lock come from, as deleting Redisson's fenced lock does: the next one is 1.
    /// For names that are not used any more: Redisson, and we with it, keep one for each name for ever. Does nothing in
    /// other layouts.
    ///
    /// # Errors
    /// Of a server that cannot be reached or refuses.
    pub async fn delete_token(&self, name: &Name) -> Result<()> {
        match self.0.scheme.token_of(name, self.0.terms.timeout) {
            Some(request) => self.0.driver.send(request).await.map(drop),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("layout", &self.0.terms.layout).finish_non_exhaustive()
    }
}

impl From<Redis> for Arc<dyn Engine> {
    fn from(redis: Redis) -> Self {
        Arc::new(redis)
    }
}

impl Engine for Redis {
    fn profile(&self) -> Profile {
        self.0.profile()
    }

    fn check_ttl(&self, ttl: Duration) -> Result<()> {
        self.0.terms.check_ttl(ttl)
    }

    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        let protocol = self.0.clone();
        Reply::later(async move { protocol.open(opening).await })
    }

    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
        let protocol = self.0.clone();
        Reply::later(async move { protocol.claim(claim).await })
    }

    fn pending(&self, id: ClaimId) -> Option<Error> {
        self.0.unconfirmed.error(id)
    }

    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        let protocol = self.0.clone();
        Reply::later(async move { protocol.renew(session, claims).await })
    }

    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        let protocol = self.0.clone();
        let mut leaving = Reply::later(async move {
            let _turn = protocol.exits.turn(protocol.exit_patience(&claim, &exit)).await;
            // Apart, so that one that waits for its turn is small: there may be very many.
            Box::pin(protocol.withdraw(claim, exit)).await
        });
        // It is queued before whatever this caller asks next, also when nobody waits for the answer.
        match Pin::new(&mut leaving).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Reply::now(answer),
            Poll::Pending => leaving,
        }
    }

    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        let protocol = self.0.clone();
        Reply::later(async move { protocol.wish(&claim).await })
    }

    fn close(&self, session: SessionId) -> Reply<()> {
        let protocol = self.0.clone();
        Reply::later(async move { protocol.close(session).await })
    }

    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        let (protocol, scope) = (self.0.clone(), scope.clone());
        Reply::later(async move { survey::survey(&protocol, &scope, look).await })
    }

    fn lifelines(&self, _: SessionId) -> Vec<OwnedFd> {
        Vec::new()
    }
}
