//! One holder at a time.

use std::{ops::Deref, time::Duration};

use crate::{Lock, Name, Owner, Result, Session, owner::Owned};

/// A lock with one holder at a time: a line of capacity 1.
///
/// Not what you need when all its users live in one process: `tokio::sync::Mutex` is a thousand times cheaper. Nor
/// when the data is rows of one database: lock the rows there.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bramah_core::Result<()> {
/// # use bramah_core::{Memory, Session};
/// # use std::time::Duration;
/// let session = Session::open(Memory::new()).await?;
/// let mutex = session.mutex("orders/42")?;
///
/// let guard = mutex.lock().await?;                       // waits
/// assert!(mutex.try_lock().await?.is_none());            // does not
/// assert!(mutex.lock_within(Duration::from_millis(10)).await.is_err());
///
/// let first = guard.fence();                             // give this to the resource
/// let work = guard.keep(async { "done" }).await?;        // dropped if the lock is lost
/// guard.release().await;
/// assert!(mutex.lock().await?.fence() > first);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Mutex(Lock);

impl Session {
    /// The mutex of this name.
    ///
    /// # Errors
    /// `Invalid` for a broken name.
    pub fn mutex<N: TryInto<Name, Error = E>, E: Into<crate::Error>>(&self, name: N) -> Result<Mutex> {
        Ok(Mutex(Lock::new(self.0.clone(), name.try_into().map_err(Into::into)?, 1, 1)))
    }
}

impl Mutex {
    /// As [`Lock::lease`].
    #[must_use]
    pub fn lease(&self, lease: Duration) -> Self {
        Self(self.0.lease(lease))
    }

    /// As [`Lock::max_hold`].
    #[must_use]
    pub fn max_hold(&self, max_hold: Duration) -> Self {
        Self(self.0.max_hold(max_hold))
    }

    /// As [`Lock::reason`].
    #[must_use]
    pub fn reason(&self, reason: impl AsRef<str>) -> Self {
        Self(self.0.reason(reason))
    }

    /// The same mutex, re-entrant for `owner`.
    #[must_use]
    pub fn owned_by(&self, owner: &Owner) -> Owned {
        Owned::new(self.0.clone(), owner.clone())
    }
}

impl Deref for Mutex {
    type Target = Lock;
    fn deref(&self) -> &Lock {
        &self.0
    }
}

impl From<Mutex> for Lock {
    fn from(mutex: Mutex) -> Lock {
        mutex.0
    }
}
