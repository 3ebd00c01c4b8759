//! The one other actor: it renews what is held and what waits, declares losses, and finishes what callers left.
//!
//! The keeper is a future. In production it runs on a thread of its own with a runtime of its own, so a blocked or
//! starved executor cannot stop it; in seeded worlds it runs on the paused runtime beside everything else.
//!
//! Nothing it does waits for anything else it does: renewals and withdrawals are jobs, losses are timers, and a store
//! that hangs holds up neither.

mod round;
mod timers;

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::io::Errno;
use tokio::{runtime::Runtime, sync::mpsc, task::JoinSet};
use tracing::{debug, warn};

use crate::{
    Alarm, ClaimId, Clock, Error, ErrorKind, Exit, Liveness, Moment, Renewal, Result, SessionId,
    alarm::News,
    core::{Core, Ending, Flight},
    ends::Gone,
    parting::{Parting, part, settle, within},
    seat::{Phase, Seat},
};

use round::{Asked, Kept};
pub(crate) use timers::Due;
use timers::Timers;

/// How many renewals of one session may be unanswered at a time.
const FLIGHTS: usize = 3;

/// How often places in line are renewed that are kept for less long than holds.
const PLACES: Duration = Duration::from_millis(5_000 / 3);

/// Keeps sessions: one keeper serves any number of them.
#[derive(Clone)]
pub struct Keeper(Arc<Link>);

struct Link {
    orders: mpsc::UnboundedSender<Order>,
    clock: Clock,
    own_thread: bool,
    /// How long the last whole renewal round took, for whoever measures it.
    last_round_ns: Arc<AtomicU64>,
}

impl Keeper {
    /// A keeper on a thread of its own, on the machine's clock.
    ///
    /// # Errors
    /// `Unavailable` when the thread or its runtime cannot be made.
    pub fn spawn() -> Result<Self> {
        let failed = |error| no_thread("the keeper's thread cannot start", error);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (keeper, driver) = Self::on(Clock::boot(), true);
        // Shared, because a runtime that is dropped where this is called from panics if that is one itself.
        let runtime = Arc::new(Mutex::new(Some(runtime)));
        let take =
            |runtime: &Mutex<Option<Runtime>>| runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        let theirs = runtime.clone();
        let thread = std::thread::Builder::new().name("bramah-keeper".into()).spawn(move || {
            if let Some(runtime) = take(&theirs) {
                runtime.block_on(driver);
            }
        });
        match thread {
            Ok(_) => Ok(keeper),
            Err(error) => {
                if let Some(runtime) = take(&runtime) {
                    runtime.shutdown_background();
                }
                Err(failed(error))
            }
        }
    }

    /// A keeper and the future that drives it, for a runtime that you drive: seeded tests. It ends when the last
    /// handle of the keeper and of its sessions is gone.
    pub fn driven(clock: Clock) -> (Self, impl Future<Output = ()> + Send + 'static) {
        Self::on(clock, false)
    }

    fn on(clock: Clock, own_thread: bool) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (orders, inbox) = mpsc::unbounded_channel();
        let last_round_ns = Arc::<AtomicU64>::default();
        let shift = Shift {
            clock: clock.clone(),
            kept: BTreeMap::new(),
            timers: Timers::default(),
            jobs: JoinSet::new(),
            last_round_ns: last_round_ns.clone(),
        };
        (Self(Arc::new(Link { orders, clock, own_thread, last_round_ns })), shift.work(inbox))
    }

    /// What an engine rings. It does not keep the keeper alive.
    pub(crate) fn alarm(&self) -> Alarm {
        let link = Arc::downgrade(&self.0);
        Alarm::new(move |id, news| {
            if let Some(link) = link.upgrade() {
                Self(link).send(match news {
                    News::Look => Order::Look(id),
                    News::Asked => Order::Ask(id),
                });
            }
        })
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// How long the last renewal round took from its start to its last answer.
    pub fn last_round(&self) -> Duration {
        Duration::from_nanos(self.0.last_round_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn is_own_thread(&self) -> bool {
        self.0.own_thread
    }

    /// A keeper that is gone (its runtime was shut down) takes no orders: then claims end with their ttl.
    pub(crate) fn send(&self, order: Order) {
        let _ = self.0.orders.send(order);
    }
}

/// The error for a thread or its runtime that cannot be made, with what to do about it.
pub(crate) fn no_thread(what: &str, error: std::io::Error) -> Error {
    let hint = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => {
            "; this process has too many open files: raise ulimit -n, or share one keeper between sessions"
        }
        Some(Errno::NFILE) => "; the system has too many open files: raise fs.file-max",
        Some(Errno::AGAIN) => {
            "; there are too many threads: raise ulimit -u, or share one keeper between sessions"
        }
        _ => "",
    };
    Error::caused(ErrorKind::Unavailable, format!("{what}: {error}{hint}"), error)
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keeper")
    }
}

/// What the keeper is told.
pub(crate) enum Order {
    /// A session was opened.
    Attend(Arc<Core>),
    /// It has something to renew.
    Arm(SessionId),
    /// It has a place in line to renew.
    ArmPlaces(SessionId),
    /// The store may have lost a claim: it is asked about now.
    Look(ClaimId),
    /// Its holder is asked to let go.
    Ask(ClaimId),
    /// A claim is to leave.
    Part(Parting),
    /// A call whose caller has gone away.
    Finish(Pin<Box<dyn Future<Output = ()> + Send>>),
    /// At `at`, do `what` to a hold.
    Time { at: Moment, seat: Weak<Seat>, core: Weak<Core>, what: Due },
    /// Withdraw everything, then forget the session, then tell.
    Close(Arc<Core>, Arc<Gone>),
    /// The session is closed already.
    Forget(SessionId),
}

struct Shift {
    clock: Clock,
    /// By id: rounds start in the same order in every run of a seed.
    kept: BTreeMap<SessionId, Kept>,
    timers: Timers,
    jobs: JoinSet<Done>,
    last_round_ns: Arc<AtomicU64>,
}

enum Done {
    Renewed { session: SessionId, sent: Moment, asked: Vec<Asked>, answer: Result<Renewal> },
    Other,
}

impl Shift {
    async fn work(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let clock = self.clock.clone();
        let mut open = true;
        while open || !self.jobs.is_empty() {
            let (deadline, round) = self.next_due();
            let due = async {
                if deadline == Moment::NEVER && round != Moment::NEVER {
                    // Where no claim expires by time a round may be late after a suspend: fewer wake-ups.
                    clock.nap(round.since(clock.now())).await;
                } else {
                    clock.sleep_until(deadline.min(round)).await;
                }
            };
            tokio::select! {
                biased;
                // First, so that a deadline that passed while the machine or the process stood still is noticed
                // before anything is renewed.
                () = due => {}
                order = orders.recv(), if open => match order {
                    Some(order) => self.obey(order),
                    None => open = false,
                },
                Some(done) = self.jobs.join_next() => {
                    if let Ok(Done::Renewed { session, sent, asked, answer }) = done {
                        self.renewed(session, sent, asked, answer);
                    }
                }
            }
            self.attend();
        }
    }

    /// The next moment that must not be missed, and the next renewal that may be late.
    fn next_due(&self) -> (Moment, Moment) {
        let (mut deadline, mut round) = (self.timers.next(), Moment::NEVER);
        for kept in self.kept.values() {
            if kept.core.ttl() == Duration::MAX {
                round = round.min(kept.next_round);
            } else {
                deadline = deadline.min(kept.next_lapse).min(kept.next_round).min(kept.next_places);
            }
        }
        (deadline, round)
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Attend(core) => {
                // A store that expires sessions has to hear of one that holds nothing, too.
                let idle = core.profile.liveness == Liveness::Lease;
                let next_round = if idle { Moment::NEVER } else { self.clock.now() + core.pace() / 3 };
                let (next_places, next_lapse) = (Moment::NEVER, Moment::NEVER);
                let kept = Kept { next_round, next_places, next_lapse, flights: Vec::new(), core };
                self.kept.insert(kept.core.id(), kept);
            }
            Order::Arm(session) => {
                if let Some(kept) = self.kept.get_mut(&session) {
                    kept.next_round = kept.next_round.min(self.clock.now() + kept.core.pace() / 3);
                }
            }
            Order::ArmPlaces(session) => {
                if let Some(kept) = self.kept.get_mut(&session) {
                    kept.next_places = kept.next_places.min(self.clock.now() + PLACES);
                }
            }
            Order::Look(id) => {
                let now = self.clock.now();
                let Self { kept, jobs, .. } = self;
                if let Some(kept) = kept.get_mut(&id.session) {
                    kept.look(now, id, jobs);
                }
            }
            Order::Ask(id) => {
                let seat = self.kept.get(&id.session).and_then(|kept| kept.seat(id));
                if let Some(seat) = seat {
                    seat.ask();
                }
            }
            Order::Part(parting) => {
                self.part(parting);
            }
            Order::Finish(call) => {
                self.jobs.spawn(async move {
                    call.await;
                    Done::Other
                });
            }
            Order::Time { at, seat, core, what } => {
                self.timers.push(at, seat, core, what);
            }
            Order::Close(core, gone) => {
                self.kept.remove(&core.id());
                let seats: Vec<_> = core.seats().iter().map(|(_, seat)| seat.clone()).collect();
                // Those that are leaving already have a job; the caller of one that is entering hands it over itself.
                for seat in seats {
                    if seat.lose_any() {
                        let parting =
                            Parting { core: core.clone(), seat, flight: Flight::Landed, doubt: false };
                        self.part(parting);
                    }
                }
                self.jobs.spawn(close(core, gone));
            }
            Order::Forget(session) => {
                self.kept.remove(&session);
            }
        }
    }

    fn part(&mut self, parting: Parting) {
        self.jobs.spawn(async {
            part(parting).await;
            Done::Other
        });
    }

    /// Does whatever is due: losses first, so that nothing that has run out is renewed.
    fn attend(&mut self) {
        let now = self.clock.now();
        while let Some((seat, core, what)) = self.timers.due(now) {
            if seat.phase() == Phase::Held && seat.lose() {
                warn!(claim = ?seat.id, "the time of a hold is up: lost");
                core.note_departure(&seat);
            }
            if what == Due::Leave && seat.phase() == Phase::Lost {
                self.part(Parting { core, seat, flight: Flight::Landed, doubt: false });
            }
        }
        let Self { kept, jobs, .. } = self;
        for kept in kept.values_mut() {
            if kept.next_lapse.min(kept.next_round).min(kept.next_places) <= now {
                kept.attend(now, jobs);
            }
        }
    }

    fn renewed(&mut self, session: SessionId, sent: Moment, asked: Vec<Asked>, answer: Result<Renewal>) {
        let now = self.clock.now();
        let Some(kept) = self.kept.get_mut(&session) else { return };
        kept.flights.retain(|flight| *flight != sent);
        let renewal = match answer {
            Ok(renewal) => renewal,
            Err(error) => {
                debug!(%error, "a renewal failed; it is tried again until the deadline");
                kept.retry_soon(now);
                return;
            }
        };
        self.last_round_ns
            .store(u64::try_from(now.since(sent).as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let gone: HashSet<_> = renewal.gone.into_iter().collect();
        let unknown: HashSet<_> = renewal.unknown.into_iter().collect();
        let waiting: HashSet<_> = renewal.waiting.into_iter().collect();
        let (until, place_until) = (kept.core.good_until(sent, None), kept.core.place_until(sent));
        for Asked { seat, phase, call } in asked {
            if !gone.is_empty() && gone.contains(&seat.id) {
                if seat.lose_gone() {
                    warn!(claim = ?seat.id, "the store does not have a claim any more: lost");
                }
            } else if phase == Phase::Held && waiting.contains(&seat.id) {
                if seat.lose() {
                    warn!(claim = ?seat.id, "the store has a claim that was held in line again: lost");
                    kept.core.end_hold(&seat, Ending::NotHeld);
                }
            } else if unknown.is_empty() || !unknown.contains(&seat.id) {
                call.answered();
                if phase == Phase::Held {
                    seat.prove();
                }
                let until = if phase == Phase::Held { until } else { place_until };
                if seat.confirm(until, now) {
                    kept.core.end_hold(&seat, Ending::RanOut);
                }
            }
        }
        if !renewal.asked.is_empty() {
            let asked: HashSet<_> = renewal.asked.into_iter().collect();
            let seats = kept.core.seats();
            seats.iter().filter(|(_, seat)| asked.contains(&seat.id)).for_each(|(_, seat)| seat.ask());
        }
        if !unknown.is_empty() {
            kept.retry_soon(now);
        }
        let strays = kept.core.strays(renewal.stray);
        for claim in strays {
            debug!(claim = ?claim.id, "a claim that nobody waits for is withdrawn");
            let reply = kept.core.engine.withdraw(claim, Exit::Own);
            self.jobs.spawn(async move {
                // If it fails, the next renewal lists it again.
                let _ = settle(reply).await;
                Done::Other
            });
        }
    }
}

async fn close(core: Arc<Core>, gone: Arc<Gone>) -> Done {
    while !core.seats().is_empty() {
        gone.emptied.notified().await;
    }
    let until = core.clock.now() + core.pace();
    if let Err(error) = within(&core.clock, until, settle(core.engine.close(core.id()))).await {
        debug!(%error, "a session could not be closed; the store drops it by itself");
    }
    gone.tell();
    Done::Other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_cannot_start_for_want_of_files_says_what_to_do() {
        let of =
            |errno: Errno| no_thread("no thread", std::io::Error::from_raw_os_error(errno.raw_os_error()));
        assert!(of(Errno::MFILE).to_string().contains("raise ulimit -n"), "{}", of(Errno::MFILE));
        assert!(of(Errno::AGAIN).to_string().contains("raise ulimit -u"), "{}", of(Errno::AGAIN));
        assert!(!of(Errno::NOMEM).to_string().contains("raise"), "{}", of(Errno::NOMEM));
    }
}
