//! The way out: what callers left is finished, and their claims are withdrawn until that is certain.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tracing::warn;

use crate::{
    Clock, Error, ErrorKind, Exit, Moment, Reply, Result,
    core::{Core, Flight, Refusal},
    seat::Seat,
};

/// A claim on its way out.
pub(crate) struct Parting {
    pub(crate) core: Arc<Core>,
    pub(crate) seat: Arc<Seat>,
    pub(crate) flight: Flight,
    /// Whether the store may have it although we were not told.
    pub(crate) doubt: bool,
}

/// Finishes what is in flight, then withdraws, again and again until it is certain or the claim has expired.
pub(crate) async fn part(parting: Parting) {
    let Parting { core, seat, flight, mut doubt } = parting;
    seat.leave();
    let clock = &core.clock;
    let until = clock.now() + core.pace();
    // A store that refuses to let a claim in half-way may refuse its withdrawal for the same reason.
    let may_refuse = Refusal::of(&flight) == Refusal::HalfWay;
    let landed = match flight {
        Flight::Landed | Flight::Refused => false,
        Flight::Claim(reply) => {
            let answer = within(clock, until, settle(reply)).await;
            doubt |= answer.is_err_and(|error| !error.had_no_effect());
            false
        }
        Flight::Withdraw(reply, _) => within(clock, until, settle(reply)).await.is_ok(),
    };
    if doubt {
        core.doubt();
    }
    let mut pause = (core.pace() / 100).max(Duration::from_millis(5));
    let mut out = landed;
    // An answer that never came may stand for a claim that is still on its way: it is withdrawn until its time is up.
    while !out || doubt {
        let left = within(clock, until, settle(core.engine.withdraw(seat.claim(), Exit::Own))).await;
        out |= left.is_ok();
        if out {
            // What may come late has its own id, and is withdrawn by it: it does not keep the next from entering.
            seat.give_back_pass();
            core.forget_departure(&seat);
        }
        if may_refuse && left.is_err_and(|error| !error.kind().is_transient()) {
            break;
        }
        if (out && !doubt) || clock.now() >= until {
            break;
        }
        clock.sleep_until((clock.now() + jittered(pause)).min(until)).await;
        pause = (pause * 2).min(core.pace() / 4);
    }
    if !out {
        warn!(claim = ?seat.id, "a claim could not be withdrawn; it ends with its ttl");
        core.doubt();
    }
    core.forget(&seat);
}

/// Waits for an answer until `until`, then takes it as doubt.
pub(crate) async fn within<T>(
    clock: &Clock,
    until: Moment,
    answer: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::select! {
        biased;
        answer = answer => answer,
        () = clock.sleep_until(until) => Err(Error::new(ErrorKind::Unavailable, "the store did not answer in time")),
    }
}

/// An engine's answer. A panic in it (a future of a runtime that has ended) is doubt, not the end of the keeper.
pub(crate) async fn settle<T>(mut reply: Reply<T>) -> Result<T> {
    poll_fn(move |cx| {
        catch_unwind(AssertUnwindSafe(|| Pin::new(&mut reply).poll(cx))).unwrap_or_else(|_| {
            Poll::Ready(Err(Error::new(ErrorKind::Unavailable, "the engine stopped in the middle of a call")))
        })
    })
    .await
}

/// Half of `pause` to all of it, so that processes do not move in step.
pub(crate) fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + fastrand::f64() / 2.0)
}
