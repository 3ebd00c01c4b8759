//! How a waiter is told.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use crate::Fence;

/// What a [`Wake`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The store has granted the claim: a pushed grant, with its fence if it is exclusive.
    Held(Option<Fence>),
    /// Something changed, or the push stream broke: ask.
    Ask,
}

/// A future that ends when its claim should ask again, or has been granted.
///
/// It is armed *before* the answer it comes with is computed, so nothing that happens in between is missed. A wake
/// whose [`Bell`] is gone says [`Woken::Ask`]: an engine that forgets a waiter costs a question, not a hang.
pub struct Wake(Inner);

enum Inner {
    Bell(oneshot::Receiver<Woken>),
    Future(Pin<Box<dyn Future<Output = Woken> + Send>>),
}

/// The engine's end of a [`Wake`].
pub struct Bell(oneshot::Sender<Woken>);

impl Wake {
    /// A wake and the bell that fires it.
    pub fn pair() -> (Bell, Wake) {
        let (sender, receiver) = oneshot::channel();
        (Bell(sender), Wake(Inner::Bell(receiver)))
    }

    /// A wake that is any future.
    pub fn from_future(future: impl Future<Output = Woken> + Send + 'static) -> Self {
        Self(Inner::Future(Box::pin(future)))
    }

    /// A wake that never fires: the store has no way to tell, only the longest sleep counts.
    pub fn never() -> Self {
        Self::from_future(std::future::pending())
    }
}

impl Future for Wake {
    type Output = Woken;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Woken> {
        match &mut self.0 {
            Inner::Bell(receiver) => Pin::new(receiver).poll(cx).map(|told| told.unwrap_or(Woken::Ask)),
            Inner::Future(future) => future.as_mut().poll(cx),
        }
    }
}

impl Bell {
    /// Fires the wake. Whether anyone was still listening.
    pub fn ring(self, woken: Woken) -> bool {
        self.0.send(woken).is_ok()
    }

    /// Whether nobody listens any more.
    pub fn is_deaf(&self) -> bool {
        self.0.is_closed()
    }
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wake")
    }
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bell")
    }
}
