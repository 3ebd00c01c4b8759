//! What a kind of server is asked for, and how it answers.

use std::{fmt::Debug, future::Future, hash::Hash, sync::Arc, time::Duration};

use bramah_core::{Claim, Error, Exit, Fence, Name, Profile, Result, Scope, SessionId};
use sqlx::{Connection, Database, error::DatabaseError};

use crate::{Break, Manners, Meaning, Seen, Terms};

/// A row of a dialect's.
pub type RowOf<D> = <<<D as Dialect>::Link as Connection>::Database as Database>::Row;

/// The texts of one kind of server, whose locks end with the connection that took them, and how its rows are read.
///
/// Every text is one message. Those that take, wait and leave are sent over the connection that has the lock, or is to have it;
/// the others over any. What they do is in the database's own functions, and [`Pinned`](crate::Pinned) knows when.
pub trait Dialect: Debug + Send + Sync + 'static {
    /// A connection.
    type Link: Connection + 'static;

    /// What the server calls a lock.
    type Key: Clone + Debug + Eq + Hash + Send + Sync;

    /// How the server is spoken with.
    const MANNERS: Manners;

    /// What it promises.
    fn profile(&self) -> Profile;

    /// With which a connection is made.
    fn options(&self) -> &<Self::Link as Connection>::Options;

    /// How it is used.
    fn terms(&self) -> &Terms;

    /// How errors call the server: `postgres at db:5432`.
    fn server(&self) -> &str;

    /// What its errors mean.
    fn meaning(&self) -> Meaning;

    /// Carries a text out over a connection of its own, to the end.
    fn ask(
        link: &mut Self::Link,
        text: String,
    ) -> impl Future<Output = sqlx::Result<Vec<RowOf<Self>>>> + Send;

    /// Carries a text out beside the connections that have locks.
    fn call(
        self: Arc<Self>,
        text: String,
        patience: Duration,
    ) -> impl Future<Output = Result<Vec<RowOf<Self>>>> + Send;

    /// The error for an answer that is not understood.
    fn misread(&self, error: &sqlx::Error) -> Error;

    /// How long the server keeps a connection that says nothing, if so long is wanted.
    fn ttl(&self, wanted: Duration) -> Duration;

    /// What the server calls this lock.
    ///
    /// # Errors
    /// `Invalid` for a name that the settings do not allow.
    fn key(&self, name: &Name) -> Result<Self::Key>;

    /// Whether the server is fit, and has the tables.
    fn examine(self: Arc<Self>, patience: Duration) -> impl Future<Output = Result<()>> + Send;

    /// Whether a statement was ended by somebody's wish.
    fn is_cancelled(error: &dyn DatabaseError) -> bool;

    /// Asks for the [`Badge`] of this connection.
    fn who(&self) -> String;

    /// What a connection begins with that may be silent for a ttl. Answers its [`Badge`].
    fn greeting(&self, ttl: Duration) -> String;

    /// Writes down who is behind a session, and clears away what others have left.
    fn open(&self, session: SessionId, about: &str) -> String;

    /// Forgets who is behind a session.
    fn close(&self, session: SessionId) -> String;

    /// Takes a lock if it is free. Answers [`Taken`].
    fn take(&self, claim: &Claim, key: &Self::Key) -> String;

    /// Writes down that this connection will wait. Answers how many are ahead.
    fn line_up(&self, claim: &Claim, key: &Self::Key) -> String;

    /// Waits for a lock, however long. Answers [`Taken`].
    fn wait(&self, claim: &Claim, key: &Self::Key) -> String;

    /// Releases a lock of this connection's, if it has it.
    fn leave(&self, claim: &Claim, key: &Self::Key) -> String;

    /// Looks whether this connection has the lock, replaces the note, and raises the fence to the floor. Answers [`Taken`].
    fn tend(&self, claim: &Claim, key: &Self::Key) -> String;

    /// Releases everything that this connection has.
    fn clean(&self) -> String;

    /// Lists the claims of a session ([`Rolled`]).
    fn roll(&self, session: SessionId) -> String;

    /// Ends what another connection is doing.
    fn cancel(&self, badge: Badge) -> String;

    /// Ends another connection.
    fn end(&self, badge: Badge) -> String;

    /// Asks for a claim of any session to be given up, and keeps a record.
    fn evict(&self, claim: &Claim, exit: &Exit) -> String;

    /// Looks for a claim of any session. Answers the badge of its connection and whether it is held, or nothing if it is not there.
    fn find(&self, claim: &Claim) -> String;

    /// Shows what is there: places, then breaks.
    fn look(&self, scope: &Scope) -> (String, String);

    /// Reads a badge.
    ///
    /// # Errors
    /// For columns that are not these, as all of these.
    fn read_badge(row: &RowOf<Self>) -> Result<Badge, sqlx::Error>;

    /// Reads how a claim came out.
    fn read_taken(row: &RowOf<Self>) -> Result<Taken, sqlx::Error>;

    /// Reads how many are ahead.
    fn read_ahead(row: &RowOf<Self>) -> Result<u32, sqlx::Error>;

    /// Reads a claim of a session.
    fn read_rolled(row: &RowOf<Self>) -> Result<Rolled, sqlx::Error>;

    /// Reads where a claim was found.
    fn read_found(row: &RowOf<Self>) -> Result<(Badge, bool), sqlx::Error>;

    /// Reads a place.
    fn read_seen(row: &RowOf<Self>) -> Result<Seen, sqlx::Error>;

    /// Reads a break.
    fn read_break(row: &RowOf<Self>) -> Result<Break, sqlx::Error>;
}

/// Which of the server's connections one is. Numbers of some servers come again, so there is the time of its beginning too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Badge {
    /// Its number there.
    pub number: i64,
    /// When it began, in the server's microseconds, where numbers come again.
    pub since: i64,
}

/// How a claim came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is held.
    Held(Fence),
    /// It is not free. So many are there.
    Busy(u32),
    /// It is not there any more.
    Gone,
    /// The lock is in use with another capacity.
    Conflict(u32),
    /// The server calls a lock of this other name the same.
    Namesake(String),
}

/// A claim of a session, as the server has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rolled {
    /// Its number; `None` for the connection itself that was asked.
    pub seq: Option<u64>,
    /// Which connection has it, or waits for it.
    pub number: i64,
    /// Whether it is held.
    pub held: bool,
    /// Whether it is to be given up.
    pub broken: bool,
}

impl Taken {
    /// Reads a state, a fence and a word about it.
    ///
    /// # Errors
    /// For what is not known: the functions are of another version.
    pub fn read(state: &str, fence: Option<i64>, word: Option<String>) -> Result<Self, sqlx::Error> {
        let unknown = || sqlx::Error::Decode(format!("the state {state:?}").into());
        let count = |word: Option<String>| word.and_then(|word| word.parse().ok()).ok_or_else(unknown);
        match state {
            "h" => Ok(Self::Held(Fence::new(fence.and_then(|fence| u64::try_from(fence).ok()).unwrap_or(0)))),
            "r" => count(word).map(Self::Busy),
            "g" => Ok(Self::Gone),
            "c" => count(word).map(Self::Conflict),
            "n" => word.map(Self::Namesake).ok_or_else(unknown),
            _ => Err(unknown()),
        }
    }
}

/// Claims of programs that are not ours: what the server tells of them, made an id that the same server can read again.
pub mod foreign {
    use bramah_core::{ClaimId, SessionId};

    use super::Badge;

    /// What the first half of such an id is, which no random one is in practice.
    pub const MARK: u64 = u64::from_be_bytes(*b"foreign.");

    /// The id of what a connection has.
    pub fn id(badge: Badge) -> ClaimId {
        let bits = (u128::from(MARK) << 64) | u128::from(badge.since.cast_unsigned());
        ClaimId { session: SessionId::from_bits(bits), seq: badge.number.cast_unsigned() }
    }

    /// Whether an id is one of these.
    pub fn is(id: ClaimId) -> bool {
        id.session.bits() >> 64 == u128::from(MARK)
    }

    /// The connection behind such an id.
    pub fn badge(id: ClaimId) -> Option<Badge> {
        let since = id.session.bits() & u128::from(u64::MAX);
        let since = u64::try_from(since).ok()?.cast_signed();
        is(id).then_some(Badge { number: id.seq.cast_signed(), since })
    }
}
