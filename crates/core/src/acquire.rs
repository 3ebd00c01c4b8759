//! The one loop that every face acquires through.

use std::{sync::Arc, time::Duration};

use tracing::{Instrument, debug, debug_span, trace};

use crate::{
    Error, ErrorKind, Exit, Fence, Leasing, Moment, Order as ServiceOrder, Result, Standing, Wait, Wake,
    Woken,
    core::{Core, Flight, Handle, Want},
    gate::{Busy, Pass, Turn},
    hold::Hold,
    keeper::{Due, Order},
    parting::settle,
    seat::{Phase, Seat},
    trouble::{Trouble, busy, timeout},
};

/// How long a caller is willing to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Not at all.
    Try,
    /// Until then.
    Until(Moment),
    /// As long as it takes.
    Forever,
}

impl Patience {
    fn deadline(self) -> Moment {
        match self {
            Self::Until(at) => at,
            Self::Try | Self::Forever => Moment::NEVER,
        }
    }
}

/// How often a store is asked that does not take part yet.
const HINDRANCE: Duration = Duration::from_secs(1);

/// How often a session is opened again that the store keeps dropping, without an answer of another kind in between.
const REOPENINGS: u32 = 3;

/// Acquires. `None` only for [`Patience::Try`]: it is busy.
///
/// # Cancel safety
/// Dropping the future at any point hands what is in flight to the keeper, which finishes it and withdraws the claim.
pub(crate) async fn acquire(handle: &Arc<Handle>, want: &Want, patience: Patience) -> Result<Option<Hold>> {
    let span = debug_span!("acquire", name = %want.name, ?patience);
    walk(handle, want, patience).instrument(span).await
}

/// Acquires if that can be done at once, else it is a timeout: a wait of no length is a try.
pub(crate) async fn acquire_now(handle: &Arc<Handle>, want: &Want) -> Result<Hold> {
    acquire(handle, want, Patience::Try).await?.ok_or_else(|| busy(&handle.core, want))
}

async fn walk(handle: &Arc<Handle>, want: &Want, patience: Patience) -> Result<Option<Hold>> {
    let core = &handle.core;
    want.check()?;
    let started = core.clock.now();
    let Some(pass) = pass_gate(core, want, patience).await? else { return Ok(None) };
    let wait = match (patience, core.profile.order) {
        (Patience::Try, _) => Wait::No,
        (_, ServiceOrder::Fifo) => Wait::Line,
        (_, ServiceOrder::Unordered) => Wait::Watch,
    };
    let mut attempt = Attempt {
        handle: handle.clone(),
        seat: None,
        flight: Flight::Landed,
        sent: false,
        asks: false,
        doubt: false,
    };
    let (mut trouble, mut reopened) = (Trouble::none(), 0);
    let mut seat = attempt.sit(want, wait, pass);
    let mut first = Some(started).filter(|_| core.profile.seats.is_many(want.capacity));
    let mut turn = None;
    loop {
        if core.is_closed() {
            return Err(core.closed_error());
        }
        if wait == Wait::Watch && want.is_exclusive() && turn.is_none() {
            turn = core.turns.try_turn(&want.name);
            if turn.is_none() {
                first = None;
                turn = await_turn(core, &seat, want, patience, started).await?;
                continue;
            }
        }
        // What is on its way out when a try is sent may refuse it, and be gone when it is answered.
        let is_departing = patience == Patience::Try && core.departures.has(&want.name);
        // Reading the clock is a good part of what a lock in memory costs: never twice for one moment.
        let sent = first.take().unwrap_or_else(|| core.clock.now());
        let Some(answer) = attempt.ask(&seat, patience.deadline()).await else {
            let pending = core.engine.pending(seat.id);
            return Err(pending.unwrap_or_else(|| trouble.or_silence(core, want, started, sent)));
        };
        // While the answer was on its way: what it brought is withdrawn with the attempt.
        if core.is_closed() {
            return Err(core.closed_error());
        }
        let is_answered = match &answer {
            Ok(_) => true,
            // Refused, but by a store that is there. One that has dropped the session may be about to fail the next call.
            Err(error) => !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Lost),
        };
        if is_answered {
            trouble = Trouble::none();
            core.end_outage();
        }
        match answer {
            Ok(Standing::Held { fence, left }) => {
                let lease = left.or(want.lease);
                let (until, now) = (core.good_until(sent, lease), core.clock.now());
                let is_held = match lease {
                    Some(_) if core.profile.lease == Leasing::Kept => {
                        seat.hold_leased(core.good_until(sent, None), until, now)
                    }
                    _ => seat.hold_until(until, now),
                };
                if is_held {
                    let ends = lease.map(|lease| (until, sent + lease));
                    return Ok(Some(attempt.granted(&seat, want, fence, ends, (started, now))));
                }
                // The answer took as long as the hold lasts: ask again, which moves the store's expiry, unless the
                // claim was given up meanwhile.
                attempt.doubt = true;
                if seat.phase() >= Phase::Lost {
                    seat = attempt.sit_anew(&seat, want, wait);
                }
            }
            Ok(Standing::Queued { wake, sleep, ahead }) => {
                reopened = 0;
                trace!(ahead, "waiting");
                if wait == Wait::Line {
                    seat.wait_until(core.place_until(sent));
                    core.arm_places();
                }
                match rest(core, &seat, wake, sleep, patience.deadline()).await {
                    // A push to an id that may have been entered twice may be about the first time: that is asked about.
                    Rested::Granted(fence) if want.lease.is_none() && !attempt.doubt => {
                        let now = core.clock.now();
                        if seat.hold_pushed(now) {
                            return Ok(Some(attempt.granted(&seat, want, fence, None, (started, now))));
                        }
                        if seat.phase() >= Phase::Lost {
                            seat = attempt.sit_anew(&seat, want, wait);
                        }
                    }
                    // A lease starts with our own confirmation, so a pushed grant of one is asked about, too.
                    Rested::Granted(_) | Rested::Ask if wait == Wait::Line => {}
                    Rested::Granted(_) | Rested::Ask | Rested::Gone => {
                        seat = attempt.sit_anew(&seat, want, wait)
                    }
                    Rested::TimedOut => return Err(trouble.or_timeout(core, want, started)),
                }
            }
            Ok(Standing::Refused) if is_departing || core.departures.has(&want.name) => {
                // Perhaps by a claim of our own that is as good as gone. It is waited for, and not for ever.
                let until = started + core.pace() / 3;
                tokio::select! {
                    biased;
                    () = core.departures.done(&want.name) => {}
                    () = core.clock.sleep_until(until) => {}
                }
                if core.clock.now() >= until {
                    attempt.forget_unless_in_doubt();
                    return Ok(None);
                }
                seat = attempt.sit_anew(&seat, want, wait);
            }
            Ok(Standing::Refused) => {
                attempt.forget_unless_in_doubt();
                return Ok(None);
            }
            Ok(Standing::Gone) => seat = attempt.sit_anew(&seat, want, wait),
            Err(error) if error.kind() == ErrorKind::Lost && reopened < REOPENINGS => {
                debug!(%error, "the store has dropped the session; opening it again");
                let opened = tokio::select! {
                    biased;
                    opened = core.reopen() => opened,
                    () = core.clock.sleep_until(patience.deadline()) => {
                        return Err(trouble.or(error));
                    }
                };
                match opened {
                    Ok(()) => reopened += 1,
                    Err(error) if error.kind() == ErrorKind::Unavailable => {
                        endure(core, &mut trouble, &seat, error, patience).await?;
                    }
                    Err(error) => return Err(error),
                }
                seat = attempt.sit_anew(&seat, want, wait);
            }
            Err(error) if error.kind() == ErrorKind::Unavailable && error.retry_after().is_some() => {
                if patience == Patience::Try {
                    return Err(error);
                }
                debug!(%error, "the store does not take part yet");
                // Perhaps sooner than it thinks: it may be made of several.
                let after = error.retry_after().unwrap_or_default().min(HINDRANCE);
                core.hinder(error.clone(), after * 2);
                trouble = Trouble::of(error);
                match rest(core, &seat, Wake::never(), after, patience.deadline()).await {
                    Rested::TimedOut => return Err(trouble.or_timeout(core, want, started)),
                    _ => seat = attempt.sit_anew(&seat, want, wait),
                }
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                core.turns.stir(&want.name);
                if !error.had_no_effect() {
                    attempt.doubt = true;
                    seat.doubt(core.clock.now() + core.pace());
                    core.doubt();
                }
                if let Rested::Gone = endure(core, &mut trouble, &seat, error, patience).await? {
                    seat = attempt.sit_anew(&seat, want, wait);
                }
            }
            Err(error) => {
                attempt.refused(&seat, error.kind());
                return Err(error);
            }
        }
    }
}

/// The local queue where a session has one seat a name. `None` is busy.
async fn pass_gate(core: &Core, want: &Want, patience: Patience) -> Result<Option<Option<Pass>>> {
    if core.profile.seats.is_many(want.capacity) {
        return Ok(Some(None));
    }
    if patience == Patience::Try {
        return match core.gate.try_pass(&want.name) {
            Ok(pass) => Ok(Some(Some(pass))),
            Err(Busy::Taken) => Ok(None),
            // It is as good as free: the store is being told. Who only tries is not to mistake that for somebody else's hold.
            Err(Busy::Leaving) => {
                let until = core.clock.now() + core.pace() / 3;
                tokio::select! {
                    biased;
                    pass = core.gate.pass(&want.name) => pass.map(|pass| Some(Some(pass))).ok_or_else(|| core.closed_error()),
                    () = core.clock.sleep_until(until) => Ok(None),
                }
            }
        };
    }
    let started = core.clock.now();
    tokio::select! {
        biased;
        pass = core.gate.pass(&want.name) => pass.map(|pass| Some(Some(pass))).ok_or_else(|| core.closed_error()),
        () = core.clock.sleep_until(patience.deadline()) => Err(timeout(core, want, started)),
    }
}

/// Where whoever asks at the right moment is served, those of one session ask one after another: together they would take the
/// chance from each other. It is no more than good manners: when the store does not answer, all of them find out.
async fn await_turn(
    core: &Core,
    seat: &Seat,
    want: &Want,
    patience: Patience,
    started: Moment,
) -> Result<Option<Turn>> {
    tokio::select! {
        biased;
        turn = core.turns.turn(&want.name) => Ok(Some(turn)),
        () = seat.ended() => Ok(None),
        () = core.clock.sleep_until(patience.deadline()) => Err(timeout(core, want, started)),
    }
}

/// A pause after a store did not answer; the error itself when the caller's time is up, or it does not want to wait.
async fn endure(
    core: &Core,
    trouble: &mut Trouble,
    seat: &Seat,
    error: Error,
    patience: Patience,
) -> Result<Rested> {
    if patience == Patience::Try {
        return Err(error);
    }
    let pause = trouble.note(core, error.clone());
    match rest(core, seat, Wake::never(), pause, patience.deadline()).await {
        Rested::TimedOut => Err(error),
        rested => Ok(rested),
    }
}

enum Rested {
    Granted(Option<Fence>),
    Ask,
    Gone,
    TimedOut,
}

/// Waits for whatever comes first: the wake, the claim's end, the caller's deadline, or the longest sleep.
async fn rest(core: &Core, seat: &Seat, wake: Wake, sleep: Duration, deadline: Moment) -> Rested {
    let (until, timed_out) = match deadline {
        Moment::NEVER => (None, false),
        deadline => {
            let longest = core.clock.now() + sleep;
            (Some(deadline.min(longest)), deadline <= longest)
        }
    };
    let sleeping = async {
        match until {
            Some(until) => core.clock.sleep_until(until).await,
            None => core.clock.nap(sleep).await,
        }
    };
    tokio::select! {
        biased;
        woken = wake => match woken {
            Woken::Held(fence) => Rested::Granted(fence),
            Woken::Ask => Rested::Ask,
        },
        () = seat.ended() => Rested::Gone,
        () = sleeping => if timed_out { Rested::TimedOut } else { Rested::Ask },
    }
}

/// One caller's way through the loop: whatever happens to it, what it left in the store is withdrawn.
struct Attempt {
    handle: Arc<Handle>,
    seat: Option<Arc<Seat>>,
    flight: Flight,
    /// Whether anything of this seat's was ever on its way to the store.
    sent: bool,
    /// Whether what was sent last is a question, which never enters.
    asks: bool,
    doubt: bool,
}

impl Attempt {
    fn sit(&mut self, want: &Want, wait: Wait, pass: Option<Pass>) -> Arc<Seat> {
        let seat = self.handle.core.sit(want, wait, pass);
        self.seat = Some(seat.clone());
        self.sent = false;
        seat
    }

    /// Enters anew under a new id: the old one is never used again. Its seat is given up after the new one is taken, for a
    /// session that is closing waits until there is none.
    fn sit_anew(&mut self, old: &Arc<Seat>, want: &Want, wait: Wait) -> Arc<Seat> {
        let doubt = std::mem::take(&mut self.doubt);
        let seat = self.sit(want, wait, old.take_pass());
        let core = &self.handle.core;
        if doubt || core.is_closed() {
            core.depart(old.clone(), Flight::Landed, doubt);
        } else {
            core.forget(old);
        }
        seat
    }

    /// Sends the claim, or the question about it, and waits for the answer. `None`: the caller's time is up.
    async fn ask(&mut self, seat: &Seat, deadline: Moment) -> Option<Result<Standing>> {
        let core = &self.handle.core;
        self.asks = seat.phase() != Phase::Entering;
        let claim = if self.asks { seat.question() } else { seat.claim() };
        self.sent = true;
        self.flight = match core.engine.claim(claim).into_now() {
            Ok(answer) => return Some(answer),
            Err(reply) => Flight::Claim(reply),
        };
        let Flight::Claim(reply) = &mut self.flight else { return None };
        let answer = tokio::select! {
            biased;
            answer = reply => answer,
            () = core.clock.sleep_until(deadline) => return None,
        };
        self.flight = Flight::Landed;
        Some(answer)
    }

    /// It is ours: the seat goes on in a hold. `ends`: when a fixed lease is to be taken for lost, and when it is over.
    fn granted(
        &mut self,
        seat: &Arc<Seat>,
        want: &Want,
        fence: Option<Fence>,
        ends: Option<(Moment, Moment)>,
        (started, now): (Moment, Moment),
    ) -> Hold {
        self.seat = None;
        let core = &self.handle.core;
        debug!(claim = ?seat.id, ?fence, waited = ?now.since(started), "held");
        let time = |at: Moment, what: Due| {
            let (seat, core) = (Arc::downgrade(seat), Arc::downgrade(core));
            self.handle.core.keeper.send(Order::Time { at, seat, core, what });
        };
        if let Some((lost, over)) = ends {
            time(lost, Due::Lose);
            time(over, Due::Leave);
        }
        if let Some(max_hold) = want.max_hold {
            seat.limit(now + max_hold);
            time(now + max_hold, Due::Lose);
            time(now + max_hold + crate::core::drift(core.pace()), Due::Leave);
        }
        Hold::new(self.handle.clone(), seat.clone(), fence, now)
    }

    /// The store refused it, for good. What it judges before it writes has left nothing there, unless an earlier message is still in
    /// doubt, or this was a question about what stands in line. Any other refusal may have come half-way.
    fn refused(&mut self, seat: &Seat, kind: ErrorKind) {
        let is_unwritten = match kind {
            ErrorKind::Invalid | ErrorKind::Unsupported | ErrorKind::Conflict | ErrorKind::Lost => true,
            ErrorKind::Timeout | ErrorKind::Unavailable | ErrorKind::Denied | ErrorKind::Corrupt => false,
        };
        if seat.phase() != Phase::Entering {
            return;
        }
        if is_unwritten {
            self.forget_unless_in_doubt();
        } else {
            self.flight = Flight::Refused;
        }
    }

    fn forget_unless_in_doubt(&mut self) {
        if !self.doubt {
            self.forget();
        }
    }

    fn forget(&mut self) {
        if let Some(seat) = self.seat.take() {
            self.handle.core.forget(&seat);
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.sent && !self.doubt {
            return self.forget();
        }
        if let Some(seat) = self.seat.take() {
            let core = &self.handle.core;
            let flight = match std::mem::replace(&mut self.flight, Flight::Landed) {
                // The place is given back at once, and not when the answer is there: the next one may be waiting for it.
                Flight::Claim(question) if self.asks => {
                    let (engine, claim) = (core.engine.clone(), seat.claim());
                    core.keeper.send(Order::Finish(Box::pin(async move {
                        // An engine that has noted where the claim stands is to forget that again.
                        if matches!(
                            settle(question).await,
                            Ok(Standing::Queued { .. } | Standing::Held { .. })
                        ) {
                            drop(settle(engine.withdraw(claim, Exit::Own)).await);
                        }
                    })));
                    Flight::Landed
                }
                flight => flight,
            };
            core.depart(seat, flight, self.doubt);
        }
    }
}
