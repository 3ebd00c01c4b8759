//! What one session has.
//!
//! Its first connection takes whatever is free at once, so that any number of locks costs one connection. A claim that has to wait
//! waits on a connection of its own, which has the lock from the grant to the release, and serves the next wait afterwards.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah_core::{ClaimId, Clock, Error, ErrorKind, Moment, Opening, Result, Woken};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    dialect::{Badge, Dialect, Rolled, RowOf},
    entry::{Entry, State},
    link::Link,
};
use crate::{Office, Trouble};

/// How often a text is sent again that was hit by a wish to end the one before it.
const STRAY_SHOTS: usize = 3;

/// How often it is tried to end a connection that we have left.
const UNDERTAKINGS: u32 = 5;

pub(crate) struct Room<D: Dialect> {
    pub(super) dialect: Arc<D>,
    pub(super) office: Office,
    seats: Arc<Semaphore>,
    pub(super) clock: Clock,
    pub(super) opening: Arc<Opening>,
    pub(super) ttl: Duration,
    pub(super) hub: tokio::sync::Mutex<Arc<Link<D>>>,
    /// Connections that are free, and since when.
    spares: Mutex<Vec<(Arc<Link<D>>, Moment)>>,
    entries: Mutex<HashMap<u64, Arc<Entry<D>>>>,
    /// When the session was last heard of.
    heard: Mutex<Moment>,
    over: AtomicBool,
}

impl<D: Dialect> fmt::Debug for Room<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("session", &self.opening.session).finish_non_exhaustive()
    }
}

impl<D: Dialect> Room<D> {
    /// Makes the first connection.
    pub(crate) async fn open(
        dialect: Arc<D>,
        office: Office,
        seats: Arc<Semaphore>,
        opening: Arc<Opening>,
    ) -> Result<Arc<Self>> {
        let ttl = dialect.ttl(opening.ttl);
        let explain = |trouble: Trouble| trouble.explain(dialect.server(), dialect.meaning());
        let seat = seat(&seats, &*dialect)?;
        let hub = Link::dial(&dialect, ttl, seat).await.map_err(explain)?;
        let text = dialect.open(opening.session, &opening.about.encode());
        Self::say(&hub, text, dialect.terms().timeout).await.map_err(explain)?;
        let clock = Clock::boot();
        Ok(Arc::new(Self {
            dialect,
            office,
            seats,
            heard: Mutex::new(clock.now()),
            clock,
            opening,
            ttl,
            hub: tokio::sync::Mutex::new(hub),
            spares: Mutex::default(),
            entries: Mutex::default(),
            over: AtomicBool::new(false),
        }))
    }

    pub(super) fn entries(&self) -> MutexGuard<'_, HashMap<u64, Arc<Entry<D>>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spares(&self) -> MutexGuard<'_, Vec<(Arc<Link<D>>, Moment)>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Whether it may be heard of again. One that was silent for its ttl is at its end, also if nobody has seen to that yet.
    pub(crate) fn is_alive(&self) -> bool {
        !self.is_over() && self.silence() <= self.ttl
    }

    /// The session is heard of.
    pub(crate) fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = self.clock.now();
    }

    /// How long the session has not been heard of.
    pub(super) fn silence(&self) -> Duration {
        self.clock.now().since(*self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn explain(&self, trouble: Trouble) -> Error {
        trouble.explain(self.dialect.server(), self.dialect.meaning())
    }

    /// Reads the last row of an answer.
    pub(super) fn read<T>(
        &self,
        rows: &[RowOf<D>],
        read: impl Fn(&RowOf<D>) -> Result<T, sqlx::Error>,
    ) -> Result<T> {
        let row = rows.last().ok_or(sqlx::Error::RowNotFound).and_then(read);
        row.map_err(|error| self.dialect.misread(&error))
    }

    /// The connection for what is free at once. What a broken one had is gone; there is a new one then.
    pub(super) async fn hub(&self) -> Result<Arc<Link<D>>> {
        let mut hub = self.hub.lock().await;
        if hub.is_over() {
            let seat = seat(&self.seats, &*self.dialect)?;
            let dialled = Link::dial(&self.dialect, self.ttl, seat).await;
            *hub = dialled.map_err(|trouble| self.explain(trouble))?;
        }
        Ok(hub.clone())
    }

    /// Ends connections that were not needed for a while: one that has been silent for long may be ended by the server at any moment.
    pub(super) fn drop_old_spares(&self) {
        let now = self.clock.now();
        self.spares().retain(|(link, since)| !link.is_over() && now.since(*since) < self.ttl / 3);
    }

    /// A connection to wait on.
    pub(super) async fn spare(&self) -> Result<Arc<Link<D>>> {
        self.drop_old_spares();
        let spare = self.spares().pop();
        if let Some((link, _)) = spare {
            return Ok(link);
        }
        let seat = seat(&self.seats, &*self.dialect)?;
        Link::dial(&self.dialect, self.ttl, seat).await.map_err(|trouble| self.explain(trouble))
    }

    /// Keeps a connection that has nothing any more for the next wait.
    pub(super) fn put_by(&self, link: Arc<Link<D>>) {
        if !self.is_over() && !link.is_over() {
            self.spares().push((link, self.clock.now()));
        }
    }

    pub(super) fn forget(&self, entry: &Entry<D>) {
        self.entries().remove(&entry.claim.id.seq);
    }

    pub(super) fn known(&self, id: ClaimId) -> Option<Arc<Entry<D>>> {
        self.entries().get(&id.seq).cloned()
    }

    /// Has a text carried out that may be sent again, also if it was cancelled: that may have been meant for the one before it.
    pub(super) async fn say(
        link: &Link<D>,
        text: String,
        patience: Duration,
    ) -> Result<Vec<RowOf<D>>, Trouble> {
        for _ in 1..STRAY_SHOTS {
            match link.ask(text.clone(), patience).await {
                Err(Trouble::Said(sqlx::Error::Database(error)))
                    if D::is_cancelled(&*error) || (D::MANNERS.is_undone)(&*error) => {}
                answer => return answer,
            }
        }
        link.ask(text, patience).await
    }

    /// Ends a connection here and, if the server still has it, there.
    pub(super) fn bury(&self, link: &Arc<Link<D>>) {
        if !link.bury() {
            return;
        }
        let (dialect, badge, pause) = (self.dialect.clone(), link.badge(), self.ttl / 5);
        self.office.spawn(bury(dialect, badge, pause));
    }

    /// Ends everything: the session is closed, or was not heard of for its ttl.
    pub(crate) async fn close(&self) {
        self.over.store(true, Ordering::Release);
        let entries: Vec<_> = self.entries().drain().map(|(_, entry)| entry).collect();
        for entry in entries {
            let mut state = entry.state.lock().await;
            if let Some(link) = state.link() {
                self.bury(link);
            }
            *state = State::Gone;
            drop(state);
            entry.tell(Woken::Ask);
        }
        // Connections without locks end by themselves as soon as nobody can use them.
        self.spares().clear();
    }

    pub(super) async fn roll(&self, patience: Duration) -> Result<Vec<Rolled>> {
        let hub = self.hub().await?;
        let rows = hub.ask(self.dialect.roll(self.opening.session), patience).await;
        let rows = rows.map_err(|trouble| self.explain(trouble))?;
        let read: Result<Vec<_>, _> = rows.iter().map(D::read_rolled).collect();
        let rolled = read.map_err(|error| self.dialect.misread(&error))?;
        let own = rolled.iter().find(|one| one.seq.is_none()).map(|one| one.number);
        if own != Some(hub.badge().number) {
            self.bury(&hub);
            return Err(swapped(self.dialect.server()));
        }
        Ok(rolled)
    }
}

/// Ends a connection on the server, if it can be reached.
async fn bury<D: Dialect>(dialect: Arc<D>, badge: Badge, pause: Duration) {
    for _ in 0..UNDERTAKINGS {
        if dialect.clone().call(dialect.end(badge), dialect.terms().timeout).await.is_ok() {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}

/// A seat for one more connection.
fn seat<D: Dialect>(seats: &Arc<Semaphore>, dialect: &D) -> Result<OwnedSemaphorePermit> {
    seats.clone().try_acquire_owned().map_err(|_| {
        let text = format!(
            "{}: all {} connections of session mode are in use: one for each session, and one for each lock that is waited for \
             or was waited for; raise connections= in the url, or use mode=table",
            dialect.server(),
            dialect.terms().connections
        );
        Error::new(ErrorKind::Unavailable, text)
    })
}

/// The error for a connection that is not the server's own.
pub(super) fn swapped(server: &str) -> Error {
    let text = format!(
        "{server}: a pooler hands its connections out by transaction or statement, and mode=session needs one for as long as a lock; \
         connect to the server itself, or use mode=table"
    );
    Error::new(ErrorKind::Unsupported, text)
}
