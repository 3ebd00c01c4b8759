//! So many at a time.

use crate::{Error, ErrorKind, Lock, Modes, Name, Result, Session, line::WHOLE};

/// A lock with `n` permits: a line of capacity `n`.
///
/// Everybody must agree on `n`: as long as the line is in use, another capacity is a `Conflict`. It is fair: a claim
/// for many permits holds back smaller ones that come after it, so it cannot starve.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bramah_core::Result<()> {
/// # use bramah_core::{Memory, Session};
/// let session = Session::open(Memory::new()).await?;
/// let reports = session.semaphore("reports", 3)?;
/// let heavy = reports.permits(2).await?;
/// let light = reports.permits(1).await?;
/// assert!(reports.permits(1).try_lock().await?.is_none());
/// # drop((heavy, light)); Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore(Lock);

impl Session {
    /// The semaphore of this name with `capacity` permits.
    ///
    /// # Errors
    /// `Invalid` for a broken name or a capacity of none or of `u32::MAX`, `Unsupported` where the store has no permits.
    pub fn semaphore<N: TryInto<Name, Error = E>, E: Into<Error>>(
        &self,
        name: N,
        capacity: u32,
    ) -> Result<Semaphore> {
        let name = name.try_into().map_err(Into::into)?;
        if capacity == 0 || capacity == WHOLE {
            let why = format!("{name}: a semaphore of {capacity} permits; use 1 to {}", WHOLE - 1);
            return Err(Error::new(ErrorKind::Invalid, why));
        }
        if capacity > 1 {
            self.require(Modes::Permits, &name, "a semaphore").map_err(|error| {
                let next =
                    format!("{error}; slots do nearly the same, one of {capacity} mutexes: Session::slots");
                Error::new(error.kind(), next)
            })?;
        }
        Ok(Semaphore(Lock::new(self.0.clone(), name, capacity, 1)))
    }
}

impl Semaphore {
    /// So many permits at once: await it, or call `lock`, `try_lock` or `lock_within`. More than there are, or none,
    /// is `Invalid` then.
    pub fn permits(&self, count: u32) -> Lock {
        let mut lock = self.0.clone();
        lock.want.weight = count;
        lock
    }

    /// How many there are.
    pub fn capacity(&self) -> u32 {
        self.0.want.capacity
    }
}
