//! Claims as the engine sees them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah_core::{
    About, Claim, ClaimId, Engine, Error, ErrorKind, Exit, Keep, Name, Opening, Result, SessionId, Standing,
    Wait, Wake,
};

use super::{SOON, engine};

/// A session below the faces, without a keeper.
pub(crate) struct Raw {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) session: SessionId,
    pub(crate) ttl: Duration,
    seq: AtomicU64,
}

impl Raw {
    pub(crate) async fn open(url: &str, ttl: Duration) -> Self {
        let (engine, session) = (engine(url), SessionId::random().unwrap());
        let opening = Opening::new(session, ttl, Keep::Process, About::this_process());
        let ttl = engine.open(Arc::new(opening)).await.unwrap();
        Self { engine, session, ttl, seq: AtomicU64::new(0) }
    }

    pub(crate) fn mutex(&self, name: &str) -> Claim {
        self.of(name, 1, 1)
    }

    pub(crate) fn of(&self, name: &str, capacity: u32, weight: u32) -> Claim {
        Claim {
            id: ClaimId { session: self.session, seq: self.seq.fetch_add(1, Ordering::Relaxed) + 1 },
            name: Name::new(name).unwrap(),
            capacity,
            weight,
            wait: Wait::Line,
            again: false,
            floor: None,
            ttl: self.ttl,
            lease: None,
            note: "".into(),
        }
    }

    pub(crate) async fn enter(&self, claim: &Claim) -> Result<Standing> {
        self.engine.claim(Arc::new(claim.clone())).await
    }

    pub(crate) async fn ask(&self, claim: &Claim) -> Result<Standing> {
        self.engine.claim(Arc::new(claim.asking())).await
    }

    pub(crate) async fn withdraw(&self, claim: &Claim) {
        self.engine.withdraw(Arc::new(claim.clone()), Exit::Own).await.unwrap();
    }

    /// As etcdctl writes it.
    pub(crate) fn lease(&self) -> String {
        format!("{:x}", self.session.bits() & u128::from(u64::MAX >> 1))
    }

    pub(crate) fn key(&self, name: &str) -> String {
        format!("{name}/{}", self.lease())
    }
}

#[track_caller]
pub(crate) fn waits(standing: Result<Standing>) -> Wake {
    match standing.unwrap() {
        Standing::Queued { wake, .. } => wake,
        other => panic!("it does not wait: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn is_gone(standing: &Result<Standing>) {
    let lost = |error: &Error| error.kind() == ErrorKind::Lost;
    assert!(matches!(standing, Ok(Standing::Gone)) || standing.as_ref().is_err_and(lost), "{standing:?}");
}

pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, what).await.expect("it does not happen")
}
