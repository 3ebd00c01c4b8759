//! What all connections of a proxy are subject to.

use std::{
    net::SocketAddr,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::Instant,
};

use super::{Counts, Fault, Loss, link::Link};

/// The one place where connections look what to do, and wait for it to change.
#[derive(Default)]
pub(super) struct Weather {
    sky: Mutex<Sky>,
    changed: Condvar,
}

type Predicate = Box<dyn FnMut(&[u8]) -> bool + Send>;

#[derive(Default)]
pub(super) struct Sky {
    pub(super) requests: Fault,
    pub(super) replies: Fault,
    pub(super) refuse: bool,
    pub(super) closing: bool,
    /// Where new connections lead, if elsewhere than at first.
    pub(super) server: Option<SocketAddr>,
    pub(super) losing: Option<(Loss, Predicate)>,
    pub(super) counts: Counts,
    pub(super) links: Vec<Arc<Link>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Requests,
    Replies,
}

/// What is to be done with something that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Deliver,
    Swallow,
    /// The connection was severed meanwhile.
    Severed,
}

impl Weather {
    fn sky(&self) -> MutexGuard<'_, Sky> {
        self.sky.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Sky)) {
        change(&mut self.sky());
        self.changed.notify_all();
    }

    /// Whether the proxy closes, and whether it refuses.
    pub(super) fn door(&self) -> (bool, bool) {
        let sky = self.sky();
        (sky.closing, sky.refuse)
    }

    /// Where new connections lead, if elsewhere than at first.
    pub(super) fn redirected(&self) -> Option<SocketAddr> {
        self.sky().server
    }

    pub(super) fn counts(&self) -> Counts {
        let sky = self.sky();
        Counts { live: sky.links.len(), ..sky.counts }
    }

    /// Resets all live connections, on both sides, and waits until they are gone.
    pub(super) fn sever(&self) {
        let links = self.sky().links.clone();
        links.iter().for_each(|link| link.sever(self));
        drop(links);
        let mut sky = self.sky();
        while sky.links.iter().any(|link| link.is_severed()) {
            sky = self.changed.wait(sky).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// Waits until it is clear what becomes of something that arrived at that time.
    pub(super) fn fate(&self, direction: Direction, arrived: Instant, link: &Link) -> Fate {
        let mut sky = self.sky();
        loop {
            if link.is_severed() {
                return Fate::Severed;
            }
            let fault = match direction {
                Direction::Requests => sky.requests,
                Direction::Replies => sky.replies,
            };
            sky = match fault {
                Fault::Pass => return Fate::Deliver,
                Fault::Drop => return Fate::Swallow,
                Fault::Hold => self.changed.wait(sky).unwrap_or_else(|poisoned| poisoned.into_inner()),
                Fault::Delay(delay) => {
                    let left = delay.saturating_sub(arrived.elapsed());
                    if left.is_zero() {
                        return Fate::Deliver;
                    }
                    let waited = self.changed.wait_timeout(sky, left);
                    waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
                }
            };
        }
    }

    /// Whether the answer to this request is to be lost, and how.
    pub(super) fn loss_of(&self, request: &[u8]) -> Option<Loss> {
        let mut sky = self.sky();
        let (loss, matches) = sky.losing.as_mut()?;
        matches(request).then_some(*loss)
    }
}
