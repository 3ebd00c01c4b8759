//! So many at a time where a store has no permits.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
    time::Duration,
};

use crate::{Error, ErrorKind, Guard, Mutex, Name, Result, Session};

/// One of `n` mutexes, whichever is free: at most `n` hold one. For stores without permits, such as a
/// [`Quorum`](crate::quorum), where n permits would need more than n of every n + 1 members. Who waits does so for all of them.
///
/// The mutexes are called like the name with `/1` to `/n` behind it. Everybody must agree on `n`; nobody checks that. There is
/// no order, and a fence is that of one slot: it says who was before in that slot only.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bramah_core::Result<()> {
/// # use bramah_core::{Memory, Session};
/// let session = Session::open(Memory::new()).await?;
/// let reports = session.slots("reports", 2)?;
/// let (one, two) = (reports.lock().await?, reports.lock().await?);
/// assert!(reports.try_lock().await?.is_none());
/// # drop((one, two)); Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Slots {
    name: Name,
    mutexes: Vec<Mutex>,
}

/// More than anybody should wait for at once.
const MOST: u32 = 100;

impl Session {
    /// So many slots under this name.
    ///
    /// # Errors
    /// `Invalid` for a broken name, one that is too long with a number behind it, and for none or more than 100.
    pub fn slots<N: TryInto<Name, Error = E>, E: Into<Error>>(&self, name: N, count: u32) -> Result<Slots> {
        let name = name.try_into().map_err(Into::into)?;
        if count == 0 || count > MOST {
            let why = format!("{name}: {count} slots; use 1 to {MOST}");
            return Err(Error::new(ErrorKind::Invalid, why));
        }
        let mutexes = (1..=count).map(|slot| self.mutex(Name::new(format!("{name}/{slot}"))?));
        let mutexes = mutexes.collect::<Result<_>>()?;
        Ok(Slots { name, mutexes })
    }
}

impl Slots {
    /// Their mutexes, beginning anywhere: those who come together do not all want the first.
    fn shuffled(&self) -> impl Iterator<Item = &Mutex> {
        let first = fastrand::usize(..self.mutexes.len());
        self.mutexes.iter().cycle().skip(first).take(self.mutexes.len())
    }

    /// Takes one if any is free now, else `None`.
    ///
    /// # Errors
    /// As [`Mutex::try_lock`](crate::Lock::try_lock), of the first that fails.
    ///
    /// # Cancel safety
    /// Dropping the future releases what was taken.
    pub async fn try_lock(&self) -> Result<Option<Guard>> {
        for mutex in self.shuffled() {
            if let Some(guard) = mutex.try_lock().await? {
                return Ok(Some(guard));
            }
        }
        Ok(None)
    }

    /// Waits for one, as long as it takes.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Lock::lock), of the first that fails.
    ///
    /// # Cancel safety
    /// Dropping the future releases what was taken.
    pub async fn lock(&self) -> Result<Guard> {
        if let Some(guard) = self.try_lock().await? {
            return Ok(guard);
        }
        first_of(self.shuffled().map(|mutex| mutex.lock())).await
    }

    /// Waits for one for `wait`.
    ///
    /// # Errors
    /// `Timeout`; else as [`Slots::lock`].
    ///
    /// # Cancel safety
    /// As [`Slots::lock`].
    pub async fn lock_within(&self, wait: Duration) -> Result<Guard> {
        if let Some(guard) = self.try_lock().await? {
            return Ok(guard);
        }
        first_of(self.shuffled().map(|mutex| mutex.lock_within(wait))).await.map_err(|error| {
            if error.kind() != ErrorKind::Timeout {
                return error;
            }
            let text =
                format!("none of {} slots of {} was free within {wait:.1?}", self.mutexes.len(), self.name);
            Error::new(ErrorKind::Timeout, text)
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.mutexes.len()
    }
}

/// The first answer. The others are given up: what one of them has got meanwhile is released.
async fn first_of<F: Future<Output = Result<Guard>>>(waits: impl Iterator<Item = F>) -> Result<Guard> {
    let mut waits: Vec<Pin<Box<F>>> = waits.map(Box::pin).collect();
    poll_fn(move |cx| {
        for wait in &mut waits {
            if let Poll::Ready(answer) = wait.as_mut().poll(cx) {
                return Poll::Ready(answer);
            }
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;
    use crate::{
        Memory,
        quorum::{Member, Quorum},
    };

    async fn session() -> Session {
        let members = (0..3).map(|n| Member::new(n.to_string(), Memory::new()));
        Session::open(Quorum::builder(members).build().unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn never_more_than_so_many_at_a_time_and_everybody_has_a_turn() {
        let session = session().await;
        assert_eq!(session.semaphore("x", 3).unwrap_err().kind(), ErrorKind::Unsupported);
        let inside = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let tasks: Vec<_> = (0..12)
            .map(|_| {
                let (slots, inside) = (session.slots("x", 3).unwrap(), inside.clone());
                tokio::spawn(async move {
                    for _ in 0..5 {
                        let guard = slots.lock().await.unwrap();
                        let now = inside.0.fetch_add(1, Ordering::SeqCst) + 1;
                        inside.1.fetch_max(now, Ordering::SeqCst);
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        inside.0.fetch_sub(1, Ordering::SeqCst);
                        guard.release().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            tokio::time::timeout(Duration::from_secs(20), task).await.unwrap().unwrap();
        }
        assert_eq!(inside.1.load(Ordering::SeqCst), 3, "as many as there are, and never more");
        let all: Vec<_> = [0; 3].map(|_| session.slots("x", 3).unwrap()).into();
        let mut held = Vec::new();
        for slots in &all {
            held.push(slots.lock_within(Duration::from_secs(5)).await.unwrap());
        }
        assert!(all[0].try_lock().await.unwrap().is_none());
        let late = all[0].lock_within(Duration::from_millis(20)).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Timeout);
        assert!(late.to_string().contains("3 slots of x"), "{late}");
    }

    #[tokio::test]
    async fn what_cannot_be_meant_is_refused() {
        let session = session().await;
        for (name, count) in [("x", 0), ("x", 101), ("x/", 2)] {
            assert_eq!(session.slots(name, count).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }
}
