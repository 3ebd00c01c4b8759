//! Calls that can be held back.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bramah_core::{Claim, Engine, Error, ErrorKind, Exit, Renewal, Reply, Result, SessionId, Standing};
use tokio::sync::watch;

use super::Twist;

/// How calls of one kind get through a [`Valve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// As always.
    Open,
    /// As always, and what is held back stays held back until it is opened.
    Passing,
    /// Not before it is opened: a network that swallows what is sent.
    Held,
    /// To the store at once, and the answer back when it is opened.
    Muted,
    /// To the store at once, and the answer is lost: `Unavailable`.
    Deafened,
    /// Not at all: `Unavailable`.
    Refused,
    /// Renewals only: to the store at once, and the answer is that nothing could be asked.
    Unknown,
}

/// Holds back claims, renewals and withdrawals, each as told.
#[derive(Debug)]
pub struct Valve {
    /// For claims and questions.
    pub claims: watch::Sender<Flow>,
    /// For renewals.
    pub renewals: watch::Sender<Flow>,
    /// For withdrawals.
    pub withdrawals: watch::Sender<Flow>,
    renewals_seen: AtomicUsize,
}

impl Valve {
    /// An open one.
    pub fn new() -> Arc<Self> {
        let open = || watch::Sender::new(Flow::Open);
        Arc::new(Self {
            claims: open(),
            renewals: open(),
            withdrawals: open(),
            renewals_seen: AtomicUsize::new(0),
        })
    }

    /// How many renewals have come to it, whatever became of them.
    pub fn renewals_seen(&self) -> usize {
        self.renewals_seen.load(Ordering::Acquire)
    }

    /// The same for calls of all kinds.
    pub fn set_all(&self, flow: Flow) {
        for kind in [&self.claims, &self.renewals, &self.withdrawals] {
            kind.send_replace(flow);
        }
    }
}

fn unavailable() -> Error {
    Error::new(ErrorKind::Unavailable, "the valve is shut")
}

async fn opened(mut flow: watch::Receiver<Flow>) -> Result<()> {
    flow.wait_for(|flow| *flow == Flow::Open).await.map(|_| ()).map_err(|_| unavailable())
}

fn through<T: Send + 'static>(
    valve: &watch::Sender<Flow>,
    call: impl FnOnce() -> Reply<T> + Send + 'static,
) -> Reply<T> {
    let flow = *valve.borrow();
    let told = valve.subscribe();
    match flow {
        Flow::Open | Flow::Passing | Flow::Unknown => call(),
        Flow::Refused => Reply::now(Err(unavailable())),
        Flow::Held => Reply::later(async move {
            opened(told).await?;
            call().await
        }),
        Flow::Muted => {
            let reply = call();
            Reply::later(async move {
                let answer = reply.await;
                opened(told).await?;
                answer
            })
        }
        Flow::Deafened => {
            let reply = call();
            Reply::later(async move {
                // Whatever it was.
                let _ = reply.await;
                Err(unavailable())
            })
        }
    }
}

impl Twist for Valve {
    fn claim(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>) -> Reply<Standing> {
        let inner = inner.clone();
        through(&self.claims, move || inner.claim(claim))
    }

    fn renew(
        &self,
        inner: &Arc<dyn Engine>,
        session: SessionId,
        claims: Arc<[Arc<Claim>]>,
    ) -> Reply<Renewal> {
        let unknown = *self.renewals.borrow() == Flow::Unknown;
        let asked: Vec<_> = claims.iter().map(|claim| claim.id).collect();
        let inner = inner.clone();
        let reply = through(&self.renewals, move || inner.renew(session, claims));
        self.renewals_seen.fetch_add(1, Ordering::AcqRel);
        if !unknown {
            return reply;
        }
        Reply::later(async move {
            // The store renews them and we are not told.
            let _ = reply.await;
            Ok(Renewal { unknown: asked, ..Renewal::default() })
        })
    }

    fn withdraw(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        let inner = inner.clone();
        through(&self.withdrawals, move || inner.withdraw(claim, exit))
    }
}
