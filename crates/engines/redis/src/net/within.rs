//! A limit in time for a future that may move from one runtime to another.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use bramah_core::Clock;
use bramah_remote::Office;
use tokio::{
    runtime::{Handle, Id},
    time::Sleep,
};

/// The time was up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Elapsed;

/// What the future gives, if it does so within `span`.
///
/// A timer belongs to the runtime that it was made on, and panics when it is polled after that has ended. Core finishes
/// calls of a runtime that has ended on the keeper's, so the timer moves along. Outside of any runtime, as in a destructor,
/// it is one of the connections' own.
///
/// By reference: a future that is handed over by value is kept twice, and moved around for every request.
pub(crate) async fn within<F: Future>(span: Duration, mut future: Pin<&mut F>) -> Result<F::Output, Elapsed> {
    let clock = Clock::boot();
    let until = clock.now() + span;
    let mut home = here();
    let mut sleep = pin!(timer(home, span));
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        let here = here();
        if here != home {
            home = here;
            sleep.set(timer(here, until.since(clock.now())));
        }
        sleep.as_mut().poll(cx).map(|()| Err(Elapsed))
    })
    .await
}

/// Which runtime this is, if any.
fn here() -> Option<Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

fn timer(here: Option<Id>, span: Duration) -> Sleep {
    let office = if here.is_none() { Office::open(super::OFFICE).ok() } else { None };
    let _runtime = office.as_ref().map(Office::enter);
    tokio::time::sleep(span)
}

/// Lets time go by.
pub(super) async fn nap(span: Duration) {
    let _ = within(span, pin!(std::future::pending::<()>())).await;
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn it_outlives_the_runtime_that_it_was_first_polled_on() {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let first = runtime();
        let mut never = Box::pin(std::future::pending::<()>());
        let mut limited = Box::pin(within(Duration::from_millis(50), never.as_mut()));
        let (tell, told) = mpsc::channel();
        let waker = std::task::Waker::noop();
        first.block_on(async {
            let polled = limited.as_mut().poll(&mut std::task::Context::from_waker(waker));
            tell.send(polled.is_pending()).unwrap();
        });
        assert!(told.recv().unwrap());
        drop(first);
        assert_eq!(runtime().block_on(limited), Err(Elapsed));
    }

    /// A destructor may run after the last runtime.
    #[test]
    fn it_ends_outside_of_any_runtime() {
        struct Unpark(std::thread::Thread);
        impl std::task::Wake for Unpark {
            fn wake(self: std::sync::Arc<Self>) {
                self.0.unpark();
            }
        }
        let mut never = Box::pin(std::future::pending::<()>());
        let mut limited = Box::pin(within(Duration::from_millis(50), never.as_mut()));
        let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
        let mut cx = std::task::Context::from_waker(&waker);
        while limited.as_mut().poll(&mut cx).is_pending() {
            std::thread::park();
        }
    }
}
