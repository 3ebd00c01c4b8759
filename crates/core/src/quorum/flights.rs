//! What is still on its way to members when a quorum has heard enough.

use std::{
    collections::HashMap,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    runtime::{Builder, Handle},
    sync::{Notify, oneshot},
};

use super::{
    round::{Late, finish},
    silence::Silence,
};
use crate::{ClaimId, Clock, Reply};

/// Follows what is late to its end, so that nothing is dropped half-way.
pub(super) struct Flights {
    tower: Arc<Tower>,
    silent: Silence,
    /// Where; the caller's runtime if it is none, in a test on a clock of its own.
    runtime: Option<Handle>,
}

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

/// A runtime that outlives those of the callers.
fn background() -> Option<Handle> {
    static BACKGROUND: OnceLock<Option<Handle>> = OnceLock::new();
    let start = || {
        let runtime = Builder::new_current_thread().enable_all().build().ok()?;
        let handle = runtime.handle().clone();
        let run = move || runtime.block_on(std::future::pending::<()>());
        std::thread::Builder::new().name("bramah-quorum".to_owned()).spawn(run).ok()?;
        Some(handle)
    };
    BACKGROUND.get_or_init(start).clone()
}

impl Flights {
    pub(super) fn new(clock: &Clock, silent: Silence) -> Self {
        let runtime = if clock.is_boot() { background() } else { None };
        Self { tower: Arc::default(), silent, runtime }
    }

    /// In a task of its own.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let flight = self.take_off();
        let task = async move {
            task.await;
            drop(flight);
        };
        match &self.runtime {
            Some(runtime) => drop(runtime.spawn(task)),
            None => drop(tokio::spawn(task)),
        }
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<(ClaimId, usize), oneshot::Receiver<()>>> {
        self.tower.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_off(&self) -> Flight {
        self.tower.aloft.fetch_add(1, Ordering::AcqRel);
        Flight(self.tower.clone())
    }

    /// Waits for the answers in a task of their own.
    pub(super) fn follow<T: Send + 'static>(&self, late: Vec<Late<T>>) {
        if late.is_empty() {
            return;
        }
        let silent = self.silent.clone();
        self.spawn(finish(late, move |at| silent.set(at, false)));
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
            let landed = self.tower.landed.notified();
            tokio::pin!(landed);
            landed.as_mut().enable();
            if self.tower.aloft.load(Ordering::Acquire) == 0 {
                return;
            }
            landed.await;
        }
    }
}
