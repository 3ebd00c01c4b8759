//! Many readers or one writer.

use crate::{Lock, Modes, Name, Result, Session, line::WHOLE};

/// A lock that many may read under, or one may write under: a line of capacity [`WHOLE`].
///
/// It is fair: a writer that waits holds back readers that come after it. A hold cannot be changed from one to the
/// other; release and take the other.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bramah_core::Result<()> {
/// # use bramah_core::{Memory, Session};
/// let session = Session::open(Memory::new()).await?;
/// let config = session.rwlock("config")?;
/// let (one, two) = (config.read().await?, config.read().await?);
/// assert!(config.write().try_lock().await?.is_none());
/// drop((one, two));
/// assert!(config.write().await?.fence().is_some());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct RwLock {
    read: Lock,
    write: Lock,
}

impl Session {
    /// The read-write lock of this name.
    ///
    /// # Errors
    /// `Invalid` for a broken name, `Unsupported` where the store has exclusive locks only.
    pub fn rwlock<N: TryInto<Name, Error = E>, E: Into<crate::Error>>(&self, name: N) -> Result<RwLock> {
        let name = name.try_into().map_err(Into::into)?;
        self.require(Modes::Shared, &name, "a read-write lock")?;
        let lock = |weight| Lock::new(self.0.clone(), name.clone(), WHOLE, weight);
        Ok(RwLock { read: lock(1), write: lock(WHOLE) })
    }
}

impl RwLock {
    /// To read, beside other readers: await it, or call `lock`, `try_lock` or `lock_within`. Has no fence.
    pub fn read(&self) -> Lock {
        self.read.clone()
    }

    /// To write, alone.
    pub fn write(&self) -> Lock {
        self.write.clone()
    }
}
