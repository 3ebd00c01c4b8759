//! A lock without a process: taken by one, renewed and released by whoever knows its id.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::{
    Claim, ClaimId, Engine, Error, ErrorKind, Exit, Guard, Keep, Liveness, Look, Name, Renewal, Result,
    Scope, core::Core, session::check_ttl,
};

/// A lock that was left held: a freeze over a weekend, a maintenance window, a job that spans several processes.
///
/// It lives for the ttl that its session was opened with, counted from [`leave`](Guard::leave) or the last
/// [`renew`](Detached::renew); nobody renews it by itself. Its [id](Detached::id) is all that is needed to renew or
/// release it, so keep it like a key: listings show a [`Tag`](crate::Tag) instead.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bramah_core::Result<()> {
/// # use bramah_core::{Detached, Keep, Memory, Session};
/// let store = Memory::new();
/// let session = Session::builder(store.clone()).keep(Keep::Nobody).open().await?;
/// let left = session.mutex("deploy/prod")?.lock().await?.leave().await?;
/// drop(session);
/// let again = Detached::new(store, left.name().clone(), left.id());
/// again.renew().await?;
/// assert!(again.release().await?);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Detached {
    engine: Arc<dyn Engine>,
    name: Name,
    id: ClaimId,
    /// The session that left it, if that is one of this process.
    session: Weak<Core>,
    /// Whether the last renewal found that somebody asks for it.
    asked: Arc<AtomicBool>,
}

impl Detached {
    /// The lock that was left as `id`. Nothing is asked of the store yet.
    pub fn new(engine: impl Into<Arc<dyn Engine>>, name: Name, id: ClaimId) -> Self {
        Self { engine: engine.into(), name, id, session: Weak::new(), asked: Arc::default() }
    }

    /// What gives power over it.
    pub fn id(&self) -> ClaimId {
        self.id
    }

    /// The lock.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Has it live for its ttl from now on, and says how long that is.
    ///
    /// # Errors
    /// `Lost` when it is not held any more: it ran out, was released or broken. And what the engine says.
    pub async fn renew(&self) -> Result<Duration> {
        self.renew_for(None).await
    }

    async fn renew_for(&self, ttl: Option<Duration>) -> Result<Duration> {
        let mut claim = self.find().await?.ok_or_else(|| self.lost())?;
        let ttl = ttl.unwrap_or(claim.ttl);
        if ttl != claim.ttl {
            claim = Arc::new(Claim { ttl, ..(*claim).clone() });
        }
        let renewal = self.engine.renew(self.id.session, [claim].into()).await?;
        self.judge(&renewal)?;
        self.asked.store(renewal.asked.contains(&self.id), Ordering::Release);
        Ok(ttl)
    }

    /// Whether somebody has [asked](crate::Session::ask) for it, as of the last [`renew`](Detached::renew): no process is told while
    /// nobody renews it.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// What a renewal says of it.
    fn judge(&self, renewal: &Renewal) -> Result<()> {
        if renewal.gone.contains(&self.id) || renewal.waiting.contains(&self.id) {
            return Err(self.lost());
        }
        if renewal.unknown.contains(&self.id) {
            let why = format!("{}: the store did not say whether it was renewed; try again", self.name);
            return Err(Error::new(ErrorKind::Unavailable, why));
        }
        Ok(())
    }

    /// Releases it. Whether it was still held.
    ///
    /// # Errors
    /// What the engine says.
    pub async fn release(&self) -> Result<bool> {
        let Some(claim) = self.find().await? else { return Ok(false) };
        self.engine.withdraw(claim, Exit::Own).await?;
        // A session that is open here goes on. Where a session carries its claims, one may enter between any look and the close:
        // there what is left of it ends with its ttl.
        if self.engine.profile().liveness == Liveness::Lease && self.session.strong_count() == 0 {
            let _ = self.engine.close(self.id.session).await;
        }
        Ok(true)
    }

    /// The claim, if it is held.
    async fn find(&self) -> Result<Option<Arc<Claim>>> {
        let survey = self.engine.survey(&Scope::Exact(self.name.clone()), Look::Once).await?;
        let mut places = survey.lines.into_iter().flat_map(|line| line.places);
        Ok(places.find(|place| place.is_held() && place.claim.id == self.id).map(|place| place.claim))
    }

    fn lost(&self) -> Error {
        let why = format!("{} is not held by this handle: it ran out, or was released or broken", self.name);
        Error::new(ErrorKind::Lost, why)
    }
}

impl Guard {
    /// Leaves the lock held when this process ends, for the session's ttl from now. Only in a session that nobody keeps
    /// ([`Keep::Nobody`]).
    ///
    /// # Errors
    /// `Unsupported` in a session that its process keeps, `Lost` when it is not held any more, and what the engine
    /// says: then it is released.
    ///
    /// # Cancel safety
    /// Dropping the future releases the lock.
    pub async fn leave(self) -> Result<Detached> {
        let ttl = self.hold().core().opening.ttl;
        self.leave_for(ttl).await
    }

    /// The same for another ttl than the session was opened with. Who waits for long before it leaves for long opens the
    /// session with a short one: what is left of a waiter that was killed ends with that. Where a session carries its claims
    /// ([`Liveness::Session`], [`Liveness::Connection`]), the lock lives for the longest ttl that its session was given.
    ///
    /// It first waits for the renewals that the session's keeper has in flight: one that arrived later would cut the lock short.
    ///
    /// # Errors
    /// As [`leave`](Guard::leave), `Invalid` for a ttl out of range, and `Unavailable` if a renewal was not answered and may still
    /// arrive.
    ///
    /// # Cancel safety
    /// Dropping the future releases the lock.
    pub async fn leave_for(self, ttl: Duration) -> Result<Detached> {
        check_ttl(ttl)?;
        let name = self.name();
        let Some(hold) = self.into_only() else {
            let why = format!("{name}: another guard of the same owner holds it too; leave the last one");
            return Err(Error::new(ErrorKind::Unsupported, why));
        };
        let (core, seat) = (hold.core(), hold.seat());
        if core.opening.keep != Keep::Nobody {
            let why = format!("{name}: its session ends with its process; open one that nobody keeps");
            return Err(Error::new(ErrorKind::Unsupported, why));
        }
        // From here on nobody else renews it. A renewal with the session's ttl that arrived after ours would cut the lock short.
        seat.calls.stop();
        tokio::select! {
            biased;
            () = seat.calls.settled() => {}
            () = seat.ended() => return Err(hold.lost_error()),
        }
        if seat.calls.may_arrive(&core.clock) || seat.is_in_doubt(&core.clock) {
            let why = format!("{name}: a renewal was not answered and may still cut it short; take it again");
            return Err(Error::new(ErrorKind::Unavailable, why));
        }
        let session = Arc::downgrade(core);
        let left =
            Detached { engine: core.engine.clone(), name, id: seat.id, session, asked: Arc::default() };
        core.keep_for(ttl).await?;
        let claim = Arc::new(Claim { ttl, ..(*seat.question()).clone() });
        left.judge(&core.whole(core.engine.renew(core.id(), [claim].into())).await?)?;
        if !core.is_held(seat) {
            return Err(hold.lost_error());
        }
        core.leave_behind(seat);
        Ok(left)
    }
}
