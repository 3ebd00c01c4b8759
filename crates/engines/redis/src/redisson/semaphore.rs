//! `RSemaphore`: a counter.

use std::{fmt, time::Duration};

use bramah_core::{Error, ErrorKind, Result};
use tokio::{runtime::Handle, sync::oneshot};

use super::{MOST, Object};
use crate::text;

/// A number of permits that everybody can take from and give back to, an `RSemaphore` of Redisson.
///
/// It knows nobody: permits of a program that crashes are never given back, and anybody can give back permits that it has
/// not taken. [`Permits`](super::Permits) can have leases; the semaphores of a [`Session`](bramah_core::Session) are kept
/// alive and watched over, but only Bramah knows them.
///
/// ```no_run
/// # async fn example() -> bramah_core::Result<()> {
/// let redis = bramah_redis::Redis::from_url("redis://localhost")?;
/// let printers = redis.redisson_semaphore("printers");
/// printers.try_set_permits(3, None).await?;
/// printers.acquire(1).await?;
/// printers.release(1).await?;
/// # Ok(()) }
/// ```
///
/// # Lost answers
/// A permit has no id on the wire, so a call whose answer was lost (`Unavailable`) cannot be asked about or taken back:
/// it may have cost a permit, or given one, exactly as in Redisson.
#[derive(Clone)]
pub struct Semaphore {
    object: Object,
}

impl Semaphore {
    pub(super) fn new(object: Object) -> Self {
        Self { object }
    }

    /// Its name, which is its key.
    pub fn name(&self) -> &str {
        self.object.name()
    }

    /// Sets how many permits there are, for as long as `ttl` if one is given. False if that was set before.
    ///
    /// # Errors
    /// `Invalid` for no permits, more than `i32::MAX`, or a ttl of nothing; `Corrupt` where the name is something else;
    /// otherwise what the server or the way to it has to say.
    pub async fn try_set_permits(&self, permits: u32, ttl: Option<Duration>) -> Result<bool> {
        let permits = self.object.permits(permits, MOST)?;
        if ttl == Some(Duration::ZERO) {
            return Err(self.object.out_of_range("a ttl of nothing", "a longer one"));
        }
        let script = &self.object.scripts.semaphore_set;
        let mut cmd = self.object.script(script);
        cmd.arg(&*self.object.channel).arg(permits);
        cmd.arg(ttl.map_or(String::new(), |ttl| text::millis(ttl).to_string()));
        Ok(self.object.number(&self.object.call(script, cmd, false).await?)? == 1)
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
        let script = &self.object.scripts.semaphore_add;
        let mut cmd = self.object.script(script);
        cmd.arg(&*self.object.channel).arg(permits);
        self.object.number(&self.object.call(script, cmd, false).await?)
    }

    /// How many permits are free.
    ///
    /// # Errors
    /// `Corrupt` where the name is something else; otherwise what the server or the way to it has to say.
    pub async fn available_permits(&self) -> Result<i64> {
        self.object.counter(false).await
    }

    /// Takes all permits that are free, and tells how many that were.
    ///
    /// # Errors
    /// As [`available_permits`](Self::available_permits).
    pub async fn drain_permits(&self) -> Result<i64> {
        let script = &self.object.scripts.semaphore_drain;
        let cmd = self.object.script(script);
        self.object.number(&self.object.call(script, cmd, false).await?)
    }

    /// Takes permits if enough are free. A semaphore without permits ever set has none.
    ///
    /// # Errors
    /// `Invalid` for no permits, or more than `i32::MAX`; otherwise as [`available_permits`](Self::available_permits).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self, permits: u32) -> Result<bool> {
        let permits = self.object.permits(permits, MOST)?;
        Ok(self.take(permits, false).await?.0)
    }

    /// Takes permits, and waits until enough are free. Who asks for less may come first.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    /// Whatever a dropped call is about to be given is given back by a task of its own, as long as the runtime runs.
    pub async fn acquire(&self, permits: u32) -> Result<()> {
        self.acquire_until(permits, None).await.map(drop)
    }

    /// The same, but waits no longer than that. False: it was not enough.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, permits: u32, wait: Duration) -> Result<bool> {
        self.acquire_until(permits, Some(wait)).await
    }

    async fn acquire_until(&self, permits: u32, wait: Option<Duration>) -> Result<bool> {
        let permits = self.object.permits(permits, MOST)?;
        let deadline = self.object.until(wait);
        // Most are free: only who has to wait asks to be told.
        if self.take(permits, false).await?.0 {
            return Ok(true);
        }
        let mut seat = self.object.sit(permits);
        loop {
            let (taken, there) = self.take(permits, true).await?;
            seat.pass_on(there);
            if taken {
                return Ok(true);
            }
            if !self.object.wait(&mut seat, None, deadline).await {
                return Ok(false);
            }
        }
    }

    /// Whether it took them, and how many are free now.
    ///
    /// It is asked by a task of its own, which learns of the answer even if nobody waits for it any more.
    async fn take(&self, permits: u32, track: bool) -> Result<(bool, i64)> {
        let (tell, told) = oneshot::channel();
        let semaphore = self.clone();
        tokio::spawn(async move {
            let script = &semaphore.object.scripts.semaphore_acquire;
            let mut cmd = semaphore.object.script(script);
            cmd.arg(permits);
            let answer = semaphore.object.call(script, cmd, track).await;
            let answer = answer.and_then(|answer| semaphore.object.numbers(&answer));
            let answer = answer.map(|[taken, there]| {
                (Loan { semaphore, permits: if taken == 1 { permits } else { 0 } }, there)
            });
            let _ = tell.send(answer);
        });
        let (loan, there) = told.await.map_err(|_| {
            Error::new(ErrorKind::Unavailable, "the runtime ended before redis had answered; try again")
        })??;
        Ok((loan.keep() > 0, there))
    }

    /// Gives permits back, or adds some: nobody knows the difference.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn release(&self, permits: u32) -> Result<()> {
        self.give_back(permits, "").await.map(drop)
    }

    /// The same, unless the semaphore is gone: then false, and it is not made again.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn release_if_exists(&self, permits: u32) -> Result<bool> {
        self.give_back(permits, "x").await
    }

    async fn give_back(&self, permits: u32, how: &str) -> Result<bool> {
        let permits = self.object.permits(permits, MOST)?;
        let script = &self.object.scripts.semaphore_release;
        let mut cmd = self.object.script(script);
        cmd.arg(&*self.object.channel).arg(permits).arg(how);
        Ok(self.object.number(&self.object.call(script, cmd, false).await?)? == 1)
    }

    /// Removes it. Who waits goes on waiting. False if there was none.
    ///
    /// # Errors
    /// What the server or the way to it has to say.
    pub async fn delete(&self) -> Result<bool> {
        self.object.remove().await
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Semaphore({:?})", self.name())
    }
}

/// Permits that were taken for somebody who may be gone.
struct Loan {
    semaphore: Semaphore,
    permits: u32,
}

impl Loan {
    /// They are had. How many.
    fn keep(mut self) -> u32 {
        std::mem::take(&mut self.permits)
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if self.permits == 0 {
            return;
        }
        let (semaphore, permits) = (self.semaphore.clone(), self.permits);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = semaphore.release(permits).await {
                    tracing::warn!(%error, permits, "permits that nobody wants could not be given back");
                }
            });
        }
    }
}
