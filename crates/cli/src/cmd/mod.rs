//! The verbs, a file each.

mod break_hold;
mod check;
mod completions;
mod detached;
mod doctor;
mod init;
mod ls;
mod man;
mod revoke;
mod run;
mod show;
mod version;
mod wait;
mod watch;

use std::{sync::Arc, time::Duration};

use bramah::{Clock, Engine, Look, Moment, Scope, Session, SessionBuilder, Survey};

use crate::{
    exit::{Exit, Failure},
    plan::{Errand, Plan, Task},
    store::Store,
    wait::Wait,
};

/// How long the end of a command waits for the store to confirm that everything is withdrawn. Dropping the session
/// goes on with it for a moment more.
const CLOSING: Duration = Duration::from_secs(2);
/// The same of a store that did not answer when it was last asked.
const UNREACHED: Duration = Duration::from_millis(100);

/// Does what was planned.
pub(crate) async fn execute(plan: Plan) -> Exit {
    let done = match plan {
        Plan::On(store, task) => on(&store, *task).await,
        Plan::Here(errand) => here(errand).await,
    };
    done.unwrap_or_else(Failure::tell)
}

async fn on(store: &Store, task: Task) -> Result<Exit, Failure> {
    match task {
        Task::Run(run) => run::run(&run, store).await,
        Task::Elect(run) => run::elect(&run, store).await,
        Task::Lock(lock) => detached::lock(store, &lock).await,
        Task::Renew { name, handle, form } => detached::renew(store, name, handle, form).await,
        Task::Unlock { name, handle, form } => detached::unlock(store, name, handle, form).await,
        Task::Ls { scope, form } => ls::ls(store, &scope, form).await,
        Task::Show { name, form } => show::show(store, &name, form).await,
        Task::Wait { name, patience, busy_code, talk, inside } => {
            wait::wait(store, &name, patience, busy_code, talk, &inside).await
        }
        Task::Watch { scope, form } => watch::watch(store, &scope, form).await,
        Task::Revoke { name, tag, form } => revoke::revoke(store, &name, tag, form).await,
        Task::Break { name, tag, reason, owner, form } => {
            break_hold::break_hold(store, &name, tag, &reason, owner, form).await
        }
        Task::Doctor { form } => doctor::doctor(store, form).await,
        Task::Init { dry_run } => init::init(store, dry_run).await,
    }
}

async fn here(errand: Errand) -> Result<Exit, Failure> {
    match errand {
        Errand::Check { form, talk } => check::check(form, talk).await,
        Errand::Completions(shell) => completions::completions(shell),
        Errand::Man(dir) => man::man(dir.as_deref()),
        Errand::Version(form) => version::version(form),
    }
}

/// A session to be opened on the store.
pub(crate) async fn session(store: &Store) -> Result<SessionBuilder, Failure> {
    Ok(Session::builder(bramah::engine(store.url()).await?).store(store.shown()))
}

/// The engine for a command that only looks. A store that was named is not created by that.
async fn existing(store: &Store) -> Result<Arc<dyn Engine>, Failure> {
    match store.is_default() {
        true => Ok(bramah::engine(store.url()).await?),
        false => Ok(bramah::existing(store.url()).await?),
    }
}

/// One look at the store. No session: looking leaves no trace.
async fn look(store: &Store, scope: &Scope) -> Result<Survey, Failure> {
    Ok(existing(store).await?.survey(scope, Look::Once).await?)
}

/// Closes the session of a run that has ended, and waits for that until `until`.
async fn close_by(session: Session, until: Moment) {
    let clock = Clock::boot();
    let _ = session.close(until.since(clock.now())).await;
    if clock.now() >= until {
        // The store does not answer. Dropping the session would wait for the same once more.
        std::mem::forget(session);
    }
}

/// Closes the session of a command that did not get its lock. A store that is out of reach is not waited for: what was left
/// there ends with its ttl. One that answers, and only says that it is not ready, gets the time to take back what it has granted.
async fn close_after(session: Session, failure: Option<&Failure>, wait: &Wait) {
    let is_unreachable = failure.is_some_and(|failure| failure.exit == Exit::Unreachable);
    let is_down = is_unreachable && (wait.until.is_none() || session.hindrance().is_some());
    close_by(session, Clock::boot().now() + if is_down { UNREACHED } else { CLOSING }).await;
}

/// Leaves nothing behind that can be taken along.
async fn close(session: &Session) {
    // What is left ends with its ttl, and the keeper has logged it.
    let _ = session.close(CLOSING).await;
}
