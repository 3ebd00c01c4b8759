//! What could outlive its claim at a member of a quorum: votes that come late, twice, or are given back too late.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bramah_conformance::twist::{Twist, Twisted};
use bramah_core::{
    Claim, ClaimId, Engine, Error, ErrorKind, Exit, Look, Memory, Name, Renewal, Reply, Scope, Session,
    SessionId, Standing, Wait,
    quorum::{Member, Quorum},
};

const TTL: Duration = Duration::from_secs(6);

/// What is renewed.
type Renewed = (SessionId, Arc<[Arc<Claim>]>);

type Hook<A, T> = Box<dyn Fn(&Arc<dyn Engine>, A) -> Reply<T> + Send + Sync>;

#[derive(Default)]
struct Odd {
    claim: Option<Hook<Arc<Claim>, Standing>>,
    renew: Option<Hook<Renewed, Renewal>>,
    off: AtomicBool,
}

impl std::fmt::Debug for Odd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Odd")
    }
}

fn away<T>() -> Reply<T> {
    Reply::now(Err(Error::new(ErrorKind::Unavailable, "away")))
}

impl Twist for Odd {
    fn claim(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>) -> Reply<Standing> {
        if self.off.load(Ordering::SeqCst) {
            return away();
        }
        match &self.claim {
            Some(hook) => hook(inner, claim),
            None => inner.claim(claim),
        }
    }
    fn renew(
        &self,
        inner: &Arc<dyn Engine>,
        session: SessionId,
        claims: Arc<[Arc<Claim>]>,
    ) -> Reply<Renewal> {
        if self.off.load(Ordering::SeqCst) {
            return away();
        }
        match &self.renew {
            Some(hook) => hook(inner, (session, claims)),
            None => inner.renew(session, claims),
        }
    }
    fn withdraw(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        if self.off.load(Ordering::SeqCst) { away() } else { inner.withdraw(claim, exit) }
    }
}

struct World {
    stores: Vec<Memory>,
    odds: Vec<Arc<Odd>>,
}

impl World {
    fn new(odds: Vec<Odd>) -> Self {
        Self {
            stores: odds.iter().map(|_| Memory::new()).collect(),
            odds: odds.into_iter().map(Arc::new).collect(),
        }
    }
    async fn session(&self) -> Session {
        let members = self.stores.iter().zip(&self.odds).enumerate().map(|(at, (store, odd))| {
            let engine: Arc<dyn Engine> = Arc::new(Twisted::new(Arc::new(store.clone()), odd.clone()));
            Member::new(format!("node {at}"), engine)
        });
        Session::builder(Quorum::builder(members).build().unwrap()).ttl(TTL).open().await.unwrap()
    }
    async fn holders(&self, at: usize) -> usize {
        let scope = Scope::Exact(Name::new("x").unwrap());
        let seen = self.stores[at].survey(&scope, Look::Once).await.unwrap();
        seen.lines.iter().flat_map(|line| line.holders()).count()
    }

    /// Waits for the claim to leave a member: half of the time for which it would stay by itself.
    async fn is_rid_of_it(&self, at: usize) {
        for _ in 0..TTL.as_millis() / 20 {
            if self.holders(at).await == 0 {
                return;
            }
            nap(10).await;
        }
        panic!("a ghost at {at}");
    }
}

fn other() -> Claim {
    Claim {
        id: ClaimId { session: SessionId::random().unwrap(), seq: 1 << 40 },
        name: Name::new("x").unwrap(),
        capacity: 1,
        weight: 1,
        wait: Wait::No,
        again: false,
        floor: None,
        ttl: Duration::from_secs(60),
        lease: None,
        note: "".into(),
    }
}

async fn nap(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// The connection ends before the answer; the message was in the server's buffer and is carried out a little later.
fn carried_out_late(after: u64) -> Odd {
    let first = AtomicBool::new(true);
    Odd {
        claim: Some(Box::new(move |inner, claim| {
            if !first.swap(false, Ordering::SeqCst) {
                return inner.claim(claim);
            }
            let inner = inner.clone();
            tokio::spawn(async move {
                nap(after).await;
                let _ = inner.claim(claim).await;
            });
            away()
        })),
        ..Odd::default()
    }
}

#[tokio::test]
async fn a_vote_that_comes_after_the_release_is_taken_back() {
    let world = World::new(vec![Odd::default(), Odd::default(), carried_out_late(100)]);
    let a = world.session().await;
    let guard = a.mutex("x").unwrap().lock().await.unwrap();
    guard.release().await;
    nap(1000).await;
    world.is_rid_of_it(2).await;
    // One more away, and nobody gets it until the ttl of the ghost is over.
    world.odds[0].off.store(true, Ordering::SeqCst);
    let b = world.session().await;
    let got = b.mutex("x").unwrap().lock_within(Duration::from_secs(2)).await.map(drop);
    assert!(got.is_ok(), "{got:?}");
}

#[tokio::test]
async fn a_vote_that_comes_after_a_refusal_is_taken_back() {
    let world = World::new(vec![Odd::default(), Odd::default(), carried_out_late(100)]);
    let a = world.session().await;
    let held = Arc::new(other());
    for store in &world.stores[..2] {
        let _ = store.claim(held.clone()).await.unwrap();
    }
    assert!(a.mutex("x").unwrap().try_lock().await.unwrap().is_none());
    nap(1000).await;
    world.is_rid_of_it(2).await;
}

#[tokio::test]
async fn a_withdrawal_waits_for_every_message_of_its_claim() {
    let calls = AtomicUsize::new(0);
    let odd = Odd {
        claim: Some(Box::new(move |inner, claim| {
            let inner = inner.clone();
            match calls.fetch_add(1, Ordering::SeqCst) {
                0 => Reply::later(async move {
                    nap(300).await;
                    inner.claim(claim).await
                }),
                1 => Reply::later(async {
                    nap(60).await;
                    Ok(Standing::Refused)
                }),
                _ => inner.claim(claim),
            }
        })),
        ..Odd::default()
    };
    let world = World::new(vec![Odd::default(), Odd::default(), odd]);
    let a = world.session().await;
    let held = Arc::new(other());
    for store in &world.stores[..2] {
        let _ = store.claim(held.clone()).await.unwrap();
    }
    let late = a.mutex("x").unwrap().lock_within(Duration::from_millis(150)).await;
    assert!(late.is_err());
    nap(1500).await;
    world.is_rid_of_it(2).await;
}

#[tokio::test]
async fn what_is_given_back_after_the_release_is_taken_back() {
    let renewing = Arc::new(AtomicBool::new(false));
    let seen = renewing.clone();
    let slow = Odd {
        renew: Some(Box::new(move |inner, (session, claims)| {
            let (inner, seen) = (inner.clone(), seen.clone());
            Reply::later(async move {
                let answer = inner.renew(session, claims).await;
                seen.store(true, Ordering::SeqCst);
                nap(100).await;
                answer
            })
        })),
        ..Odd::default()
    };
    let world = World::new(vec![slow, Odd::default(), Odd::default()]);
    world.odds[2].off.store(true, Ordering::SeqCst);
    let a = world.session().await;
    let guard = a.mutex("x").unwrap().lock().await.unwrap();
    world.odds[2].off.store(false, Ordering::SeqCst);
    while !renewing.load(Ordering::SeqCst) {
        nap(5).await;
    }
    guard.release().await;
    nap(1500).await;
    for at in 0..3 {
        world.is_rid_of_it(at).await;
    }
}

#[tokio::test]
async fn a_member_that_refuses_is_no_worse_than_one_that_is_away() {
    let deny = || Odd {
        claim: Some(Box::new(|_, _| Reply::now(Err(Error::new(ErrorKind::Denied, "NOPERM"))))),
        ..Odd::default()
    };
    let world = World::new(vec![Odd::default(), Odd::default(), deny()]);
    let (a, b) = (world.session().await, world.session().await);
    let guard = a.mutex("x").unwrap().lock().await.unwrap();
    let tried = b.mutex("x").unwrap().try_lock().await.map(|guard| guard.is_some());
    let mutex = b.mutex("x").unwrap();
    let waiting = tokio::spawn(async move { mutex.lock_within(Duration::from_secs(5)).await.map(drop) });
    nap(300).await;
    guard.release().await;
    let waited = waiting.await.unwrap();
    assert!(tried.is_ok() && waited.is_ok(), "{tried:?} {waited:?}");
}

#[tokio::test]
async fn a_withdrawal_that_failed_is_tried_again() {
    let world = World::new(vec![Odd::default(), Odd::default(), Odd::default()]);
    let a = world.session().await;
    let guard = a.mutex("x").unwrap().lock().await.unwrap();
    assert_eq!(world.holders(2).await, 1);
    world.odds[2].off.store(true, Ordering::SeqCst);
    guard.release().await;
    world.odds[2].off.store(false, Ordering::SeqCst);
    world.is_rid_of_it(2).await;
}
