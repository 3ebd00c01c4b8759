//! An engine that counts what core does with another.

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah::{
    Claim, Engine, Exit, Look, Opening, Profile, Renewal, Reply, Scope, SessionId, Standing, Survey, Wake,
};

#[derive(Debug)]
pub(super) struct Spy {
    engine: Arc<dyn Engine>,
    pub(super) counts: Arc<Counts>,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Claims that were entered and wait.
    pub(super) queued: AtomicU64,
    /// Questions about claims that wait.
    pub(super) asks: AtomicU64,
    /// Wakes that fired.
    pub(super) wakes: AtomicU64,
}

impl Spy {
    pub(super) fn on(engine: Arc<dyn Engine>) -> Arc<Self> {
        Arc::new(Self { engine, counts: Arc::default() })
    }
}

impl Counts {
    pub(super) fn clear(&self) {
        for count in [&self.queued, &self.asks, &self.wakes] {
            count.store(0, Ordering::Relaxed);
        }
    }
}

impl Engine for Spy {
    fn profile(&self) -> Profile {
        self.engine.profile()
    }

    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        self.engine.open(opening)
    }

    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
        let (counts, again) = (self.counts.clone(), claim.again);
        if again {
            counts.asks.fetch_add(1, Ordering::Relaxed);
        }
        let reply = self.engine.claim(claim);
        Reply::later(async move {
            let standing = reply.await?;
            let Standing::Queued { ahead, wake, sleep } = standing else { return Ok(standing) };
            if !again {
                counts.queued.fetch_add(1, Ordering::Relaxed);
            }
            let wake = Wake::from_future(async move {
                let woken = wake.await;
                counts.wakes.fetch_add(1, Ordering::Relaxed);
                woken
            });
            Ok(Standing::Queued { ahead, wake, sleep })
        })
    }

    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        self.engine.renew(session, claims)
    }

    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        self.engine.withdraw(claim, exit)
    }

    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        self.engine.ask(claim)
    }

    fn close(&self, session: SessionId) -> Reply<()> {
        self.engine.close(session)
    }

    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        self.engine.survey(scope, look)
    }

    fn lifelines(&self, session: SessionId) -> Vec<OwnedFd> {
        self.engine.lifelines(session)
    }
}
