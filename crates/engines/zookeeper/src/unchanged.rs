//! What was seen of a node and is still so.

use std::{
    pin::Pin,
    task::{Context, Waker},
};

use zookeeper_client::OneshotWatcher;

/// A watch that has not fired, as far as it was looked. ZooKeeper tells of a change before it answers anything that was done after
/// it: whoever looks here after an answer knows of everything before that.
pub(crate) struct Unchanged(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Unchanged {
    /// Until this ends.
    pub(crate) fn until(change: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Box::pin(change))
    }

    /// Whether it has still not fired. Not to be asked again when it has.
    pub(crate) fn holds(&mut self) -> bool {
        self.0.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }
}

impl From<OneshotWatcher> for Unchanged {
    fn from(watch: OneshotWatcher) -> Self {
        Self::until(async move { drop(watch.changed().await) })
    }
}
