//! Claims on their way to members.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use crate::{ClaimId, Reply};

/// Which claims have not been answered yet, and by whom: a withdrawal that overtook its claim would leave a ghost.
#[derive(Default)]
pub(super) struct Flights(Mutex<HashMap<(ClaimId, usize), oneshot::Receiver<()>>>);

/// How many are kept before those are looked for that have landed.
const MANY: usize = 256;

impl Flights {
    fn all(&self) -> MutexGuard<'_, HashMap<(ClaimId, usize), oneshot::Receiver<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A reply that is known to be under way until it has come, or is dropped.
    pub(super) fn take_off<T: Send + 'static>(&self, id: ClaimId, at: usize, reply: Reply<T>) -> Reply<T> {
        let reply = match reply.into_now() {
            Ok(answer) => return Reply::now(answer),
            Err(reply) => reply,
        };
        let (land, landing) = oneshot::channel::<()>();
        let mut all = self.all();
        if all.len() >= MANY {
            all.retain(|_, landing| matches!(landing.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
        }
        all.insert((id, at), landing);
        drop(all);
        Reply::later(async move {
            let answer = reply.await;
            drop(land);
            answer
        })
    }

    /// Ends when the last message of the claim to this member has been answered. `None` if it has, as far as is known.
    pub(super) fn landing(&self, id: ClaimId, at: usize) -> Option<impl Future<Output = ()> + Send + use<>> {
        let landing = self.all().remove(&(id, at))?;
        Some(async move {
            let _ = landing.await;
        })
    }
}
