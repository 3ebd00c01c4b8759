//! Answers that take several polls.

use std::sync::Arc;

use bramah_core::{Claim, Engine, Exit, Renewal, Reply, SessionId, Standing};

use super::Twist;

/// Makes every claim, renewal and withdrawal take so many polls on its way to the store, and as many on its way back:
/// so there is something to be cancelled in the middle of, also on an engine that answers at once.
#[derive(Debug)]
pub struct Stepped(pub usize);

fn stepped<T: Send + 'static>(steps: usize, call: impl FnOnce() -> Reply<T> + Send + 'static) -> Reply<T> {
    Reply::later(async move {
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        let answer = call().await;
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        answer
    })
}

impl Twist for Stepped {
    fn claim(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>) -> Reply<Standing> {
        let inner = inner.clone();
        stepped(self.0, move || inner.claim(claim))
    }

    fn renew(
        &self,
        inner: &Arc<dyn Engine>,
        session: SessionId,
        claims: Arc<[Arc<Claim>]>,
    ) -> Reply<Renewal> {
        let inner = inner.clone();
        stepped(self.0, move || inner.renew(session, claims))
    }

    fn withdraw(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        let inner = inner.clone();
        stepped(self.0, move || inner.withdraw(claim, exit))
    }
}
