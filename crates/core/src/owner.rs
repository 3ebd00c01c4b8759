//! Counted re-entrancy for an explicit owner.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex as StdMutex, PoisonError, Weak},
    time::Duration,
};

use tokio::sync::{Mutex as TokioMutex, OwnedMutexGuard};

use crate::{Error, ErrorKind, Guard, Lock, Name, Result, SessionId, hold::Hold};

/// Somebody who may take a mutex again that it has already.
///
/// Tasks have no identity, so the owner is a value that you pass along: a request, a job. Taking a mutex again costs
/// no round trip; the store never sees it, and the lock is released with the last guard.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bramah_core::Result<()> {
/// # use bramah_core::{Memory, Owner, Session};
/// let session = Session::open(Memory::new()).await?;
/// let mutex = session.mutex("account/7")?;
/// let request = Owner::new();
/// let outer = mutex.owned_by(&request).lock().await?;
/// let inner = mutex.owned_by(&request).lock().await?;    // would be a deadlock without the owner
/// assert_eq!(request.count(&session, mutex.name()), 2);
/// assert_eq!(outer.fence(), inner.fence());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Owner(Arc<StdMutex<HashMap<(SessionId, Name), Entry>>>);

type Entry = Arc<TokioMutex<Weak<Hold>>>;

impl Owner {
    /// A new owner, who owns nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many guards of `name` this owner has.
    pub fn count(&self, session: &crate::Session, name: &Name) -> usize {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = entries.get(&(session.id(), name.clone())) else { return 0 };
        // An entry that is being acquired has no guards yet.
        entry.try_lock().map_or(0, |hold| hold.strong_count())
    }

    fn entry(&self, lock: &Lock) -> Entry {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, entry| {
            Arc::strong_count(entry) > 1 || entry.try_lock().is_ok_and(|hold| hold.strong_count() > 0)
        });
        entries.entry((lock.handle.core.id(), lock.want.name.clone())).or_default().clone()
    }
}

/// A mutex as one [`Owner`] takes it. From [`Mutex::owned_by`](crate::Mutex::owned_by).
#[derive(Clone, Debug)]
pub struct Owned {
    lock: Lock,
    owner: Owner,
}

impl Owned {
    pub(crate) fn new(lock: Lock, owner: Owner) -> Self {
        Self { lock, owner }
    }

    /// As [`Lock::lock`]; at once if this owner has it.
    ///
    /// # Errors
    /// As [`Lock::lock`].
    ///
    /// # Cancel safety
    /// As [`Lock::lock`].
    pub async fn lock(&self) -> Result<Guard> {
        let entry = self.owner.entry(&self.lock).lock_owned().await;
        match held(&entry) {
            Some(again) => Ok(again),
            None => self.lock.lock().await.map(|guard| remember(entry, guard)),
        }
    }

    /// As [`Lock::try_lock`]; `None` also while another task of this owner is waiting for it.
    ///
    /// # Errors
    /// As [`Lock::try_lock`].
    ///
    /// # Cancel safety
    /// As [`Lock::try_lock`].
    pub async fn try_lock(&self) -> Result<Option<Guard>> {
        let Ok(entry) = self.owner.entry(&self.lock).try_lock_owned() else { return Ok(None) };
        match held(&entry) {
            Some(again) => Ok(Some(again)),
            None => Ok(self.lock.try_lock().await?.map(|guard| remember(entry, guard))),
        }
    }

    /// As [`Lock::lock_within`].
    ///
    /// # Errors
    /// As [`Lock::lock_within`].
    ///
    /// # Cancel safety
    /// As [`Lock::lock_within`].
    pub async fn lock_within(&self, wait: Duration) -> Result<Guard> {
        let clock = &self.lock.handle.core.clock;
        let until = clock.now() + wait;
        let entry = tokio::select! {
            biased;
            entry = self.owner.entry(&self.lock).lock_owned() => entry,
            () = clock.sleep_until(until) => {
                let why = format!("{} was not free within {wait:.1?}: its owner is waiting for it", self.lock.name());
                return Err(Error::new(ErrorKind::Timeout, why));
            }
        };
        match held(&entry) {
            Some(again) => Ok(again),
            None => self.lock.lock_within(until.since(clock.now())).await.map(|guard| remember(entry, guard)),
        }
    }
}

/// The hold again, if the owner has it and it is not lost.
fn held(entry: &OwnedMutexGuard<Weak<Hold>>) -> Option<Guard> {
    let guard = Guard::sharing(entry.upgrade()?);
    guard.is_held().then_some(guard)
}

fn remember(mut entry: OwnedMutexGuard<Weak<Hold>>, guard: Guard) -> Guard {
    *entry = Arc::downgrade(guard.hold());
    guard
}
