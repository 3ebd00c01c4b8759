//! Several locks as one.

use std::{future::Future, time::Duration};

use crate::{
    Error, ErrorKind, Guard, Lock, Release, Result,
    acquire::{Patience, acquire},
    trouble::busy,
};

/// All of these locks, or none: sorted, so that two callers cannot wait for each other; one deadline; released in
/// reverse. They may live on different engines; one name in two stores is sorted by what the stores are
/// [called](crate::SessionBuilder::store), and refused where one of them has no name.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bramah_core::Result<()> {
/// # use bramah_core::{Memory, Session, all};
/// let session = Session::open(Memory::new()).await?;
/// let (from, to) = (session.mutex("account/7")?, session.mutex("account/9")?);
/// let guards = all([from, to]).lock().await?;
/// assert!(guards.is_held());
/// guards.release().await;
/// # Ok(()) }
/// ```
pub fn all<L: Into<Lock>>(locks: impl IntoIterator<Item = L>) -> All {
    let mut locks: Vec<Lock> = locks.into_iter().map(Into::into).collect();
    locks.sort_by(|a, b| key(a).cmp(&key(b)));
    All { locks }
}

/// Several locks to be taken together. From [`all`].
#[derive(Clone, Debug)]
pub struct All {
    locks: Vec<Lock>,
}

/// What a lock is sorted by: the same in every process.
fn key(lock: &Lock) -> (&str, Option<&str>) {
    (lock.want.name.as_str(), lock.handle.core.store.as_deref())
}

/// Refuses one name twice: in one store it would wait for itself, and in two of which one has no name, every process could
/// take them in another order.
fn check(locks: &[Lock]) -> Result<()> {
    for group in locks.chunk_by(|a, b| a.want.name == b.want.name) {
        let name = &group[0].want.name;
        if group.iter().enumerate().any(|(at, lock)| group[..at].iter().any(|other| is_same(lock, other))) {
            let why = format!("{name} is asked for twice at once; it would wait for itself");
            return Err(Error::new(ErrorKind::Invalid, why));
        }
        if group.len() > 1 && group.iter().any(|lock| lock.handle.core.store.is_none()) {
            let why = format!(
                "{name} is asked for in two sessions, and what their stores are called is not known; give each a name with \
                 SessionBuilder::store"
            );
            return Err(Error::new(ErrorKind::Invalid, why));
        }
    }
    Ok(())
}

/// Whether two locks of one name are known to be one.
fn is_same(one: &Lock, other: &Lock) -> bool {
    let (one, other) = (&one.handle.core, &other.handle.core);
    let is_named_so = one.store.is_some() && one.store == other.store;
    is_named_so || std::sync::Arc::ptr_eq(&one.engine, &other.engine)
}

impl All {
    /// Waits for all of them, as long as it takes.
    ///
    /// # Errors
    /// As [`Lock::lock`], for the first that fails; the others are released. `Invalid` if there are none, or one twice, or one
    /// name in two stores that have no names.
    ///
    /// # Cancel safety
    /// Dropping the future releases what was taken.
    pub async fn lock(&self) -> Result<Guards> {
        self.acquire(Patience::Forever)
            .await?
            .ok_or_else(|| Error::new(ErrorKind::Unsupported, "a claim was refused"))
    }

    /// Takes all of them if all are free; else none, and `None`.
    ///
    /// # Errors
    /// As [`All::lock`].
    ///
    /// # Cancel safety
    /// As [`All::lock`].
    pub async fn try_lock(&self) -> Result<Option<Guards>> {
        self.acquire(Patience::Try).await
    }

    /// Waits for all of them for `wait` in all. A `wait` of zero is a try.
    ///
    /// # Errors
    /// `Timeout`; else as [`All::lock`].
    ///
    /// # Cancel safety
    /// As [`All::lock`].
    pub async fn lock_within(&self, wait: Duration) -> Result<Guards> {
        let Some(first) = self.locks.first() else { return Err(none()) };
        if wait.is_zero() {
            let guards = self.try_lock().await?;
            return guards.ok_or_else(|| busy(&first.handle.core, &first.want));
        }
        let until = first.handle.core.clock.now() + wait;
        self.acquire(Patience::Until(until))
            .await?
            .ok_or_else(|| Error::new(ErrorKind::Unsupported, "a claim was refused"))
    }

    async fn acquire(&self, patience: Patience) -> Result<Option<Guards>> {
        if self.locks.is_empty() {
            return Err(none());
        }
        check(&self.locks)?;
        let mut guards = Guards { guards: Vec::with_capacity(self.locks.len()) };
        for lock in &self.locks {
            match acquire(&lock.handle, &lock.want, patience).await? {
                Some(hold) => guards.guards.push(Guard::new(hold)),
                None => return Ok(None),
            }
        }
        // The first may have been lost while the last was waited for.
        match guards.guards.iter().find(|guard| !guard.is_held()) {
            Some(lost) => Err(lost.hold().lost_error()),
            None => Ok(Some(guards)),
        }
    }
}

fn none() -> Error {
    Error::new(ErrorKind::Invalid, "no lock was named; name at least one")
}

/// Several locks that are held. Released, the last first, when dropped.
#[derive(Debug)]
#[must_use = "the locks are released when their guards are dropped"]
pub struct Guards {
    guards: Vec<Guard>,
}

impl Guards {
    /// Each guard, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = &Guard> {
        self.guards.iter()
    }

    /// Each guard by itself, in the order of the names.
    pub fn into_vec(mut self) -> Vec<Guard> {
        std::mem::take(&mut self.guards)
    }

    /// Whether all are held.
    pub fn is_held(&self) -> bool {
        self.guards.iter().all(Guard::is_held)
    }

    /// How long all are certain to be held.
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(Guard::remaining).min().unwrap_or_default()
    }

    /// Ends when any of them is lost.
    ///
    /// # Cancel safety
    /// It can be dropped and awaited again.
    pub async fn lost(&self) {
        any(self.guards.iter().map(Guard::lost)).await;
    }

    /// Ends when somebody has asked for any of them. As [`Guard::asked`].
    ///
    /// # Cancel safety
    /// It can be dropped and awaited again.
    pub async fn asked(&self) {
        any(self.guards.iter().map(Guard::asked)).await;
    }

    /// Runs `work` while all are held, and drops it when one is lost.
    ///
    /// # Errors
    /// `Lost`, and then `work` did not finish.
    pub async fn keep<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.lost() => Err(Error::new(ErrorKind::Lost, "one of several locks was lost")),
            done = work => Ok(done),
        }
    }

    /// Releases all, the last first, and says how each went in the order of the names.
    ///
    /// # Cancel safety
    /// The release goes on when this is dropped.
    pub async fn release(mut self) -> Vec<Release> {
        let mut outcomes = Vec::with_capacity(self.guards.len());
        while let Some(guard) = self.guards.pop() {
            outcomes.push(guard.release().await);
        }
        outcomes.reverse();
        outcomes
    }
}

/// Ends with the first of them.
async fn any(each: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut each: Vec<_> = each.map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        let any = each.iter_mut().any(|one| one.as_mut().poll(cx).is_ready());
        if any { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

impl Drop for Guards {
    fn drop(&mut self) {
        while self.guards.pop().is_some() {}
    }
}
