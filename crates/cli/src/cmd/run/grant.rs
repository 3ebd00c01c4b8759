//! Getting the lock, with a store that may be down.

use bramah::{Guards, Keep, Session};

use crate::{
    args::IfDown,
    cmd,
    exit::{Exit, Failure},
    plan::{Run, Talk},
    say::say,
    signals::Signals,
    store::Store,
    take,
    wait::Wait,
};

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
        let wait = Wait::new(plan.patience, plan.if_down);
        match attempt(plan, store, &wait, signals).await {
            Err(failure) if failure.exit == Exit::Unreachable && plan.if_down == IfDown::Run => {
                failure.tell();
                say(&format!(
                    "running WITHOUT the lock {}, as --if-down run says: others may run at the same time",
                    plan.want.title()
                ));
                Ok(Some(Self::Unlocked))
            }
            done => done,
        }
    }
}

async fn attempt(
    plan: &Run,
    store: &Store,
    wait: &Wait,
    signals: &mut Signals,
) -> Result<Option<Grant>, Failure> {
    let session = signals.unless_told(take::open(store, &plan.want, Keep::Process, wait, plan.talk)).await?;
    let taking = async {
        take::refuse_own(&session, &plan.want, &plan.inside, store, wait, plan.talk).await?;
        take::take(&session, &plan.want, wait, plan.talk).await
    };
    let failure = match signals.unless_told(taking).await {
        Ok(Some(guards)) => return Ok(Some(Grant::Held(session, guards))),
        Ok(None) => None,
        Err(failure) => Some(failure),
    };
    // A place in line goes with the session, also when a signal ends us. A second signal does not wait for that.
    let closing = async {
        if failure.is_none() && plan.talk > Talk::Little && plan.busy_code != 0 {
            take::tell_busy(&session, &plan.want).await;
        }
        cmd::close_after(session, failure.as_ref(), wait).await;
        Ok(())
    };
    let _ = signals.unless_told(closing).await;
    failure.map_or(Ok(None), Err)
}
