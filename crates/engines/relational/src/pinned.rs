//! Locks that end with a connection.
//!
//! Some servers have locks in their memory that belong to a connection: `pg_advisory_lock`, `GET_LOCK`. They cost no row and no
//! write to be taken, other programs can take the same ones, and the server releases them when the connection ends. What is made
//! of them here: a session of ours has connections of its own ([`Room`]), each owned by a task, and they are never pooled. A server
//! ends a connection that has said nothing for the session's ttl, so the ttl means here what it means elsewhere: whoever is cut off,
//! frozen or gone loses its locks then, and knows it before.
//!
//! Rows beside the locks say who has them, for people and for [`survey`](Engine::survey), and count the fences.

mod claims;
mod dialect;
mod entry;
mod link;
mod room;
mod watch;

use std::{
    collections::HashMap,
    fmt,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah_core::{
    Claim, Clock, Engine, Error, ErrorKind, Exit, Keep, Look, Opening, Profile, Renewal, Reply, Result,
    Scope, SessionId, Standing, Survey, Wake,
};
use bramah_remote::Flights;
use sqlx::Connection;
use tokio::{sync::Semaphore, time::timeout};

pub use dialect::{Badge, Dialect, Rolled, RowOf, Taken, foreign};

use crate::{
    Break, Office, Seen, Shelved, Trouble,
    survey::{self, Sight},
};
use room::Room;

/// How long a process is given to let go of what was broken before its connection is ended, and how often it is looked.
const NOTICE: Duration = Duration::from_millis(2500);
const GLANCE: Duration = Duration::from_millis(25);

/// Locks that end with a connection. Clones share everything.
pub struct Pinned<D: Dialect>(Arc<Inner<D>>);

/// What the clones share.
pub struct Inner<D: Dialect> {
    dialect: Arc<D>,
    office: Office,
    /// For every connection that may have locks.
    seats: Arc<Semaphore>,
    rooms: Mutex<HashMap<SessionId, Arc<Room<D>>>>,
    flights: Arc<Flights>,
    examined: AtomicBool,
    clock: Clock,
}

impl<D: Dialect> Pinned<D> {
    /// The engine on a server.
    pub fn new(dialect: Arc<D>, office: Office) -> Self {
        let seats = Arc::new(Semaphore::new(dialect.terms().connections));
        Self(Arc::new(Inner {
            dialect,
            office,
            seats,
            rooms: Mutex::default(),
            flights: Arc::default(),
            examined: AtomicBool::new(false),
            clock: Clock::boot(),
        }))
    }

    /// The server.
    pub fn dialect(&self) -> &Arc<D> {
        &self.0.dialect
    }

    /// Where its work is done.
    pub fn office(&self) -> &Office {
        &self.0.office
    }
}

impl<D: Dialect> Shelved for Pinned<D> {
    type Inner = Inner<D>;

    fn inner(&self) -> &Arc<Inner<D>> {
        &self.0
    }

    fn of(inner: Arc<Inner<D>>) -> Self {
        Self(inner)
    }
}

impl<D: Dialect> Clone for Pinned<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<D: Dialect> fmt::Debug for Pinned<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.dialect.fmt(f)
    }
}

impl<D: Dialect> fmt::Debug for Inner<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dialect.fmt(f)
    }
}

impl<D: Dialect> Inner<D> {
    fn rooms(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Room<D>>>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn room(&self, session: SessionId) -> Result<Arc<Room<D>>> {
        let room = self.rooms().get(&session).filter(|room| room.is_alive()).cloned();
        room.ok_or_else(|| {
            let text = format!("{}: the session has ended, and its locks with it", self.dialect.server());
            Error::new(ErrorKind::Lost, text)
        })
    }

    /// How long the answer to a call about a claim of this ttl is waited for.
    fn patience(&self, ttl: Duration) -> Duration {
        self.dialect.terms().timeout.min(ttl / 3).max(Duration::from_millis(10))
    }

    async fn open(self: &Arc<Self>, opening: Arc<Opening>) -> Result<Duration> {
        if opening.keep == Keep::Nobody {
            let text = "in mode=session a lock ends with its process, and cannot be left; use mode=table";
            return Err(Error::new(ErrorKind::Unsupported, format!("{}: {text}", self.dialect.server())));
        }
        if !self.examined.load(Ordering::Acquire) {
            self.straight().await?;
            self.dialect.clone().examine(self.dialect.terms().timeout).await?;
            self.examined.store(true, Ordering::Release);
        }
        if let Ok(room) = self.room(opening.session) {
            room.hear();
            return Ok(room.ttl);
        }
        let session = opening.session;
        self.close(session).await;
        let room = Room::open(self.dialect.clone(), self.office.clone(), self.seats.clone(), opening).await?;
        let ttl = room.ttl;
        let inner = Arc::downgrade(self);
        let end = move |session| {
            if let Some(inner) = inner.upgrade() {
                inner.rooms().remove(&session);
            }
        };
        self.office.spawn(watch::attend(Arc::downgrade(&room), end));
        self.rooms().insert(session, room);
        Ok(ttl)
    }

    /// Whether a connection of ours is one of the server's for as long as it lasts. A pooler that hands them out by transaction gives
    /// the one that has just become free to the next who asks, or another to us.
    async fn straight(&self) -> Result<()> {
        let explain = |trouble: Trouble| trouble.explain(self.dialect.server(), self.dialect.meaning());
        let patience = self.dialect.terms().connect_timeout;
        let badge = |rows: &[RowOf<D>]| {
            let row = rows.last().ok_or(sqlx::Error::RowNotFound).and_then(D::read_badge);
            row.map_err(|error| self.dialect.misread(&error))
        };
        let look = async {
            let connected = D::Link::connect_with(self.dialect.options()).await;
            let mut one = connected.map_err(|error| explain(Trouble::Said(error)))?;
            let ask = D::ask(&mut one, self.dialect.who()).await;
            let first = badge(&ask.map_err(|error| explain(Trouble::Said(error)))?)?;
            let other = badge(&self.dialect.clone().call(self.dialect.who(), patience).await?)?;
            let ask = D::ask(&mut one, self.dialect.who()).await;
            let again = badge(&ask.map_err(|error| explain(Trouble::Said(error)))?)?;
            let _ = one.close().await;
            if first.number == other.number || first.number != again.number {
                return Err(room::swapped(self.dialect.server()));
            }
            Ok(())
        };
        match timeout(patience, look).await {
            Ok(looked) => looked,
            Err(_) => Err(explain(Trouble::Unconnected(patience))),
        }
    }

    async fn claim(&self, claim: Arc<Claim>) -> Result<Standing> {
        let room = self.room(claim.id.session)?;
        let patience = self.patience(room.ttl);
        room.hear();
        if !claim.again {
            return room.enter(claim, patience).await;
        }
        match room.known(claim.id) {
            Some(entry) => room.standing(&entry, &claim, patience).await,
            None => Ok(Standing::Gone),
        }
    }

    async fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Renewal {
        let asked: Vec<u64> = claims.iter().map(|claim| claim.id.seq).collect();
        match self.room(session) {
            Ok(room) => room.renew(&asked, self.patience(room.ttl)).await,
            Err(_) => Renewal { gone: claims.iter().map(|claim| claim.id).collect(), ..Renewal::default() },
        }
    }

    async fn withdraw(&self, claim: Arc<Claim>, exit: Exit, landing: impl Future<Output = ()>) -> Result<()> {
        landing.await;
        match exit {
            Exit::Own => match self.room(claim.id.session) {
                Ok(room) => room.leave(claim.id, self.patience(room.ttl)).await,
                Err(_) => Ok(()),
            },
            exit => self.evict(&claim, &exit).await,
        }
    }

    /// Ends somebody's claim. A process of ours is asked to let go of it, for its connection may have other locks; who does not,
    /// or is not one of ours, loses its connection.
    async fn evict(&self, claim: &Claim, exit: &Exit) -> Result<()> {
        let (dialect, patience) = (&self.dialect, self.dialect.terms().timeout);
        let until = self.clock.now() + NOTICE;
        let mut is_first = true;
        loop {
            let rows = dialect.clone().call(dialect.find(claim), patience).await?;
            let Some(row) = rows.last() else { return Ok(()) };
            if std::mem::take(&mut is_first) {
                dialect.clone().call(dialect.evict(claim, exit), patience).await?;
            }
            let (badge, is_held) = D::read_found(row).map_err(|error| dialect.misread(&error))?;
            if !is_held {
                dialect.clone().call(dialect.cancel(badge), patience).await?;
            } else if foreign::is(claim.id) || self.clock.now() > until {
                dialect.clone().call(dialect.end(badge), patience).await?;
            } else if let Ok(room) = self.room(claim.id.session) {
                room.look(patience).await;
            }
            if self.clock.now() > until + NOTICE {
                let text =
                    format!("{}: its connection could not be ended; is it another user's?", claim.name);
                return Err(Error::new(ErrorKind::Denied, text));
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    async fn look(self: Arc<Self>, scope: Scope) -> Result<(Vec<Seen>, Vec<Break>)> {
        let (dialect, patience) = (&self.dialect, self.dialect.terms().timeout);
        let (places, breaks) = dialect.look(&scope);
        let misread = |error: sqlx::Error| dialect.misread(&error);
        let rows = dialect.clone().call(places, patience).await?;
        let places: Result<_, _> = rows.iter().map(D::read_seen).collect();
        let rows = dialect.clone().call(breaks, patience).await?;
        let breaks: Result<_, _> = rows.iter().map(D::read_break).collect();
        Ok((places.map_err(misread)?, breaks.map_err(misread)?))
    }

    async fn close(&self, session: SessionId) {
        let room = self.rooms().remove(&session);
        if let Some(room) = room {
            room.close().await;
            // If it cannot be done now, the row is removed when nobody has heard of the session for an hour.
            let (dialect, patience) = (&self.dialect, self.dialect.terms().timeout);
            if let Err(error) = dialect.clone().call(dialect.close(session), patience).await {
                tracing::debug!(%error, "a session was not forgotten");
            }
        }
    }
}

impl<D: Dialect> Engine for Pinned<D> {
    fn profile(&self) -> Profile {
        self.0.dialect.profile()
    }

    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        let inner = self.0.clone();
        self.0.office.run(async move { inner.open(opening).await })
    }

    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
        let inner = self.0.clone();
        let flight = (!claim.again).then(|| self.0.flights.begin(claim.id));
        self.0.office.run(async move {
            let standing = inner.claim(claim).await;
            drop(flight);
            standing
        })
    }

    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        let inner = self.0.clone();
        self.0.office.run(async move { Ok(inner.renew(session, claims).await) })
    }

    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        let inner = self.0.clone();
        let landing = self.0.flights.landing(claim.id);
        self.0.office.run(async move { inner.withdraw(claim, exit, landing).await })
    }

    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        let why = "a database in session mode keeps locks of its connections, and has no place for a wish";
        Reply::now(Err(claim.unaskable(why)))
    }

    fn close(&self, session: SessionId) -> Reply<()> {
        let inner = self.0.clone();
        self.0.office.run(async move {
            inner.close(session).await;
            Ok(())
        })
    }

    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        let (inner, scope) = (self.0.clone(), scope.clone());
        self.0.office.run(async move {
            let (rows, breaks) = inner.clone().look(scope.clone()).await?;
            let wake = match look {
                Look::Once | Look::Glance => Wake::never(),
                Look::Watching => {
                    let (bell, wake) = Wake::pair();
                    let (office, wanted) = (inner.office.clone(), scope.clone());
                    let look = move || inner.clone().look(wanted.clone());
                    office.spawn(survey::watch(look, Sight::of(&rows, &breaks), bell));
                    wake
                }
            };
            survey::of(&scope, rows, breaks, wake)
        })
    }

    fn lifelines(&self, _session: SessionId) -> Vec<OwnedFd> {
        Vec::new()
    }
}
