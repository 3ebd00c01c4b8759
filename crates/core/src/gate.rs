//! A local queue in front of stores where a session can claim a name once.
//!
//! Where the profile says [`Seats::One`](crate::Seats) (an advisory lock on a connection), or
//! [`Seats::OneMutex`](crate::Seats) for a mutex (a lease key in etcd), two
//! tasks of one process would share the store's claim and both believe in it. The gate lets one through at a time,
//! in order. Everywhere else every waiter stands in the store's own line, and this is not used.
//!
//! [`Turns`] are weaker: where there is no line, the tasks of a session ask one after another, until they hold.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::Name;

/// One queue a name.
#[derive(Debug, Default)]
pub(crate) struct Gate(Mutex<HashMap<Name, Arc<Way>>>);

#[derive(Debug)]
struct Way {
    places: Arc<Semaphore>,
    /// Whether who has the pass is on its way out.
    leaving: AtomicBool,
}

/// The right to claim a name for this session; the next in the queue has it when it is dropped.
#[derive(Debug)]
pub(crate) struct Pass {
    _permit: OwnedSemaphorePermit,
    way: Arc<Way>,
}

impl Pass {
    /// Whoever has it is on its way out.
    pub(crate) fn leave(&self) {
        self.way.leaving.store(true, Ordering::Release);
    }
}

impl Gate {
    /// Waits for the way to `name` to be free.
    ///
    /// # Cancel safety
    /// Dropping it gives the place in the queue up.
    pub(crate) async fn pass(&self, name: &Name) -> Option<Pass> {
        let way = self.way(name);
        let permit = way.places.clone().acquire_owned().await.ok()?;
        Some(Pass::new(permit, way))
    }

    /// The pass if it is free now, or whether it is about to be: who has it is on its way out.
    pub(crate) fn try_pass(&self, name: &Name) -> std::result::Result<Pass, Busy> {
        let way = self.way(name);
        match way.places.clone().try_acquire_owned() {
            Ok(permit) => Ok(Pass::new(permit, way)),
            Err(_) if way.leaving.load(Ordering::Acquire) => Err(Busy::Leaving),
            Err(_) => Err(Busy::Taken),
        }
    }

    fn way(&self, name: &Name) -> Arc<Way> {
        let new = || Way { places: Arc::new(Semaphore::new(1)), leaving: AtomicBool::new(false) };
        entry(&self.0, name, new)
    }
}

impl Pass {
    fn new(permit: OwnedSemaphorePermit, way: Arc<Way>) -> Self {
        way.leaving.store(false, Ordering::Release);
        Self { _permit: permit, way }
    }
}

/// Why there is no pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    /// Somebody has it.
    Taken,
    /// Who has it is on its way out.
    Leaving,
}

/// What there is for a name. Every pass, turn and waiter has a handle of it: alone in the map means unused.
fn entry<T>(map: &Mutex<HashMap<Name, Arc<T>>>, name: &Name, new: impl FnOnce() -> T) -> Arc<T> {
    let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
    if map.len() >= 64 && map.len().is_power_of_two() {
        map.retain(|_, one| Arc::strong_count(one) > 1);
    }
    map.entry(name.clone()).or_insert_with(|| Arc::new(new())).clone()
}

/// Who may ask for a name.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<Name, Arc<Queue>>>);

#[derive(Debug)]
struct Queue {
    places: Arc<Semaphore>,
    stirred: Notify,
}

/// The turn to ask, or to ask out of turn; the next in the queue has it when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
    _queue: Arc<Queue>,
}

impl Turns {
    fn queue(&self, name: &Name) -> Arc<Queue> {
        entry(&self.0, name, || Queue { places: Arc::new(Semaphore::new(1)), stirred: Notify::new() })
    }

    /// The turn if nobody else has it.
    pub(crate) fn try_turn(&self, name: &Name) -> Option<Turn> {
        let queue = self.queue(name);
        let permit = queue.places.clone().try_acquire_owned().ok()?;
        Some(Turn { _permit: Some(permit), _queue: queue })
    }

    /// Waits for the turn, or until the queue is stirred up.
    ///
    /// # Cancel safety
    /// Dropping it gives the place in the queue up.
    pub(crate) async fn turn(&self, name: &Name) -> Turn {
        let queue = self.queue(name);
        let permit = tokio::select! {
            biased;
            permit = queue.places.clone().acquire_owned() => permit.ok(),
            () = queue.stirred.notified() => None,
        };
        Turn { _permit: permit, _queue: queue }
    }

    /// Has everybody in the queue ask.
    pub(crate) fn stir(&self, name: &Name) {
        self.queue(name).stirred.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_at_a_time_in_order_and_unused_queues_are_dropped() {
        let gate = Gate::default();
        let name = Name::new("a").unwrap();
        let first = gate.try_pass(&name).unwrap();
        assert_eq!(gate.try_pass(&name).unwrap_err(), Busy::Taken);
        first.leave();
        assert_eq!(gate.try_pass(&name).unwrap_err(), Busy::Leaving);
        let mut second = std::pin::pin!(gate.pass(&name));
        assert!(futures_poll(second.as_mut()).await.is_none());
        drop(first);
        let second = second.await.unwrap();
        assert_eq!(gate.try_pass(&name).unwrap_err(), Busy::Taken, "the next is not on its way out");
        for n in 0..200 {
            gate.try_pass(&Name::new(format!("n{n}")).unwrap()).unwrap();
        }
        assert!(gate.0.lock().unwrap().len() < 130, "{}", gate.0.lock().unwrap().len());
        assert!(gate.try_pass(&name).is_err(), "a queue in use is kept");
        drop(second);
        assert!(gate.try_pass(&name).is_ok());
    }

    async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
            std::task::Poll::Ready(value) => std::task::Poll::Ready(Some(value)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        })
        .await
    }
}
