//! What a database has to be able to do.

use std::{fmt::Debug, future::Future, ops::RangeInclusive, sync::Arc, time::Duration};

use bramah_core::{Claim, ClaimId, Exit, Fence, Name, Opening, Profile, Result, Scope, SessionId};

use crate::{Answer, Break, Renewed, Seen, Wakes};

/// A database with Bramah's tables in it.
///
/// Futures run on the [`Office`](crate::Office)'s runtime and to their end; each ends within the patience that it is given, counted
/// from the moment that it has a connection, which it waits for while others are answered. A call that failed half-way may have been
/// carried out: all of them may be repeated.
pub trait Base: Debug + Send + Sync + 'static {
    /// What it promises.
    fn profile(&self) -> Profile;

    /// How errors call the server.
    fn server(&self) -> &str;

    /// How long an answer is waited for, at the most.
    fn timeout(&self) -> Duration;

    /// Whether the server is fit: it takes writes, has the tables, and they are of our version.
    fn examine(self: Arc<Self>, patience: Duration) -> impl Future<Output = Result<()>> + Send;

    /// Writes down who is behind a session, and has its wakes told what happens to its claims from now on.
    fn open(
        self: Arc<Self>,
        opening: Arc<Opening>,
        wakes: Arc<Wakes>,
        patience: Duration,
    ) -> impl Future<Output = Result<()>> + Send;

    /// How a waiter of the session is told now.
    fn footing(&self, session: SessionId) -> Footing;

    /// Enters.
    fn enter(
        self: Arc<Self>,
        claim: Arc<Claim>,
        patience: Duration,
    ) -> impl Future<Output = Result<Answer>> + Send;

    /// Asks.
    fn ask(
        self: Arc<Self>,
        claim: Arc<Claim>,
        patience: Duration,
    ) -> impl Future<Output = Result<Answer>> + Send;

    /// Which claims, of whatever session, are held in these lines, and with which fences: for waiters that are not told. What it costs
    /// depends on the number of lines and holders, not on that of waiters.
    fn granted(
        self: Arc<Self>,
        names: Vec<Name>,
        patience: Duration,
    ) -> impl Future<Output = Result<Vec<(ClaimId, Fence)>>> + Send;

    /// Leaves.
    fn leave(
        self: Arc<Self>,
        claim: Arc<Claim>,
        exit: Exit,
        patience: Duration,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Proves the life of these claims of a session, and lists what else it has, at least with a number in this span.
    fn renew(
        self: Arc<Self>,
        session: SessionId,
        claims: Vec<Arc<Claim>>,
        span: RangeInclusive<u64>,
        patience: Duration,
    ) -> impl Future<Output = Result<Vec<Renewed>>> + Send;

    /// The first waiter of each of these lines.
    fn heads(
        self: Arc<Self>,
        names: Vec<Name>,
        patience: Duration,
    ) -> impl Future<Output = Result<Vec<Head>>> + Send;

    /// Advances a line in which somebody has died.
    fn nudge(self: Arc<Self>, name: Name, patience: Duration) -> impl Future<Output = Result<()>> + Send;

    /// Notes that somebody asks the holder of a claim to let go, and tells its session if that can be told. An absent claim is success.
    fn wish(self: Arc<Self>, id: ClaimId, patience: Duration) -> impl Future<Output = Result<()>> + Send;

    /// The numbers of a session's claims that somebody asks for.
    fn wishes(
        self: Arc<Self>,
        session: SessionId,
        patience: Duration,
    ) -> impl Future<Output = Result<Vec<u64>>> + Send;

    /// Forgets a session.
    fn close(
        self: Arc<Self>,
        session: SessionId,
        patience: Duration,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Shows what is there.
    fn look(
        self: Arc<Self>,
        scope: Scope,
        patience: Duration,
    ) -> impl Future<Output = Result<(Vec<Seen>, Vec<Break>)>> + Send;
}

/// The first of those who wait in a line.
#[derive(Clone, Debug)]
pub struct Head {
    /// The line.
    pub name: Name,
    /// The waiter.
    pub id: ClaimId,
    /// Whether it has expired, or a holder has: the line has to be advanced.
    pub is_stuck: bool,
}

/// How a waiter learns that its turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Footing {
    /// The database tells us.
    Told,
    /// Nobody does, for now: it asks.
    Untold,
}
