//! Processes that stand still.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use tokio::sync::Notify;

/// Whether a process runs.
#[derive(Debug, Default)]
pub struct Ice {
    frozen: Mutex<bool>,
    thawed: Notify,
}

impl Ice {
    /// Stops it.
    pub fn freeze(&self) {
        *lock(&self.frozen) = true;
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        *lock(&self.frozen) = false;
        self.thawed.notify_waiters();
    }
}

/// A task of a process that can be frozen: SIGSTOP for futures. Time goes on, and nothing of it runs.
#[derive(Debug)]
pub struct Frozen<F> {
    ice: Arc<Ice>,
    future: Pin<Box<F>>,
}

impl<F> Frozen<F> {
    /// Runs `future` while `ice` lets it.
    pub fn new(ice: Arc<Ice>, future: F) -> Self {
        Self { ice, future: Box::pin(future) }
    }
}

impl<F: Future> Future for Frozen<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if *lock(&self.ice.frozen) {
            let (ice, waker) = (self.ice.clone(), cx.waker().clone());
            tokio::spawn(async move {
                let thawed = ice.thawed.notified();
                tokio::pin!(thawed);
                thawed.as_mut().enable();
                if *lock(&ice.frozen) {
                    thawed.await;
                }
                waker.wake();
            });
            return Poll::Pending;
        }
        self.future.as_mut().poll(cx)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
