//! A limit in time for a future that may move from one runtime to another.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use bramah_core::Clock;
use tokio::runtime::Handle;

/// The time was up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Elapsed;

/// What the future gives, if it does so within `span`.
///
/// A timer belongs to the runtime that it was made on, and panics when it is polled after that has ended. Core finishes
/// calls of a runtime that has ended on the keeper's, so the timer moves along.
///
/// By reference: a future that is handed over by value is kept twice, and moved around for every request.
pub(super) async fn within<F: Future>(span: Duration, mut future: Pin<&mut F>) -> Result<F::Output, Elapsed> {
    let clock = Clock::boot();
    let until = clock.now() + span;
    let mut home = Handle::current().id();
    let sleep = tokio::time::sleep(span);
    tokio::pin!(sleep);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        let here = Handle::current().id();
        if here != home {
            home = here;
            sleep.set(tokio::time::sleep(until.since(clock.now())));
        }
        sleep.as_mut().poll(cx).map(|()| Err(Elapsed))
    })
    .await
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
}
