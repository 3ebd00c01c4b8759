//! The engine: sessions by their ids, and whom a call is for.

use std::{
    collections::HashMap,
    fmt,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};

use bramah_core::{
    Asking, Capacities, Claim, Engine, Error, ErrorKind, Exit, Fencing, Keep, Leasing, Liveness, Look, Modes,
    Opening, Order, Profile, Renewal, Reply, Result, Scope, Seats, SessionId, Standing, Strays, Survey,
    Waking,
};
use bramah_remote::Flights;

use crate::{
    base::Base,
    desk::Desk,
    error,
    room::{self, Room},
    survey,
};

/// What the clones of an engine share.
pub struct Inner {
    pub(crate) base: Arc<Base>,
    pub(crate) desk: Arc<Desk>,
    rooms: Mutex<HashMap<SessionId, Arc<Room>>>,
    flights: Arc<Flights>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.base.config.fmt(f)
    }
}

impl Inner {
    pub(crate) fn new(base: Base) -> Self {
        let base = Arc::new(base);
        let desk = Arc::new(Desk::new(base.clone()));
        Self { base, desk, rooms: Mutex::default(), flights: Arc::default() }
    }

    fn rooms(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Room>>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn all_rooms(&self) -> Vec<Arc<Room>> {
        self.rooms().values().cloned().collect()
    }

    pub(crate) fn room(&self, session: SessionId) -> Result<Arc<Room>> {
        let rooms = self.rooms();
        let room = rooms.get(&session).filter(|room| !room.is_over());
        // Under the lock: nobody closes it for being unused from here on.
        room.inspect(|room| room.used.store(true, Ordering::Release))
            .cloned()
            .ok_or_else(|| error::ended(&self.base.server))
    }

    /// Closes a session that was opened for somebody who has given up, unless it is used all the same, or another one has its place.
    async fn close_unused(&self, room: &Arc<Room>) {
        let session = room.opening.session;
        let unused = {
            let mut rooms = self.rooms();
            let is_unused =
                |found: &Arc<Room>| Arc::ptr_eq(found, room) && !found.used.load(Ordering::Acquire);
            if rooms.get(&session).is_some_and(is_unused) { rooms.remove(&session) } else { None }
        };
        if let Some(room) = unused {
            room.close().await;
        }
    }

    /// Opens a session, or finds it open. Its ttl, and its room if that was made here.
    async fn open(self: &Arc<Self>, opening: Arc<Opening>) -> Result<(Duration, Option<Arc<Room>>)> {
        if opening.keep == Keep::Nobody {
            let text = "a lock on ZooKeeper ends with its process, and cannot be left; use etcd, Redis, or a database in table mode";
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("zookeeper {}: {text}", self.base.server),
            ));
        }
        let session = opening.session;
        if let Ok(room) = self.room(session) {
            room.hear();
            return Ok((room.ttl, None));
        }
        let room = Room::open(self.base.clone(), opening).await?;
        let ttl = room.ttl;
        {
            let mut rooms = self.rooms();
            if let Some(other) = rooms.get(&session).filter(|room| !room.is_over()) {
                other.used.store(true, Ordering::Release);
                return Ok((other.ttl, None));
            }
            rooms.insert(session, room.clone());
        }
        if let Some(states) = room.states() {
            let inner = Arc::downgrade(self);
            let weak = Arc::downgrade(&room);
            let own = weak.clone();
            let end = move |session| {
                if let Some(inner) = inner.upgrade() {
                    let mut rooms = inner.rooms();
                    let is_own = |room: &Arc<Room>| std::ptr::eq(Arc::as_ptr(room), own.as_ptr());
                    if rooms.get(&session).is_some_and(is_own) {
                        rooms.remove(&session);
                    }
                }
            };
            self.base.office.spawn(room::attend(weak, states, end));
        }
        Ok((ttl, Some(room)))
    }

    /// How long a session's answers are waited for.
    fn patience(&self, session: SessionId) -> Duration {
        self.rooms().get(&session).map_or(self.base.config.timeout, |room| room.patience())
    }

    fn silence<T>(&self, what: String, patience: Duration) -> impl FnOnce() -> Result<T> + Send + 'static {
        let server = self.base.server.clone();
        move || Err(error::silent(&server, &what, patience))
    }
}

/// Locks on ZooKeeper, as core uses them.
#[derive(Clone, Debug)]
pub(crate) struct Locks(pub(crate) Arc<Inner>);

impl Engine for Locks {
    fn profile(&self) -> Profile {
        Profile {
            modes: Modes::Permits,
            capacity: Capacities::Claimed,
            order: Order::Fifo,
            fence: Fencing::Durable,
            liveness: Liveness::Session,
            wake: Waking::Pushed,
            seats: Seats::Many,
            lease: Leasing::Kept,
            strays: Strays::Listed,
            asking: Asking::Passed,
        }
    }

    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        let inner = self.0.clone();
        let patience = inner.base.config.connect_timeout + Duration::from_millis(100);
        let silence = inner.silence("a new session".to_owned(), patience);
        let (waits, given_up) = tokio::sync::oneshot::channel::<()>();
        let reply = self.0.base.office.run_within(patience, silence, async move {
            let (ttl, made) = inner.open(opening).await?;
            if let Some(room) = made {
                // Behind the answer, as only one that was not waited for is closed.
                let office = inner.base.office.clone();
                office.spawn(async move {
                    if given_up.await.is_err() {
                        inner.close_unused(&room).await;
                    }
                });
            }
            Ok(ttl)
        });
        Reply::later(async move {
            let opened = reply.await;
            if opened.is_ok() {
                let _ = waits.send(());
            }
            opened
        })
    }

    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
        let room = match self.0.room(claim.id.session) {
            Ok(room) => room,
            Err(error) => return Reply::now(Err(error)),
        };
        room.hear();
        let flight = (!claim.again).then(|| self.0.flights.begin(claim.id));
        let patience = room.patience();
        let silence = self.0.silence(claim.name.to_string(), patience);
        self.0.base.office.run_within(patience, silence, async move {
            let standing = if claim.again { room.ask(&claim).await } else { room.enter(&claim).await };
            drop(flight);
            standing
        })
    }

    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        let all = |claims: &[Arc<Claim>]| claims.iter().map(|claim| claim.id).collect();
        let Ok(room) = self.0.room(session) else {
            return Reply::now(Ok(Renewal { gone: all(&claims), ..Renewal::default() }));
        };
        room.hear();
        // What was given up is told without a question, for there may be nobody to answer it.
        let is_void = |claim: &Arc<Claim>| room.known(claim.id).is_some_and(|entry| entry.is_void());
        if !claims.is_empty() && claims.iter().all(is_void) {
            return Reply::now(Ok(Renewal { gone: all(&claims), ..Renewal::default() }));
        }
        let unknown = Renewal { unknown: all(&claims), ..Renewal::default() };
        let (silence, patience) = (unknown.clone(), room.patience());
        self.0.base.office.run_within(patience, || Ok(silence), async move {
            match room.renew(&claims).await {
                Ok(renewal) => Ok(renewal),
                Err(_) if room.is_over() => Ok(Renewal { gone: unknown.unknown, ..Renewal::default() }),
                // The connection has ended, or the ensemble does not serve: that is told by what is not known.
                Err(error) if error.kind() == ErrorKind::Unavailable => Ok(unknown),
                Err(error) => Err(error),
            }
        })
    }

    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        let inner = self.0.clone();
        let landing = self.0.flights.landing(claim.id);
        let patience = self.0.patience(claim.id.session);
        let silence = self.0.silence(claim.name.to_string(), patience);
        self.0.base.office.run_within(patience, silence, async move {
            landing.await;
            match exit {
                Exit::Own => match inner.room(claim.id.session) {
                    Ok(room) => room.leave(&claim).await,
                    // Its nodes went with the session.
                    Err(_) => Ok(()),
                },
                Exit::Broken(cause) => inner.desk.evict(&claim, &cause).await,
            }
        })
    }

    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        let desk = self.0.desk.clone();
        let patience = self.0.patience(claim.id.session);
        let silence = self.0.silence(claim.name.to_string(), patience);
        self.0.base.office.run_within(patience, silence, async move { desk.ask(&claim).await })
    }

    fn close(&self, session: SessionId) -> Reply<()> {
        let room = self.0.rooms().remove(&session);
        let Some(room) = room else { return Reply::now(Ok(())) };
        let patience = room.patience() + Duration::from_millis(100);
        self.0.base.office.run_within(patience, || Ok(()), async move {
            room.close().await;
            Ok(())
        })
    }

    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        let (desk, scope) = (self.0.desk.clone(), scope.clone());
        let patience = self.0.base.config.timeout + self.0.base.config.connect_timeout;
        let silence = self.0.silence("a survey".to_owned(), patience);
        self.0.base.office.run_within(patience, silence, survey::survey(desk, scope, look))
    }

    fn lifelines(&self, _session: SessionId) -> Vec<OwnedFd> {
        Vec::new()
    }
}
