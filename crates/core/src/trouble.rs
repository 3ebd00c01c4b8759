//! A store that does not answer somebody who waits, and why a wait ended without a lock.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tracing::debug;

use crate::{
    Clock, Error, ErrorKind, Moment,
    core::{Core, Want},
    parting::jittered,
};

/// The first pause after a store did not answer, and the longest: it is waited for as long as the caller is willing to.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// A question without an answer for so long means that the store is down, and not that the wait was short.
const SILENCE: Duration = Duration::from_secs(1);

/// Why a store does not serve a session, told until then.
#[derive(Default)]
pub(crate) struct Told {
    why: Mutex<Option<(Moment, Error)>>,
    /// Whether there is anything: every answer looks at this.
    is_told: AtomicBool,
}

impl Told {
    pub(crate) fn tell(&self, until: Moment, error: Error) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = Some((until, error));
        self.is_told.store(true, Ordering::Release);
    }

    pub(crate) fn clear(&self) {
        if self.is_told.load(Ordering::Acquire) && self.is_told.swap(false, Ordering::AcqRel) {
            *self.why.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    pub(crate) fn get(&self, clock: &Clock) -> Option<Error> {
        let told = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        told.as_ref().filter(|(until, _)| clock.now() < *until).map(|(_, error)| error.clone())
    }
}

/// What one caller knows of a store that has not been answering.
pub(crate) struct Trouble {
    pause: Duration,
    error: Option<Error>,
}

impl Trouble {
    pub(crate) const fn none() -> Self {
        Self { pause: PAUSES.0, error: None }
    }

    pub(crate) fn of(error: Error) -> Self {
        Self { error: Some(error), ..Self::none() }
    }

    pub(crate) fn is_some(&self) -> bool {
        self.error.is_some()
    }

    /// Notes that the store did not answer. How long to wait before it is asked again.
    pub(crate) fn note(&mut self, core: &Core, error: Error) -> Duration {
        debug!(%error, "the store does not answer; it is asked again");
        let pause = jittered(self.pause);
        self.pause = (self.pause * 2).min(PAUSES.1);
        // Until the next answer: an engine has one, if only an error, after about a third of the ttl.
        core.begin_outage(error.clone(), pause + core.pace());
        self.error = Some(error);
        pause
    }

    /// The store's error if there is one, else another.
    pub(crate) fn or(self, other: Error) -> Error {
        self.error.unwrap_or(other)
    }

    /// Why the caller's time ran out: the store's silence if that was it, else the wait.
    pub(crate) fn or_timeout(self, core: &Core, want: &Want, started: Moment) -> Error {
        self.error.unwrap_or_else(|| timeout(core, want, started))
    }

    /// The same, while the store had not answered what was sent at `sent`.
    pub(crate) fn or_silence(self, core: &Core, want: &Want, started: Moment, sent: Moment) -> Error {
        let span = core.clock.now().since(sent);
        if self.is_some() || span < SILENCE {
            return self.or_timeout(core, want, started);
        }
        let text = format!(
            "{}: the store has not answered for {span:.1?}; is it up, and the way to it open?",
            want.name
        );
        let error = Error::new(ErrorKind::Unavailable, text);
        core.begin_outage(error.clone(), core.pace());
        error
    }
}

/// The error for a lock that is not free, told to who did not want to wait.
pub(crate) fn busy(core: &Core, want: &Want) -> Error {
    let text = || format!("{} is not free, and the wait is zero", want.name);
    core.hindrance().unwrap_or_else(|| Error::new(ErrorKind::Timeout, text()))
}

/// The error for a lock that did not become free in time.
pub(crate) fn timeout(core: &Core, want: &Want, started: Moment) -> Error {
    // Perhaps it was another waiter of the session that asked in vain.
    if let Some(error) = core.hindrance().or_else(|| core.outage()) {
        return error;
    }
    let waited = core.clock.now().since(started);
    Error::new(ErrorKind::Timeout, format!("{} was not free within {waited:.1?}", want.name))
}
