//! The verbs, a file each.

mod ls;
mod run;
mod show;

use std::time::Duration;

use bramah::{Look, Scope, Session, SessionBuilder, Survey};

use crate::{
    exit::{Exit, Failure},
    plan::{Plan, Task},
    store::Store,
};

/// How long the end of a command waits for the store to confirm that everything is withdrawn. Dropping the session
/// goes on with it for a moment more.
const CLOSING: Duration = Duration::from_secs(2);

/// Does what was planned.
pub(crate) async fn execute(plan: Plan) -> Exit {
    let Plan { store, task } = plan;
    let done = match task {
        Task::Run(run) => return run::run(&run, &store).await,
        Task::Ls { scope, form } => ls::ls(&store, &scope, form).await,
        Task::Show { name, form } => show::show(&store, &name, form).await,
    };
    done.unwrap_or_else(Failure::tell)
}

/// A session to be opened on the store.
async fn session(store: &Store) -> Result<SessionBuilder, Failure> {
    Ok(Session::builder(bramah::engine(store.url()).await?).store(store.shown()))
}

/// One look at the store. No session: looking leaves no trace.
async fn look(store: &Store, scope: &Scope) -> Result<Survey, Failure> {
    Ok(bramah::engine(store.url()).await?.survey(scope, Look::Once).await?)
}

/// Leaves nothing behind that can be taken along.
async fn close(session: &Session) {
    // What is left ends with its ttl, and the keeper has logged it.
    let _ = session.close(CLOSING).await;
}
