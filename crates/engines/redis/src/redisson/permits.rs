//! `RPermitExpirableSemaphore`: permits with ids, and leases if wanted.

mod id;

use std::{fmt, time::Duration};

use bramah_core::{ErrorKind, Result};
use redis::Cmd;
use tokio::runtime::Handle;

pub use self::id::PermitId;
use super::{MOST, Object};
use crate::{script::Script, text};

/// How many can be taken or given back at once: each has an id, and a script that holds up the server for all of them.
const AT_ONCE: u32 = 10_000;

/// After which pauses it is tried to give back what may have been taken for nobody.
const UNDO: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

/// A number of permits that are taken under ids, and come back by themselves if they were taken with a lease, an
/// `RPermitExpirableSemaphore` of Redisson.
///
/// Whoever knows an id can give its permit back, in another program and another language as well. A lease is not renewed
/// by itself: see [`update_lease`](Self::update_lease). Time is the server's.
///
/// ```no_run
/// # async fn example() -> bramah_core::Result<()> {
/// use std::time::Duration;
///
/// let redis = bramah_redis::Redis::from_url("redis://localhost")?;
/// let seats = redis.redisson_permits("seats");
/// seats.try_set_permits(3).await?;
/// let ids = seats.acquire(1, Some(Duration::from_secs(30))).await?;
/// for id in ids {
///     println!("{id}");
///     seats.release(id).await?;
/// }
/// # Ok(()) }
/// ```
///
/// # Lost answers
/// Ids are chosen before they are sent. Permits of a call whose answer was lost, or which was dropped, are given back by a
/// task of its own, as long as the runtime runs and the server answers within a quarter of a minute.
#[derive(Clone)]
pub struct Permits {
    object: Object,
}

/// How long a permit is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseLeft {
    /// It is not taken any more, or never was.
    Gone,
    /// Its lease ends after this.
    Ends(Duration),
    /// Until it is given back.
    Endless,
}

impl Permits {
    pub(super) fn new(object: Object) -> Self {
        Self { object }
    }

    /// Its name, which is the key of what is free.
    pub fn name(&self) -> &str {
        self.object.name()
    }

    async fn call(&self, script: &std::sync::Arc<Script>, cmd: Cmd) -> Result<i64> {
        self.object.number(&self.object.call(script, cmd, false).await?)
    }

    /// The call of a script with what all of them want to know first.
    fn script(&self, script: &Script) -> Cmd {
        let mut cmd = self.object.script(script);
        cmd.arg(&*self.object.channel);
        cmd
    }

    /// Sets how many permits there are. False if that was set before.
    ///
    /// # Errors
    /// `Invalid` for no permits, or more than `i32::MAX`, and for a name that a cluster cannot have (see the
    /// [module](super)); `Corrupt` where the name is something else; otherwise what the server or the way to it has to
    /// say.
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool> {
        self.set(self.object.permits(permits, MOST)?, "n").await
    }

    /// Sets how many permits there are, those that are taken included. If more are taken than that, so many have to be
    /// given back before one is free again. None at all is a semaphore that is closed.
    ///
    /// # Errors
    /// `Invalid` for more than `i32::MAX`; otherwise as [`try_set_permits`](Self::try_set_permits).
    pub async fn set_permits(&self, permits: u32) -> Result<()> {
        let permits = if permits == 0 { 0 } else { self.object.permits(permits, MOST)? };
        self.set(permits, "").await.map(drop)
    }

    async fn set(&self, permits: u32, how: &str) -> Result<bool> {
        let script = &self.object.scripts.permits_set;
        let mut cmd = self.script(script);
        cmd.arg(permits).arg(how);
        Ok(self.call(script, cmd).await? == 1)
    }

    /// Adds permits, or takes some away if the number is below 0, and tells how many are free now. That may be less than
    /// none.
    ///
    /// # Errors
    /// `Invalid` for none; otherwise as [`try_set_permits`](Self::try_set_permits).
    pub async fn add_permits(&self, permits: i32) -> Result<i64> {
        if permits == 0 {
            return Err(self.object.out_of_range("0 permits", "more, or less"));
        }
        let script = &self.object.scripts.permits_add;
        let mut cmd = self.script(script);
        cmd.arg(permits);
        self.call(script, cmd).await
    }

    /// How many permits are free.
    ///
    /// # Errors
    /// `Corrupt` where the name is something else; otherwise what the server or the way to it has to say.
    pub async fn available_permits(&self) -> Result<i64> {
        Ok(self.count().await?[0])
    }

    /// How many are taken.
    ///
    /// # Errors
    /// As [`available_permits`](Self::available_permits).
    pub async fn acquired_permits(&self) -> Result<i64> {
        Ok(self.count().await?[1])
    }

    /// How many there are, free and taken.
    ///
    /// # Errors
    /// As [`available_permits`](Self::available_permits).
    pub async fn permits(&self) -> Result<i64> {
        Ok(self.count().await?[2])
    }

    async fn count(&self) -> Result<[i64; 3]> {
        let script = &self.object.scripts.permits_count;
        self.object.numbers(&self.object.call(script, self.script(script), false).await?)
    }

    /// Takes so many permits if they are free, for as long as the lease if there is one, and else until they are given
    /// back. `None` if they are not free.
    ///
    /// # Errors
    /// `Invalid` for no permits, more than 10,000 at once, or a lease of nothing; otherwise as
    /// [`available_permits`](Self::available_permits).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self, permits: u32, lease: Option<Duration>) -> Result<Option<Vec<PermitId>>> {
        self.acquire_until(permits, lease, Some(Duration::ZERO)).await
    }

    /// The same, but waits until enough are free. Who asks for less may come first.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    /// Whatever a dropped call is about to be given is given back by a task of its own, as long as the runtime runs.
    pub async fn acquire(&self, permits: u32, lease: Option<Duration>) -> Result<Vec<PermitId>> {
        Ok(self.acquire_until(permits, lease, None).await?.unwrap_or_default())
    }

    /// The same, but waits no longer than that. `None`: it was not enough.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(
        &self,
        permits: u32,
        lease: Option<Duration>,
        wait: Duration,
    ) -> Result<Option<Vec<PermitId>>> {
        self.acquire_until(permits, lease, Some(wait)).await
    }

    async fn acquire_until(
        &self,
        permits: u32,
        lease: Option<Duration>,
        wait: Option<Duration>,
    ) -> Result<Option<Vec<PermitId>>> {
        let permits = self.object.permits(permits, AT_ONCE)?;
        let lease = self.lease(lease)?;
        let deadline = self.object.until(wait);
        let ids = (0..permits).map(|_| PermitId::random()).collect::<Result<Vec<_>>>()?;
        let mut attempt = Attempt { permits: self, ids, fate: Fate::Refused };
        // Most are free: only who has to wait asks to be told.
        if attempt.take(&lease, false).await?.0 {
            return Ok(Some(attempt.keep()));
        }
        if wait == Some(Duration::ZERO) {
            return Ok(None);
        }
        let mut seat = self.object.sit(permits);
        loop {
            let (taken, free, sleep) = attempt.take(&lease, true).await?;
            seat.pass_on(free);
            if taken {
                return Ok(Some(attempt.keep()));
            }
            if !self.object.wait(&mut seat, sleep, deadline).await {
                return Ok(None);
            }
        }
    }

    /// A lease for a script.
    fn lease(&self, lease: Option<Duration>) -> Result<String> {
        match lease {
            Some(Duration::ZERO) => Err(self.object.out_of_range("a lease of nothing", "a longer one")),
            Some(lease) => Ok(text::millis(lease).to_string()),
            None => Ok(String::new()),
        }
    }

    /// Gives a permit back. False if it was not taken, or its lease is over.
    ///
    /// # Errors
    /// As [`available_permits`](Self::available_permits).
    pub async fn release(&self, id: PermitId) -> Result<bool> {
        self.give_back(&[id], "one").await
    }

    /// Gives permits back if all of them are taken and no lease is over. Otherwise false, and none is.
    ///
    /// # Errors
    /// `Invalid` for none, or more than 10,000; otherwise as [`available_permits`](Self::available_permits).
    pub async fn release_all(&self, ids: &[PermitId]) -> Result<bool> {
        self.object.permits(u32::try_from(ids.len()).unwrap_or(u32::MAX), AT_ONCE)?;
        self.give_back(ids, "all").await
    }

    async fn give_back(&self, ids: &[PermitId], how: &str) -> Result<bool> {
        let script = &self.object.scripts.permits_release;
        let mut cmd = self.script(script);
        cmd.arg(how);
        for id in ids {
            cmd.arg(&id.bytes()[..]);
        }
        Ok(self.call(script, cmd).await? == 1)
    }

    /// Has the lease of a permit end so long from now, or never. False if it is not taken, or its lease is over.
    ///
    /// # Errors
    /// `Invalid` for a lease of nothing; otherwise as [`available_permits`](Self::available_permits).
    pub async fn update_lease(&self, id: PermitId, lease: Option<Duration>) -> Result<bool> {
        let lease = self.lease(lease)?;
        let script = &self.object.scripts.permits_lease;
        let mut cmd = self.script(script);
        cmd.arg(&id.bytes()[..]).arg(lease);
        Ok(self.call(script, cmd).await? != 0)
    }

    /// How long a permit is taken for.
    ///
    /// # Errors
    /// As [`available_permits`](Self::available_permits).
    pub async fn lease_left(&self, id: PermitId) -> Result<LeaseLeft> {
        let script = &self.object.scripts.permits_lease;
        let mut cmd = self.script(script);
        cmd.arg(&id.bytes()[..]);
        Ok(match u64::try_from(self.call(script, cmd).await?) {
            Ok(0) => LeaseLeft::Gone,
            Ok(left) => LeaseLeft::Ends(Duration::from_millis(left)),
            Err(_) => LeaseLeft::Endless,
        })
    }

    /// Removes it with all permits, taken or not. Who waits goes on waiting. False if there was none.
    ///
    /// # Errors
    /// What the server or the way to it has to say.
    pub async fn delete(&self) -> Result<bool> {
        self.object.remove().await
    }
}

impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permits({:?})", self.name())
    }
}

/// Permits that may have been taken for somebody who may be gone.
struct Attempt<'a> {
    permits: &'a Permits,
    ids: Vec<PermitId>,
    fate: Fate,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The last answer was that there are not enough.
    Refused,
    /// It was asked, and not answered yet; or it was given.
    Open,
    /// The answer was lost: perhaps it is carried out yet.
    Lost,
}

impl Attempt<'_> {
    /// Whether they were taken, how many are free, and when the first lease ends.
    async fn take(&mut self, lease: &str, track: bool) -> Result<(bool, i64, Option<Duration>)> {
        let object = &self.permits.object;
        let script = &object.scripts.permits_acquire;
        let mut cmd = self.permits.script(script);
        cmd.arg(lease);
        for id in &self.ids {
            cmd.arg(&id.bytes()[..]);
        }
        self.fate = Fate::Open;
        let answer = object.call(script, cmd, track).await;
        let answer = answer.inspect_err(|error| {
            self.fate = if error.kind() == ErrorKind::Unavailable { Fate::Lost } else { Fate::Refused };
        })?;
        let [taken, free, sleep] = object.numbers(&answer)?;
        if taken == 0 {
            self.fate = Fate::Refused;
        }
        Ok((taken == 1, free, u64::try_from(sleep).ok().map(Duration::from_millis)))
    }

    /// They are had.
    fn keep(mut self) -> Vec<PermitId> {
        self.fate = Fate::Refused;
        std::mem::take(&mut self.ids)
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.fate == Fate::Refused {
            return;
        }
        // What goes over the same connection is carried out after what was asked there. What was lost with its connection
        // may be carried out at any time after.
        let once = self.fate == Fate::Open;
        let (permits, ids) = (self.permits.clone(), std::mem::take(&mut self.ids));
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(undo(permits, ids, once));
        }
    }
}

async fn undo(permits: Permits, ids: Vec<PermitId>, once: bool) {
    let clock = &permits.object.protocol.clock;
    for pause in UNDO {
        clock.nap(pause).await;
        match permits.give_back(&ids, "any").await {
            Ok(all) if all || once => return,
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "permits that nobody wants could not be given back yet"),
        }
    }
}
