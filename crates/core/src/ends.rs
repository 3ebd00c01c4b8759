//! Sessions that end inside a runtime: their thread waits for them, and no executor does.

use std::{
    cell::RefCell,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use crate::Clock;

/// How long the last handles of sessions wait for what is being withdrawn.
const LAST_HANDLES_WAIT: Duration = Duration::from_secs(1);

thread_local! {
    static PENDING: Pending = const { Pending(RefCell::new(Vec::new())) };
}

/// The sessions whose last handle was dropped on this thread, inside a runtime, and that are not closed yet.
struct Pending(RefCell<Vec<Arc<Gone>>>);

impl Pending {
    fn add(&self, gone: Arc<Gone>) {
        let mut pending = self.0.borrow_mut();
        pending.retain(|gone| !gone.is_done());
        pending.push(gone);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let clock = Clock::boot();
        let until = clock.now() + LAST_HANDLES_WAIT;
        for gone in self.0.get_mut().drain(..) {
            gone.wait_blocking(until.since(clock.now()));
        }
    }
}

/// Waits for the end of a session, for a second at the most. Inside a runtime that would hold up its tasks, perhaps those that
/// the end is made of: there it returns at once, and the thread waits when it ends. A runtime joins its threads when it is dropped,
/// and what is local to the main thread is dropped when `main` returns, so a program that ends waits all the same.
pub(crate) fn wait(gone: Arc<Gone>) {
    if gone.is_done() {
        return;
    }
    let is_inside = tokio::runtime::Handle::try_current().is_ok();
    let is_deferred = is_inside && PENDING.try_with(|pending| pending.add(gone.clone())).is_ok();
    if !is_deferred {
        gone.wait_blocking(LAST_HANDLES_WAIT);
    }
}

/// The end of a session, awaited from async code and from destructors.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    pub(crate) emptied: Notify,
    done: Mutex<bool>,
    condition: Condvar,
    told: Notify,
}

impl Gone {
    pub(crate) fn tell(&self) {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.condition.notify_all();
        self.told.notify_waiters();
    }

    pub(crate) async fn wait(&self) {
        loop {
            let told = self.told.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if *self.done.lock().unwrap_or_else(PoisonError::into_inner) {
                return;
            }
            told.await;
        }
    }

    fn is_done(&self) -> bool {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_blocking(&self, most: Duration) {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.condition.wait_timeout_while(done, most, |done| !*done));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending() -> usize {
        PENDING.with(|pending| pending.0.borrow().len())
    }

    #[tokio::test]
    async fn what_is_done_is_not_waited_for() {
        let ends: Vec<Arc<Gone>> = (0..100).map(|_| Arc::default()).collect();
        for gone in &ends {
            wait(gone.clone());
        }
        assert_eq!(pending(), 100);
        for gone in &ends {
            gone.tell();
        }
        let last = Arc::<Gone>::default();
        wait(last.clone());
        assert_eq!(pending(), 1, "the others are done");
        last.tell();
        wait(last);
        assert_eq!(pending(), 1, "it was done already");
    }

    #[test]
    fn a_thread_that_ends_waits_for_what_was_dropped_inside_its_runtime() {
        let gone = Arc::<Gone>::default();
        let (told, tell) = (gone.clone(), gone.clone());
        let (dropped, is_dropped) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async { wait(gone) });
            // The executor was not held up: nobody has told yet.
            dropped.send(told.is_done()).unwrap();
        });
        assert!(!is_dropped.recv().unwrap(), "it waited inside the runtime");
        tell.tell();
        thread.join().unwrap();
    }
}
