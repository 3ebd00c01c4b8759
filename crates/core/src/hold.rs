//! What a caller has when it has the lock.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use tracing::debug;

use crate::{
    Error, ErrorKind, Exit, Fence, Moment, Name, Reply, Result, Standing, Tag,
    core::{Core, Ending, Flight, Handle, Refusal},
    seat::Seat,
};

/// A lock that is held, until it is released or dropped, or lost.
///
/// Dropping it releases it too: at once where the store can, else by the keeper, also in a panic, after the
/// runtime's end, or outside of one. [`release`](Guard::release) does the same and tells how it went.
///
/// # Loss
/// A lease can run out: a pause longer than the ttl, a store out of reach, somebody's `break`. The guard knows
/// *before* the store may hand the lock on ([`lost`](Guard::lost), [`is_held`](Guard::is_held)); but between a check
/// and the write after it there is always a moment, so give the [`fence`](Guard::fence) to the resource as well.
#[must_use = "the lock is released when its guard is dropped"]
pub struct Guard {
    hold: Arc<Hold>,
}

/// How a release went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// It was ours up to the release as far as we knew ([`confirm`](Guard::confirm) asks), and is free.
    Released,
    /// It had been lost before.
    AlreadyLost,
    /// The store did not confirm. The keeper goes on trying; at the latest it is free after the ttl.
    Unknown,
    /// Another guard of the same owner still holds it.
    StillOwned,
}

impl Guard {
    pub(crate) fn new(hold: Hold) -> Self {
        Self { hold: Arc::new(hold) }
    }

    pub(crate) fn sharing(hold: Arc<Hold>) -> Self {
        Self { hold }
    }

    /// The hold itself, unless another guard of the same owner shares it.
    pub(crate) fn into_only(self) -> Option<Hold> {
        Arc::into_inner(self.hold)
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// The fencing token, if this hold is exclusive and the store mints one. Larger than that of every exclusive
    /// grant of this name before it.
    pub fn fence(&self) -> Option<Fence> {
        self.hold.fence
    }

    /// The lock's name.
    pub fn name(&self) -> Name {
        self.hold.seat.claim().name.clone()
    }

    /// What this hold is called in listings, and for `break`.
    pub fn tag(&self) -> Tag {
        self.hold.seat.id.tag()
    }

    /// Whether it is held now. Once this has been false it stays false.
    pub fn is_held(&self) -> bool {
        self.hold.core().is_held(&self.hold.seat)
    }

    /// How long it is certain to be held if no renewal gets through any more; zero when it is lost,
    /// [`Duration::MAX`] where claims do not expire by time.
    pub fn remaining(&self) -> Duration {
        if self.is_held() {
            self.hold.seat.deadline().since(self.hold.core().clock.now())
        } else {
            Duration::ZERO
        }
    }

    /// Asks the store whether it is held: a break is found out now, and not with the next renewal. Whether it is. From
    /// here on it is good for a whole ttl again, without a fixed lease: one that was [waited for](crate::Claim::kept) is
    /// good for a few seconds at first, until it is renewed.
    ///
    /// # Errors
    /// What the engine says; then nothing is known, and [`is_held`](Guard::is_held) counts.
    ///
    /// # Cancel safety
    /// What was sent is finished when this is dropped.
    pub async fn confirm(&self) -> Result<bool> {
        if !self.is_held() {
            return Ok(false);
        }
        let (core, seat) = (self.hold.core(), &self.hold.seat);
        let sent = core.clock.now();
        match core.ask_about(seat, seat.question()).await? {
            None => {}
            Some(Standing::Held { .. }) => {
                seat.prove();
                if seat.confirm(core.good_until(sent, None), core.clock.now()) {
                    core.end_hold(seat, Ending::RanOut);
                }
            }
            Some(Standing::Queued { .. } | Standing::Refused) => {
                core.lose_unheld(seat);
            }
            Some(Standing::Gone) => {
                seat.lose_gone();
            }
        }
        Ok(self.is_held())
    }

    /// Ends when the hold is lost.
    ///
    /// # Cancel safety
    /// It can be dropped and awaited again.
    pub async fn lost(&self) {
        self.hold.seat.ended().await;
    }

    /// Whether somebody has [asked](crate::Session::ask) for it. It is held nevertheless.
    pub fn is_asked(&self) -> bool {
        self.hold.seat.is_asked()
    }

    /// Ends when somebody has [asked](crate::Session::ask) this holder to let go. That is a wish and no more: it is held until it is
    /// released. On stores that pass no wishes on ([`Asking::Never`](crate::Asking::Never)) this never ends.
    ///
    /// # Cancel safety
    /// It can be dropped and awaited again.
    pub async fn asked(&self) {
        self.hold.seat.asked().await;
    }

    /// Runs `work` while the lock is held, and drops it when the lock is lost.
    ///
    /// # Errors
    /// `Lost`, and then `work` did not finish.
    pub async fn keep<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.lost() => Err(self.hold.lost_error()),
            done = work => Ok(done),
        }
    }

    /// Releases the lock and says how it went.
    ///
    /// # Cancel safety
    /// The release goes on when this is dropped.
    pub async fn release(self) -> Release {
        match Arc::try_unwrap(self.hold) {
            Ok(hold) => hold.release().await,
            Err(_) => Release::StillOwned,
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.name())
            .field("tag", &self.tag())
            .field("fence", &self.fence())
            .finish_non_exhaustive()
    }
}

/// A claim that was granted. Withdrawn when it is dropped.
pub(crate) struct Hold {
    handle: Arc<Handle>,
    seat: Arc<Seat>,
    fence: Option<Fence>,
    granted: Moment,
}

impl Hold {
    pub(crate) fn new(handle: Arc<Handle>, seat: Arc<Seat>, fence: Option<Fence>, granted: Moment) -> Self {
        Self { handle, seat, fence, granted }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.handle.core
    }

    pub(crate) fn seat(&self) -> &Arc<Seat> {
        &self.seat
    }

    pub(crate) fn lost_error(&self) -> Error {
        let name = &self.seat.claim().name;
        let held = self.core().clock.now().since(self.granted);
        Error::new(
            ErrorKind::Lost,
            format!("{name} was lost after {held:.1?}; somebody else may hold it now"),
        )
    }

    async fn release(self) -> Release {
        let core = self.core();
        let held = core.is_held(&self.seat);
        if !self.seat.leave() {
            return Release::AlreadyLost;
        }
        let reply = core.engine.withdraw(self.seat.claim(), Exit::Own);
        let mut leaving = Leaving { core, seat: &self.seat, reply: Some(reply) };
        let answer = match &mut leaving.reply {
            Some(reply) => reply.await,
            None => Ok(()),
        };
        leaving.reply = None;
        // A message that entered it and was never answered may come after this: it is withdrawn until it cannot.
        let doubt = core.may_come_late(&self.seat);
        if answer.is_ok() && !doubt {
            core.forget(&self.seat);
        } else {
            core.hand_over(self.seat.clone(), Flight::Landed, doubt);
        }
        match answer {
            _ if !held => Release::AlreadyLost,
            Ok(()) => Release::Released,
            Err(_) => Release::Unknown,
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        debug!(claim = ?self.seat.id, held = ?self.core().clock.now().since(self.granted), "let go");
        // After a release it has left already, and this does nothing.
        self.handle.core.depart(self.seat.clone(), Flight::Landed, false);
    }
}

/// A release under way: what it has sent is finished by the keeper if the caller goes away.
struct Leaving<'a> {
    core: &'a Arc<Core>,
    seat: &'a Arc<Seat>,
    reply: Option<Reply<()>>,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            self.core.hand_over(self.seat.clone(), Flight::Withdraw(reply, Refusal::None), false);
        }
    }
}
