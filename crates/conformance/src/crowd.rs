//! Many waiters of one lock, spread over several sessions.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bramah_core::{Error, ErrorKind, Guard, Name, Result, Session, Tag};
use tokio::task::JoinSet;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(600);

/// Waiters in one line behind a holder.
#[derive(Debug)]
pub struct Crowd {
    name: Name,
    holder: Session,
    guard: Guard,
    waiters: JoinSet<Result<()>>,
    served: Arc<Mutex<Vec<Tag>>>,
}

impl Crowd {
    /// Has the first session hold `name`, and `count` waiters enter the line, of all sessions by turns.
    ///
    /// # Errors
    /// When the lock cannot be taken.
    pub async fn enter(sessions: &[Session], name: &str, count: usize) -> Result<Self> {
        let name = Name::new(name)?;
        let Some(holder) = sessions.first().cloned() else {
            return Err(Error::new(ErrorKind::Invalid, "a crowd without a session"));
        };
        let guard = holder.mutex(name.clone())?.lock().await?;
        let (served, mut waiters) = (Arc::<Mutex<Vec<Tag>>>::default(), JoinSet::new());
        for session in sessions.iter().cycle().take(count) {
            let (mutex, served) = (session.mutex(name.clone())?, served.clone());
            waiters.spawn(async move {
                let guard = mutex.lock_within(LONG).await?;
                served.lock().unwrap_or_else(PoisonError::into_inner).push(guard.tag());
                guard.release().await;
                Ok(())
            });
        }
        Ok(Self { name, holder, guard, waiters, served })
    }

    /// Releases the lock, and waits until everybody was served. The lock is exclusive, so they were in the order in which they say so.
    ///
    /// # Errors
    /// For a waiter with an error, and when they were not served in the order of the line.
    pub async fn serve(mut self) -> Result<()> {
        let line = self.holder.inspect(&self.name).await?;
        let expected: Vec<Tag> =
            line.iter().flat_map(|line| line.waiters()).map(|place| place.claim.id.tag()).collect();
        let wrong = |text: String| Error::new(ErrorKind::Corrupt, text);
        if expected.len() != self.waiters.len() {
            return Err(wrong(format!("{} of {} wait", expected.len(), self.waiters.len())));
        }
        self.guard.release().await;
        while let Some(done) = self.waiters.join_next().await {
            done.map_err(|why| wrong(why.to_string()))??;
        }
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        match served.iter().zip(&expected).position(|(served, expected)| served != expected) {
            None if served.len() == expected.len() => Ok(()),
            None => Err(wrong(format!("{} of {} were served", served.len(), expected.len()))),
            Some(at) => Err(wrong(format!("number {at} of {} was not served in its turn", expected.len()))),
        }
    }
}
