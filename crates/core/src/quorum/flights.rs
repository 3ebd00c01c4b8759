//! What is still on its way to members when a quorum has heard enough.

use std::{
    collections::HashMap,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::{Notify, oneshot};

use super::round::{Late, finish};
use crate::{ClaimId, Reply};

/// Follows what is late to its end, so that nothing is dropped half-way.
#[derive(Default)]
pub(super) struct Flights(Arc<Tower>);

#[derive(Default)]
struct Tower {
    /// Claims that have not been answered, by member: a withdrawal that overtook its claim would leave a ghost.
    claims: Mutex<HashMap<(ClaimId, usize), oneshot::Receiver<()>>>,
    aloft: AtomicUsize,
    landed: Notify,
}

/// How many are kept before those are looked for that have landed.
const MANY: usize = 256;

/// Something under way; over when it is dropped.
struct Flight(Arc<Tower>);

impl Drop for Flight {
    fn drop(&mut self) {
        if self.0.aloft.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.landed.notify_waiters();
        }
    }
}

impl Flights {
    fn claims(&self) -> MutexGuard<'_, HashMap<(ClaimId, usize), oneshot::Receiver<()>>> {
        self.0.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_off(&self) -> Flight {
        self.0.aloft.fetch_add(1, Ordering::AcqRel);
        Flight(self.0.clone())
    }

    /// Waits for the answers in a task of their own.
    pub(super) fn follow<T: Send + 'static>(&self, late: Vec<Late<T>>) {
        if late.is_empty() {
            return;
        }
        let flight = self.take_off();
        tokio::spawn(async move {
            finish(late).await;
            drop(flight);
        });
    }

    /// The same for messages that enter a claim.
    pub(super) fn follow_claim<T: Send + 'static>(&self, id: ClaimId, late: Vec<Late<T>>) {
        for (at, reply) in late {
            let reply = self.of_claim(id, at, reply);
            self.follow(vec![(at, reply)]);
        }
    }

    /// A reply that a withdrawal of the claim waits for.
    pub(super) fn of_claim<T: Send + 'static>(&self, id: ClaimId, at: usize, reply: Reply<T>) -> Reply<T> {
        let (land, landing) = oneshot::channel::<()>();
        let mut claims = self.claims();
        if claims.len() >= MANY && claims.len().is_power_of_two() {
            claims
                .retain(|_, landing| matches!(landing.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
        }
        claims.insert((id, at), landing);
        drop(claims);
        Reply::later(async move {
            let answer = reply.await;
            drop(land);
            answer
        })
    }

    /// Ends when the last message of the claim to this member has been answered. `None` if it has, as far as is known.
    pub(super) fn landing(&self, id: ClaimId, at: usize) -> Option<impl Future<Output = ()> + Send + use<>> {
        let landing = self.claims().remove(&(id, at))?;
        Some(async move {
            let _ = landing.await;
        })
    }

    /// Ends when nothing is under way.
    pub(super) async fn all_landed(&self) {
        loop {
            let landed = self.0.landed.notified();
            tokio::pin!(landed);
            landed.as_mut().enable();
            if self.0.aloft.load(Ordering::Acquire) == 0 {
                return;
            }
            landed.await;
        }
    }
}
