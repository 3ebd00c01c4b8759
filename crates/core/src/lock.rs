//! What every face is made of: something that can be locked.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use crate::{
    Guard, Name, Result,
    acquire::{Patience, acquire, acquire_now},
    core::{Handle, Want},
};

/// One way of taking one lock: a mutex, a reader, a writer, so many permits. Cheap to clone and to change.
///
/// `lock.await` is short for `lock.lock().await`.
#[derive(Clone)]
pub struct Lock {
    pub(crate) handle: Arc<Handle>,
    pub(crate) want: Want,
}

impl Lock {
    pub(crate) fn new(handle: Arc<Handle>, name: Name, capacity: u32, weight: u32) -> Self {
        let want = Want { name, capacity, weight, lease: None, max_hold: None, note: Arc::from("") };
        Self { handle, want }
    }

    /// The lock's name.
    pub fn name(&self) -> &Name {
        &self.want.name
    }

    /// Waits for the lock, as long as it takes. A store that is down, restarting or failing over is waited for as well;
    /// [`Session::hindrance`](crate::Session::hindrance) tells that, and why. [`lock_within`](Lock::lock_within) sets a limit.
    ///
    /// # Errors
    /// `Conflict` when the name is in use with another capacity, `Denied` when the store does not allow it, `Lost` when the
    /// session is closed, and what else the engine says that waiting does not mend.
    ///
    /// # Cancel safety
    /// Dropping the future gives the place in line up and leaves nothing behind.
    pub async fn lock(&self) -> Result<Guard> {
        self.acquire(Patience::Forever).await
    }

    /// Takes the lock if it is free; `None` if it is busy.
    ///
    /// # Errors
    /// `Unavailable` when the store does not answer; else as [`lock`](Lock::lock).
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn try_lock(&self) -> Result<Option<Guard>> {
        Ok(acquire(&self.handle, &self.want, Patience::Try).await?.map(Guard::new))
    }

    /// Waits for the lock for `wait` at the most, and for a store that is down, as [`lock`](Lock::lock). A `wait` of zero is a
    /// try: it takes as long as one question to the store.
    ///
    /// # Errors
    /// `Timeout` if not acquired within `wait`, `Unavailable` if that is because the store does not answer; else as
    /// [`lock`](Lock::lock).
    ///
    /// # Cancel safety
    /// Dropping the future gives the place in line up and leaves nothing behind.
    pub async fn lock_within(&self, wait: Duration) -> Result<Guard> {
        if wait.is_zero() {
            return acquire_now(&self.handle, &self.want).await.map(Guard::new);
        }
        self.acquire(Patience::Until(self.handle.core.clock.now() + wait)).await
    }

    /// With a fixed lease: the hold ends `lease` after it was granted and is never renewed. Where the profile says
    /// [`Leasing::Kept`](crate::Leasing::Kept) a frozen process keeps it until its session ends.
    #[must_use]
    pub fn lease(&self, lease: Duration) -> Self {
        Self { want: Want { lease: Some(lease), ..self.want.clone() }, ..self.clone() }
    }

    /// With a limit on the hold: after `max_hold` the keeper stops renewing it, declares it lost, and the lock moves
    /// on. For holders that may hang.
    #[must_use]
    pub fn max_hold(&self, max_hold: Duration) -> Self {
        Self { want: Want { max_hold: Some(max_hold), ..self.want.clone() }, ..self.clone() }
    }

    /// With a reason, for those who wait. At most 1024 bytes.
    #[must_use]
    pub fn reason(&self, reason: impl AsRef<str>) -> Self {
        Self { want: Want { note: reason.as_ref().into(), ..self.want.clone() }, ..self.clone() }
    }

    async fn acquire(&self, patience: Patience) -> Result<Guard> {
        let hold = acquire(&self.handle, &self.want, patience).await?;
        // Only a try is refused; an engine that refuses a waiter breaks its contract, and that is an error to show.
        hold.map(Guard::new).ok_or_else(|| {
            crate::Error::new(
                crate::ErrorKind::Unsupported,
                format!("{}: the engine refused a claim that was willing to wait", self.want.name),
            )
        })
    }
}

impl IntoFuture for Lock {
    type Output = Result<Guard>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.lock().await })
    }
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.want.fmt(f)
    }
}
