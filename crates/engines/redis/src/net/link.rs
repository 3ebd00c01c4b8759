//! A place for one connection: made when it is needed, by one of those who need it.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use bramah_core::{Clock, Error, ErrorKind, Moment, Result};
use redis::aio::MultiplexedConnection;
use tokio::sync::oneshot;

use super::{
    dial::Dialer,
    sentinel::Sentinels,
    wire::{Tap, Wire},
    within::within,
};
use crate::{
    checkup::{Cause, Marker},
    config::Address,
    driver::Ear,
};

/// The shortest and the longest time between two attempts to connect.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

/// What all links of a network share.
pub(super) struct Hub {
    pub(super) dialer: Arc<Dialer>,
    pub(super) ear: Weak<dyn Ear>,
    pub(super) clock: Clock,
    /// Whether every server is asked who it is and how long it has run, and who the others are.
    pub(super) asked: Option<Arc<Peers>>,
}

/// Servers that are to be different ones, by what they call themselves.
#[derive(Default)]
pub(crate) struct Peers(Mutex<HashMap<String, Arc<str>>>);

impl Peers {
    /// A server that was found at `address`. An error if it was found elsewhere, too.
    fn meet(&self, id: &str, address: &Arc<str>) -> Result<()> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let other = known.entry(id.to_owned()).or_insert_with(|| Arc::clone(address));
        if other == address {
            return Ok(());
        }
        let text = format!(
            "redis at {address} is the same server as at {other}; one master has one vote: name it once"
        );
        Err(Error::new(ErrorKind::Invalid, text))
    }
}

/// Where a link leads.
#[derive(Clone)]
pub(super) enum Place {
    /// To this server.
    Fixed(Address),
    /// To whichever server the sentinels call the master.
    Service(Arc<Sentinels>),
}

impl Place {
    /// The server that it leads to now.
    pub(super) async fn address(&self) -> Result<Address> {
        match self {
            Self::Fixed(address) => Ok(address.clone()),
            Self::Service(sentinels) => sentinels.master().await,
        }
    }
}

/// A connection that may be used, for one request.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) connection: MultiplexedConnection,
    pub(super) wire: Arc<Wire>,
}

/// Why there is no connection now.
pub(super) struct Trouble {
    pub(super) error: Error,
    /// How long not to try again.
    pub(super) pause: Duration,
}

/// One connection slot.
pub(super) struct Link {
    hub: Arc<Hub>,
    place: Place,
    state: Mutex<State>,
}

enum State {
    Down { failures: u32, until: Moment, error: Option<Error> },
    Dialing { failures: u32, waiters: Vec<oneshot::Sender<Result<Live>>> },
    Up(Live),
}

enum Step {
    Ready(Live),
    Wait(oneshot::Receiver<Result<Live>>),
    Pause(Trouble),
}

impl Link {
    pub(super) fn new(hub: Arc<Hub>, place: Place) -> Arc<Self> {
        let state = State::Down { failures: 0, until: Moment::from_ns(0), error: None };
        Arc::new(Self { hub, place, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, if there is one now.
    pub(super) fn now(&self) -> Option<Live> {
        match &*self.state() {
            State::Up(live) => Some(live.clone()),
            _ => None,
        }
    }

    /// Whether there is a connection, or about to be.
    pub(super) fn is_live(&self) -> bool {
        !matches!(&*self.state(), State::Down { .. })
    }

    /// Whether messages to `channel` arrive on the connection that there is now.
    pub(super) fn hears(&self, channel: &str) -> bool {
        match &*self.state() {
            State::Up(live) => live.wire.hears(channel),
            _ => false,
        }
    }

    /// The connection; if there is none, one attempt to make it, shared with everybody who asks.
    pub(super) async fn live(self: &Arc<Self>) -> Result<Live, Trouble> {
        loop {
            match self.step() {
                Step::Ready(live) => return Ok(live),
                Step::Pause(trouble) => return Err(trouble),
                Step::Wait(outcome) => match outcome.await {
                    Ok(Ok(live)) => return Ok(live),
                    Ok(Err(error)) => return Err(Trouble { error, pause: Duration::ZERO }),
                    // The attempt was given up half-way.
                    Err(_) => {}
                },
            }
        }
    }

    fn step(self: &Arc<Self>) -> Step {
        let mut state = self.state();
        let failures = match &mut *state {
            State::Up(live) => return Step::Ready(live.clone()),
            State::Down { failures, until, error } => {
                let pause = until.since(self.hub.clock.now());
                match error {
                    Some(error) if !pause.is_zero() => {
                        return Step::Pause(Trouble { error: error.clone(), pause });
                    }
                    _ => *failures,
                }
            }
            State::Dialing { waiters, .. } => {
                let (tell, outcome) = oneshot::channel();
                // Those who gave up need no telling.
                waiters.retain(|waiter| !waiter.is_closed());
                waiters.push(tell);
                return Step::Wait(outcome);
            }
        };
        let (tell, outcome) = oneshot::channel();
        let before = std::mem::replace(&mut *state, State::Dialing { failures, waiters: vec![tell] });
        drop(state);
        drop(before);
        let attempt = Attempt { link: Arc::clone(self), ended: false };
        self.hub.dialer.office().spawn(async move {
            let outcome = attempt.link.dial().await;
            attempt.end(outcome);
        });
        Step::Wait(outcome)
    }

    async fn dial(self: &Arc<Self>) -> Result<Live> {
        let address = self.place.address().await?;
        let wire = Wire::new(address.to_string().into(), &self.hub, Arc::downgrade(self));
        let tap = Tap(Arc::clone(&wire));
        let mut line =
            self.hub.dialer.open(&address, move |push| tap.hear(push), Arc::clone(wire.traffic())).await?;
        if line.role.as_deref().is_some_and(|role| role != "master") {
            if let Place::Service(sentinels) = &self.place {
                sentinels.doubt();
            }
            return Err(Error::caused(
                ErrorKind::Unavailable,
                format!(
                    "redis at {address} is a replica and takes no writes; point the url at the master, or at its sentinels"
                ),
                Marker(Cause::Replica),
            ));
        }
        if let Some(peers) = &self.hub.asked {
            let server = match within(self.hub.dialer.timeout(), pin!(line.server(&address))).await {
                Ok(server) => server?,
                Err(_) => {
                    let text = format!("redis at {address} did not say who it is in time; is it frozen?");
                    return Err(Error::new(ErrorKind::Unavailable, text));
                }
            };
            peers.meet(&server.id, wire.address())?;
            wire.set_uptime(server.uptime);
        }
        wire.keep(line.task);
        if let Place::Service(sentinels) = &self.place {
            sentinels.follow(&address, self);
        }
        Ok(Live { connection: line.connection, wire })
    }

    /// A connection of ours has ended.
    pub(super) fn lost(&self, wire: &Wire) {
        let mut state = self.state();
        if matches!(&*state, State::Up(live) if std::ptr::eq(&*live.wire, wire)) {
            let down = State::Down { failures: 0, until: Moment::from_ns(0), error: None };
            let before = std::mem::replace(&mut *state, down);
            drop(state);
            drop(before);
        }
    }

    /// Ends the connection that there is now: it leads to the wrong server.
    pub(super) fn cut(&self) {
        if let Some(live) = self.now() {
            live.wire.poison();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let state = std::mem::replace(
            self.state.get_mut().unwrap_or_else(PoisonError::into_inner),
            State::Down { failures: 0, until: Moment::from_ns(0), error: None },
        );
        if let State::Up(live) = state {
            live.wire.fall();
        }
    }
}

/// One attempt to connect. Dropped without an outcome it frees the link.
struct Attempt {
    link: Arc<Link>,
    /// It had an outcome: what the link does since is another attempt's.
    ended: bool,
}

impl Attempt {
    fn end(mut self, outcome: Result<Live>) {
        self.settle(Some(outcome));
        self.ended = true;
    }

    fn settle(&self, outcome: Option<Result<Live>>) {
        let mut state = self.link.state();
        let State::Dialing { failures, waiters } = &mut *state else { return };
        let waiters = std::mem::take(waiters);
        let failures = *failures;
        *state = match &outcome {
            // It may have ended since.
            Some(Ok(live)) if !live.wire.is_down() => State::Up(live.clone()),
            Some(Err(error)) => {
                let longest = (BACK_OFF.0 * 2u32.saturating_pow(failures.min(10))).min(BACK_OFF.1);
                let until = self.link.hub.clock.now() + longest.mul_f64(0.5 + fastrand::f64() / 2.0);
                State::Down { failures: failures + 1, until, error: Some(error.clone()) }
            }
            _ => State::Down { failures, until: Moment::from_ns(0), error: None },
        };
        drop(state);
        if let Some(outcome) = outcome {
            for waiter in waiters {
                let _ = waiter.send(outcome.clone());
            }
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.ended {
            self.settle(None);
        }
    }
}
