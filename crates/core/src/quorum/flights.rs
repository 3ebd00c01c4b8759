//! What is still on its way to members when a quorum has heard enough.

use std::{
    collections::{HashMap, HashSet},
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
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
use crate::{ClaimId, Clock, Moment, Reply};

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
    claims: Mutex<Claims>,
    /// Claims that a member may have although it did not answer, and until when they could come late.
    doubts: Mutex<HashMap<(ClaimId, usize), Moment>>,
    /// What left, for each renewal that is under way.
    renewals: Mutex<Vec<Weak<Left>>>,
    aloft: AtomicUsize,
    aside: AtomicUsize,
    landed: Notify,
}

/// How many are kept before those are looked for that have landed.
const MANY: usize = 256;

/// By claim and member.
type Claims = HashMap<(ClaimId, usize), Vec<oneshot::Receiver<()>>>;

/// Something under way; over when it is dropped.
struct Flight(Arc<Tower>);

impl Drop for Flight {
    fn drop(&mut self) {
        if self.0.aloft.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.landed.notify_waiters();
        }
    }
}

/// Claims that left while a renewal was under way.
type Left = Mutex<HashSet<ClaimId>>;

/// A renewal under way; over when it is dropped, and what it remembers with it.
pub(super) struct Renewing(Arc<Left>);

impl Renewing {
    pub(super) fn has_left(&self, id: ClaimId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }
}

/// A task that nobody waits for.
struct Aside(Arc<Tower>);

impl Aside {
    fn one(tower: &Arc<Tower>) -> Self {
        tower.aside.fetch_add(1, Ordering::Relaxed);
        Self(tower.clone())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.0.aside.fetch_sub(1, Ordering::Relaxed);
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

    fn claims(&self) -> MutexGuard<'_, Claims> {
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
            let is_aloft = |landing: &mut oneshot::Receiver<()>| {
                matches!(landing.try_recv(), Err(oneshot::error::TryRecvError::Empty))
            };
            // Each that has landed goes: a receiver that has told its end panics when it is awaited.
            claims.retain(|_, landings| {
                landings.retain_mut(is_aloft);
                !landings.is_empty()
            });
        }
        claims.entry((id, at)).or_default().push(landing);
        drop(claims);
        Reply::later(async move {
            let answer = reply.await;
            drop(land);
            answer
        })
    }

    /// Ends when all messages of the claim to this member have been answered. `None` if they have, as far as is known.
    pub(super) fn landing(&self, id: ClaimId, at: usize) -> Option<impl Future<Output = ()> + Send + use<>> {
        let landings = self.claims().remove(&(id, at))?;
        Some(async move {
            for landing in landings {
                let _ = landing.await;
            }
        })
    }

    /// Whether a message of the claim to this member may come late, and until when.
    pub(super) fn doubt(&self, id: ClaimId, at: usize, until: Option<Moment>) {
        let mut doubts = self.tower.doubts.lock().unwrap_or_else(PoisonError::into_inner);
        match until {
            Some(until) => drop(doubts.insert((id, at), until)),
            None if doubts.is_empty() => {}
            None => drop(doubts.remove(&(id, at))),
        }
    }

    pub(super) fn undoubt(&self, id: ClaimId, at: usize) -> Option<Moment> {
        let mut doubts = self.tower.doubts.lock().unwrap_or_else(PoisonError::into_inner);
        if doubts.is_empty() { None } else { doubts.remove(&(id, at)) }
    }

    /// A renewal begins. What leaves until its end is remembered, lest it is given back.
    pub(super) fn renewing(&self) -> Renewing {
        let left = Arc::default();
        let mut renewals = self.renewals();
        renewals.retain(|other| other.strong_count() > 0);
        renewals.push(Arc::downgrade(&left));
        Renewing(left)
    }

    fn renewals(&self) -> MutexGuard<'_, Vec<Weak<Left>>> {
        self.tower.renewals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A claim leaves.
    pub(super) fn left(&self, id: ClaimId) {
        for left in self.renewals().iter().filter_map(Weak::upgrade) {
            left.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        }
    }

    /// How many tasks there are that nobody waits for.
    pub(super) fn aside(&self) -> usize {
        self.tower.aside.load(Ordering::Relaxed)
    }

    /// In a task that nobody waits for.
    pub(super) fn spawn_aside(&self, task: impl Future<Output = ()> + Send + 'static) {
        let aside = Aside::one(&self.tower);
        let task = async move {
            task.await;
            drop(aside);
        };
        match &self.runtime {
            Some(runtime) => drop(runtime.spawn(task)),
            None => drop(tokio::spawn(task)),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionId;

    /// What has landed is looked for while another message of the same claim is still under way.
    #[tokio::test]
    async fn a_withdrawal_waits_for_what_is_aloft_of_a_claim_that_has_landed_in_part() {
        let flights = Flights::new(&Clock::runtime(), Silence::of(3));
        let id = |seq| ClaimId { session: SessionId::from_bits(1), seq };
        let first = u64::try_from(MANY).unwrap();
        let (answer, answered) = oneshot::channel::<()>();
        flights.of_claim(id(first), 0, Reply::now(Ok(()))).await.unwrap();
        let aloft = flights.of_claim(
            id(first),
            0,
            Reply::later(async move {
                let _ = answered.await;
                Ok(())
            }),
        );
        let mut others = Vec::new();
        for seq in 0..first {
            others.push(flights.of_claim(id(seq), 0, Reply::now(Ok(()))));
        }
        let landing = flights.landing(id(first), 0).expect("one is aloft");
        let landing = tokio::spawn(landing);
        tokio::task::yield_now().await;
        assert!(!landing.is_finished(), "it did not wait for what is aloft");
        drop(answer);
        aloft.await.unwrap();
        landing.await.unwrap();
    }

    /// Several sessions renew, and there is always a renewal under way.
    #[test]
    fn what_left_is_forgotten_with_the_renewals_that_it_concerns() {
        let flights = Flights::new(&Clock::runtime(), Silence::of(3));
        let id = |seq| ClaimId { session: SessionId::from_bits(1), seq };
        let mut renewing = flights.renewing();
        for seq in 0..100 {
            let next = flights.renewing();
            flights.left(id(seq));
            assert!(renewing.has_left(id(seq)) && next.has_left(id(seq)));
            assert!(!next.has_left(id(seq.wrapping_sub(1))), "it left before this renewal began");
            renewing = next;
        }
        assert!(flights.renewals().len() <= 2, "{}", flights.renewals().len());
    }
}
