//! The engine: what core asks is done on its own thread, to its end.

use std::{
    collections::HashMap,
    fmt,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bramah_core::{
    Asking, Capacities, Claim, Clock, Engine, Exit, Fencing, Leasing, Liveness, Look, Modes, Opening, Order,
    Profile, Renewal, Reply, Result, Scope, Seats, SessionId, Standing, Strays, Survey, Waking,
};
use bramah_remote::{Aging, Flights, Office};

use crate::{
    Etcd,
    config::Config,
    layout::Layout,
    net::Net,
    room::{Room, Unwatched, YOUNG},
    turnstile::Turnstiles,
    watches::Watches,
};

/// What the clones of an engine share.
pub struct Inner {
    pub(crate) net: Arc<Net>,
    pub(crate) layout: Layout,
    pub(crate) watches: Arc<Watches>,
    pub(crate) clock: Clock,
    pub(crate) turnstiles: Turnstiles,
    rooms: Mutex<HashMap<SessionId, Arc<Room>>>,
    flights: Arc<Flights>,
    /// Claims whose keys are not watched yet.
    pub(crate) young: Aging<Unwatched>,
    office: Office,
}

impl Inner {
    pub(crate) fn new(config: Config) -> Result<Self> {
        let office = Office::open("etcd")?;
        let layout = Layout::new(&config.prefix);
        let net = Arc::new(Net::new(config, &office)?);
        let watches = Arc::new(Watches::default());
        office.spawn(watches.clone().attend(net.clone()));
        let (rooms, flights) = (Mutex::default(), Arc::default());
        let (clock, turnstiles) = (Clock::boot(), Turnstiles::default());
        let young = Aging::new(office.clone(), YOUNG, Unwatched::watch);
        Ok(Self { net, layout, watches, clock, turnstiles, rooms, flights, young, office })
    }

    pub(crate) fn rooms(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Room>>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.watches.end();
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.net.fmt(f)
    }
}

impl Engine for Etcd {
    fn profile(&self) -> Profile {
        Profile {
            modes: Modes::Permits,
            capacity: Capacities::Claimed,
            order: Order::Fifo,
            fence: Fencing::Durable,
            liveness: Liveness::Session,
            wake: Waking::Pushed,
            seats: Seats::OneMutex,
            lease: Leasing::Kept,
            strays: Strays::Listed,
            asking: Asking::Kept,
        }
    }

    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        let inner = self.0.clone();
        self.0.office.run(async move { inner.open(&opening).await })
    }

    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
        let inner = self.0.clone();
        let flight = (!claim.again).then(|| self.0.flights.begin(claim.id));
        self.0.office.run(async move {
            let standing = inner.claim(&claim).await;
            drop(flight);
            standing
        })
    }

    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        let inner = self.0.clone();
        self.0.office.run(async move { inner.renew(session, &claims).await })
    }

    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        let inner = self.0.clone();
        let landing = self.0.flights.landing(claim.id);
        self.0.office.run(async move {
            landing.await;
            inner.withdraw(&claim, &exit).await
        })
    }

    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        let inner = self.0.clone();
        self.0.office.run(async move { inner.ask_for(&claim).await })
    }

    fn close(&self, session: SessionId) -> Reply<()> {
        let inner = self.0.clone();
        self.0.office.run(async move { inner.close(session).await })
    }

    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        let (inner, scope) = (self.0.clone(), scope.clone());
        self.0.office.run(async move { inner.survey(&scope, look).await })
    }

    fn lifelines(&self, _session: SessionId) -> Vec<OwnedFd> {
        Vec::new()
    }
}
