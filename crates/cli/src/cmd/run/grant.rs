//! Getting the lock, with a store that may be down.

use std::time::Duration;

use bramah::{Clock, Guards, Keep, Moment, Session};

use crate::{
    args::IfDown,
    cmd,
    exit::{Exit, Failure},
    plan::{Patience, Run, Talk},
    say::say,
    signals::Signals,
    store::Store,
    take,
};

/// How long to wait for a store that is down before it is asked again, at first and at the most.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

/// The lock, or the leave to go on without it.
pub(crate) enum Grant {
    Held(Session, Guards),
    /// The store is down, and the command is to run all the same.
    Unlocked,
}

impl Grant {
    /// `None` is busy, and that has been said.
    pub(crate) async fn get(
        plan: &Run,
        store: &Store,
        signals: &mut Signals,
    ) -> Result<Option<Self>, Failure> {
        let clock = Clock::boot();
        let until = match plan.patience {
            Patience::None => clock.now(),
            Patience::For(wait) => clock.now() + wait,
            Patience::Forever => Moment::NEVER,
        };
        let [mut pause, longest] = PAUSES;
        let mut told = false;
        loop {
            let failure = match attempt(plan, store, until, signals).await {
                Err(failure) if failure.exit == Exit::Unreachable => failure,
                done => return done,
            };
            match plan.if_down {
                IfDown::Fail => return Err(failure),
                IfDown::Run => {
                    failure.tell();
                    say(&format!(
                        "running WITHOUT the lock {}, as --if-down run says: others may run at the same time",
                        plan.want.title()
                    ));
                    return Ok(Some(Self::Unlocked));
                }
                IfDown::Wait if clock.now() >= until => return Err(failure),
                IfDown::Wait => {
                    if !std::mem::replace(&mut told, true) {
                        failure.tell();
                        say("trying again until the store answers, as --if-down wait says");
                    }
                    let nap = async {
                        clock.sleep_until((clock.now() + pause).min(until)).await;
                        Ok(())
                    };
                    signals.unless_told(nap).await?;
                    pause = (pause * 2).min(longest);
                }
            }
        }
    }
}

async fn attempt(
    plan: &Run,
    store: &Store,
    until: Moment,
    signals: &mut Signals,
) -> Result<Option<Grant>, Failure> {
    let session = signals.unless_told(take::open(store, &plan.want, Keep::Process)).await?;
    let got = signals.unless_told(acquire(&session, plan, until)).await;
    match got {
        Ok(Some(guards)) => Ok(Some(Grant::Held(session, guards))),
        got => {
            // A place in line goes with the session, also when a signal ends us. A second signal does not wait for that.
            let closing = async {
                if matches!(got, Ok(None)) && plan.talk > Talk::Little && plan.busy_code != 0 {
                    take::tell_busy(&session, &plan.want).await;
                }
                cmd::close(&session).await;
                Ok(())
            };
            let _ = signals.unless_told(closing).await;
            got.map(|_| None)
        }
    }
}

async fn acquire(session: &Session, plan: &Run, until: Moment) -> Result<Option<Guards>, Failure> {
    take::refuse_own(session, &plan.want.names, &plan.inside).await?;
    let patience = match plan.patience {
        Patience::For(_) => Patience::For(until.since(Clock::boot().now())),
        patience => patience,
    };
    take::take(session, &plan.want, patience, plan.talk).await
}
