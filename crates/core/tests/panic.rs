//! An engine's future that panics, as one of a runtime that has ended does.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bramah_core::{
    Claim, Engine, Exit, Look, Memory, Opening, Profile, Renewal, Reply, Scope, Session, SessionId, Standing,
    Survey,
};

/// Panics in the first withdrawals and the first renewals.
#[derive(Debug)]
struct Panics {
    inner: Memory,
    left: Arc<AtomicU32>,
}

impl Panics {
    fn or_panic<T: Send + 'static>(&self, reply: Reply<T>) -> Reply<T> {
        let left = self.left.clone();
        Reply::later(async move {
            let more = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            assert!(more.is_err(), "a panic of the test's own: the runtime of this future has ended");
            reply.await
        })
    }
}

impl Engine for Panics {
    fn profile(&self) -> Profile {
        self.inner.profile()
    }
    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        self.inner.open(opening)
    }
    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
        self.inner.claim(claim)
    }
    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        self.or_panic(self.inner.renew(session, claims))
    }
    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        let inner = self.inner.clone();
        self.or_panic(Reply::later(async move { inner.withdraw(claim, exit).await }))
    }
    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        self.inner.ask(claim)
    }
    fn close(&self, session: SessionId) -> Reply<()> {
        self.inner.close(session)
    }
    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        self.inner.survey(scope, look)
    }
    fn lifelines(&self, session: SessionId) -> Vec<std::os::fd::OwnedFd> {
        self.inner.lifelines(session)
    }
}

#[tokio::test]
async fn a_panic_in_an_engine_is_doubt_and_the_claim_is_withdrawn_all_the_same() {
    let left = Arc::<AtomicU32>::default();
    let engine: Arc<dyn Engine> = Arc::new(Panics { inner: Memory::new(), left: left.clone() });
    let session = Session::builder(engine).ttl(Duration::from_secs(3)).open().await.unwrap();
    let guard = session.mutex("a").unwrap().lock().await.unwrap();
    left.store(2, Ordering::Relaxed);
    drop(guard);
    let closed = session.close(Duration::from_secs(20)).await;
    assert_eq!(left.load(Ordering::Relaxed), 0, "it has panicked");
    assert!(closed.left.is_empty(), "{closed:?}");
}

#[tokio::test]
async fn a_panic_in_a_renewal_loses_nothing() {
    let left = Arc::<AtomicU32>::default();
    let engine: Arc<dyn Engine> = Arc::new(Panics { inner: Memory::new(), left: left.clone() });
    let ttl = Duration::from_secs(2);
    let session = Session::builder(engine).ttl(ttl).open().await.unwrap();
    let guard = session.mutex("a").unwrap().lock().await.unwrap();
    left.store(1, Ordering::Relaxed);
    // Lost after a ttl if the renewals had ended with the panic.
    tokio::time::sleep(ttl * 3 / 2).await;
    assert_eq!(left.load(Ordering::Relaxed), 0, "it has panicked");
    assert!(guard.is_held());
}
