//! Connections, a bounded number of them, each lent for one statement.
//!
//! The driver's own pool asks every connection whether it lives when it comes back: a round trip more for each statement.
//! Here a connection that was at rest is believed to live, and what it could not carry is tried once more on a new one: every
//! statement of ours may be repeated. And one that takes longer to be made than its caller has time is there for the next.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah_core::{Clock, Moment};
use sqlx::{AssertSqlSafe, Connection, Database, Executor, error::DatabaseError};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::timeout,
};

use crate::{Trouble, progress::Progress};

/// How long a connection may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

/// How often a text is sent that the server undid for the sake of another.
const TRIES: usize = 5;

/// Connections to one server, all with the same login.
pub struct Pool<C: Connection> {
    options: <C as Connection>::Options,
    seats: Arc<Semaphore>,
    /// Those that rest, the longest first.
    idle: Mutex<Vec<Idle<C>>>,
    /// Whether a task closes those that have rested for too long.
    closes: AtomicBool,
    rest: Duration,
    connect_timeout: Duration,
    manners: Manners,
    /// Whether texts begin with the prelude.
    begins: AtomicBool,
    progress: Progress,
    clock: Clock,
}

/// How a kind of server is spoken with.
#[derive(Clone, Copy, Debug)]
pub struct Manners {
    /// What a connection begins with.
    pub greeting: &'static [&'static str],
    /// What a text begins with, from the first one on that wants it.
    pub prelude: Option<Prelude>,
    /// Whether the server says with this that it ends the connection.
    pub is_farewell: fn(&dyn DatabaseError) -> bool,
    /// Whether it undid a call for the sake of another, so that the next try may succeed.
    pub is_undone: fn(&dyn DatabaseError) -> bool,
}

/// What texts begin with where a server turns out to want it.
#[derive(Clone, Copy, Debug)]
pub struct Prelude {
    /// Statements, before ours in the same message.
    pub text: &'static str,
    /// Whether the server says with this that it wants them. Nothing was done then.
    pub is_wanted: fn(&dyn DatabaseError) -> bool,
}

struct Idle<C> {
    connection: C,
    since: Moment,
}

impl Manners {
    /// None: a connection begins with nothing, and what a server says is taken as it is.
    pub const NONE: Self =
        Self { greeting: &[], prelude: None, is_farewell: |_| false, is_undone: |_| false };
}

impl<C: Connection> fmt::Debug for Pool<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Options have a password in them.
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl<C> Pool<C>
where
    C: Connection + 'static,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
{
    /// At the most `size` connections, which end when they were not used for `rest`.
    pub fn new(
        options: <C as Connection>::Options,
        size: usize,
        rest: Duration,
        connect_timeout: Duration,
        manners: Manners,
    ) -> Self {
        Self {
            options,
            seats: Arc::new(Semaphore::new(size)),
            idle: Mutex::default(),
            closes: AtomicBool::new(false),
            rest,
            connect_timeout,
            manners,
            begins: AtomicBool::new(false),
            progress: Progress::default(),
            clock: Clock::boot(),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle<C>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries one text out and gives the rows, within its patience from the moment that it has a connection, however often it has to
    /// be tried. It waits for a connection while others are answered. A text that is not answered in time ends its connection.
    ///
    /// # Errors
    /// Why not.
    pub async fn query(
        self: &Arc<Self>,
        text: String,
        patience: Duration,
    ) -> Result<Vec<<C::Database as Database>::Row>, Trouble> {
        let mut until = None;
        for _ in 1..TRIES {
            match self.attempt(self.begun(&text), patience, &mut until).await {
                Err(Trouble::Said(sqlx::Error::Database(error))) if (self.manners.is_undone)(&*error) => {}
                Err(Trouble::Said(sqlx::Error::Database(error))) if self.wants_prelude(&*error) => {
                    self.begins.store(true, Ordering::Relaxed);
                }
                answer => return answer,
            }
        }
        self.attempt(self.begun(&text), patience, &mut until).await
    }

    fn begun(&self, text: &str) -> String {
        match self.manners.prelude.filter(|_| self.begins.load(Ordering::Relaxed)) {
            Some(prelude) => format!("{}{text}", prelude.text),
            None => text.to_owned(),
        }
    }

    fn wants_prelude(&self, error: &dyn DatabaseError) -> bool {
        self.manners.prelude.is_some_and(|prelude| (prelude.is_wanted)(error))
    }

    async fn attempt(
        self: &Arc<Self>,
        text: String,
        patience: Duration,
        until: &mut Option<Moment>,
    ) -> Result<Vec<<C::Database as Database>::Row>, Trouble> {
        let seat = match self.progress.wait(patience, self.seats.clone().acquire_owned()).await {
            Some(Ok(seat)) => seat,
            _ => return Err(Trouble::Full(patience)),
        };
        let until = *until.get_or_insert_with(|| self.clock.now() + patience);
        let left = || until.since(self.clock.now());
        if left().is_zero() {
            return Err(Trouble::Silent(patience));
        }
        while let Some(mut connection) = self.rested() {
            match timeout(left(), rows(&mut connection, text.clone())).await {
                Err(_) => return Err(Trouble::Silent(patience)),
                Ok(Err(error)) if self.is_broken(&error) => continue,
                Ok(answer) => {
                    self.put_back(connection);
                    return answer.map_err(Trouble::Said);
                }
            }
        }
        let (mut connection, _seat) = match timeout(left(), self.dial(seat)).await {
            Ok(Ok(Ok(dialled))) => dialled,
            Ok(Ok(Err(trouble))) => return Err(trouble),
            _ => return Err(Trouble::Unconnected(patience)),
        };
        match timeout(left(), rows(&mut connection, text)).await {
            Err(_) => Err(Trouble::Silent(patience)),
            Ok(Err(error)) if self.is_broken(&error) => Err(Trouble::Said(error)),
            Ok(answer) => {
                self.put_back(connection);
                answer.map_err(Trouble::Said)
            }
        }
    }

    /// Makes a connection, in a task of its own that keeps the seat meanwhile. If nobody waits for it any more it rests.
    fn dial(
        self: &Arc<Self>,
        seat: OwnedSemaphorePermit,
    ) -> oneshot::Receiver<Result<(C, OwnedSemaphorePermit), Trouble>> {
        let (tell, told) = oneshot::channel();
        let pool = self.clone();
        tokio::spawn(async move {
            let made = pool.connect().await.map(|connection| (connection, seat));
            if let Err(Ok((connection, _seat))) = tell.send(made) {
                pool.put_back(connection);
            }
        });
        told
    }

    async fn connect(&self) -> Result<C, Trouble> {
        let greet = async {
            let mut connection = C::connect_with(&self.options).await?;
            for text in self.manners.greeting {
                rows(&mut connection, (*text).to_owned()).await?;
            }
            Ok(connection)
        };
        match timeout(self.connect_timeout, greet).await {
            Ok(connected) => connected.map_err(Trouble::Said),
            Err(_) => Err(Trouble::Unconnected(self.connect_timeout)),
        }
    }

    /// The connection that was used last, if it has not rested for too long.
    fn rested(&self) -> Option<C> {
        let now = self.clock.now();
        let mut idle = self.idle();
        idle.pop_if(|one| now.since(one.since) <= self.rest).map(|one| one.connection)
    }

    /// Those that have rested for too long, and when the next one will have.
    fn overdue(&self) -> (Vec<Idle<C>>, Option<Duration>) {
        let now = self.clock.now();
        let mut idle = self.idle();
        let count = idle.iter().take_while(|one| now.since(one.since) > self.rest).count();
        let overdue = idle.drain(..count).collect();
        let next = idle.first().map(|one| self.rest.saturating_sub(now.since(one.since)));
        (overdue, next.map(|left| left + Duration::from_millis(1)))
    }

    /// Whether the connection is not to be used again.
    fn is_broken(&self, error: &sqlx::Error) -> bool {
        !matches!(error, sqlx::Error::Database(error) if !(self.manners.is_farewell)(&**error))
    }

    fn put_back(self: &Arc<Self>, connection: C) {
        let since = self.clock.now();
        self.progress.answered();
        self.idle().push(Idle { connection, since });
        if !self.closes.swap(true, Ordering::AcqRel) {
            tokio::spawn(close_overdue(Arc::downgrade(self)));
        }
    }
}

/// Closes connections when they have rested for too long, as long as there are any that rest.
async fn close_overdue<C>(pool: Weak<Pool<C>>)
where
    C: Connection + 'static,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
{
    loop {
        let Some(known) = pool.upgrade() else { return };
        let (overdue, next) = known.overdue();
        if next.is_none() && overdue.is_empty() {
            known.closes.store(false, Ordering::Release);
            // One may have been put back in between, by somebody who saw that we are here.
            if known.idle().is_empty() || known.closes.swap(true, Ordering::AcqRel) {
                return;
            }
        }
        drop(known);
        for one in overdue {
            let _ = timeout(GOODBYE, one.connection.close()).await;
        }
        if let Some(next) = next {
            tokio::time::sleep(next).await;
        }
    }
}

/// The rows that a text answers, in one message each way.
///
/// # Errors
/// The driver's.
pub async fn rows<C>(connection: &mut C, text: String) -> sqlx::Result<Vec<<C::Database as Database>::Row>>
where
    C: Connection,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
{
    // Whoever makes a text puts its values between quotes: see the engines.
    sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(connection).await
}
