//! A quorum whose members fail, forget and disagree.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah_conformance::twist::{Twist, Twisted};
use bramah_core::{
    Claim, ClaimId, Clock, Engine, Error, ErrorKind, Exit, Fence, Guard, Look, Memory, Moment, Opening,
    Profile, Renewal, Reply, Result, Scope, Session, SessionId, Standing, Survey, Wait,
    quorum::{Member, Quorum, Share},
};

const TTL: Duration = Duration::from_millis(1500);

/// A store that can be switched off, and made to forget everything.
#[derive(Debug, Clone)]
struct Node(Arc<State>);

#[derive(Debug)]
struct State {
    store: Mutex<Memory>,
    down: AtomicBool,
    /// Until when it does not vote.
    young_until: Mutex<Option<Moment>>,
}

impl Node {
    fn new() -> Self {
        Self(Arc::new(State {
            store: Mutex::new(Memory::new()),
            down: AtomicBool::new(false),
            young_until: Mutex::default(),
        }))
    }

    fn switch(&self, up: bool) {
        self.0.down.store(!up, Ordering::SeqCst);
    }

    fn forget(&self) {
        *self.0.store.lock().unwrap_or_else(PoisonError::into_inner) = Memory::new();
    }

    /// Does not vote for so long.
    fn rest(&self, span: Duration) {
        let until = Clock::boot().now() + span;
        *self.0.young_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    fn is_young_for(&self) -> Option<Duration> {
        let until = *self.0.young_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.map(|until| until.since(Clock::boot().now())).filter(|left| !left.is_zero())
    }

    fn store(&self) -> Memory {
        self.0.store.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn reply<T>(&self, ask: impl FnOnce(Memory) -> Reply<T>) -> Reply<T> {
        if self.0.down.load(Ordering::SeqCst) {
            return Reply::now(Err(Error::new(ErrorKind::Unavailable, "it is switched off")));
        }
        ask(self.store())
    }

    fn holders(&self, name: &str) -> impl Future<Output = usize> + use<> {
        let (store, scope) = (self.store(), Scope::Exact(bramah_core::Name::new(name).unwrap()));
        async move {
            store
                .survey(&scope, Look::Once)
                .await
                .unwrap()
                .lines
                .iter()
                .flat_map(|line| line.holders())
                .count()
        }
    }
}

impl Engine for Node {
    fn profile(&self) -> Profile {
        self.store().profile()
    }

    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        self.reply(|store| store.open(opening))
    }

    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
        match self.is_young_for() {
            Some(left) if !claim.again => {
                let young = Error::new(ErrorKind::Unavailable, "it is young").until_after(left);
                Reply::now(Err(young))
            }
            _ => self.reply(|store| store.claim(claim)),
        }
    }

    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        self.reply(|store| store.renew(session, claims))
    }

    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        self.reply(|store| store.withdraw(claim, exit))
    }

    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        self.reply(|store| store.ask(claim))
    }

    fn close(&self, session: SessionId) -> Reply<()> {
        self.reply(|store| store.close(session))
    }

    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        self.reply(|store| store.survey(scope, look))
    }

    fn lifelines(&self, _: SessionId) -> Vec<OwnedFd> {
        Vec::new()
    }
}

fn nodes(count: usize) -> Vec<Node> {
    (0..count).map(|_| Node::new()).collect()
}

fn members(nodes: &[Node]) -> Vec<Member> {
    let engine = |node: &Node| -> Arc<dyn Engine> { Arc::new(node.clone()) };
    nodes.iter().enumerate().map(|(at, node)| Member::new(format!("node {at}"), engine(node))).collect()
}

async fn open(nodes: &[Node]) -> Session {
    Session::builder(Quorum::builder(members(nodes)).build().unwrap()).ttl(TTL).open().await.unwrap()
}

async fn lock(session: &Session) -> Result<Guard> {
    session.mutex("x").unwrap().lock_within(Duration::from_secs(10)).await
}

async fn eventually<F: Future<Output = bool>>(what: &str, mut is: impl FnMut() -> F) {
    for _ in 0..2000 {
        if is().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not in time: {what}");
}

#[tokio::test]
async fn a_minority_may_be_away() {
    for (count, away) in [(3, 1), (4, 1), (5, 2)] {
        let nodes = nodes(count);
        let (a, b) = (open(&nodes).await, open(&nodes).await);
        for node in nodes.iter().take(away) {
            node.switch(false);
        }
        let guard = lock(&a).await.unwrap();
        assert!(b.mutex("x").unwrap().try_lock().await.unwrap().is_none());
        guard.release().await;
        assert!(lock(&b).await.unwrap().is_held());
    }
}

#[tokio::test]
async fn too_few_are_an_error_that_names_them() {
    let nodes = nodes(3);
    let session = open(&nodes).await;
    nodes[0].switch(false);
    nodes[2].switch(false);
    let error = session.mutex("x").unwrap().try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = error.to_string();
    assert!(text.contains("node 0") && text.contains("node 2") && !text.contains("node 1:"), "{text}");
    // What the third had given is free again when the others are back.
    nodes.iter().for_each(|node| node.switch(true));
    assert!(lock(&session).await.unwrap().is_held());
}

#[tokio::test]
async fn a_hold_outlives_any_minority_and_not_a_majority() {
    // A machine may stand still for a second.
    const TTL: Duration = Duration::from_secs(4);
    let nodes = nodes(3);
    let quorum = Quorum::builder(members(&nodes)).build().unwrap();
    let session = Session::builder(quorum).ttl(TTL).open().await.unwrap();
    let guard = lock(&session).await.unwrap();
    nodes[1].switch(false);
    tokio::time::sleep(TTL * 2).await;
    assert!(guard.is_held());
    nodes[2].switch(false);
    tokio::time::timeout(TTL * 2, guard.lost()).await.expect("it is told");
    assert!(!guard.is_held());
}

#[tokio::test]
async fn a_member_that_forgot_is_given_the_claim_back() {
    let nodes = nodes(3);
    let session = open(&nodes).await;
    let guard = lock(&session).await.unwrap();
    nodes[0].forget();
    assert_eq!(nodes[0].holders("x").await, 0);
    eventually("the claim is back", || async { nodes[0].holders("x").await == 1 }).await;
    // So the loss of another one is borne as well.
    nodes[1].forget();
    eventually("and back there", || async { nodes[1].holders("x").await == 1 }).await;
    assert!(guard.is_held());
    guard.release().await;
    for node in &nodes {
        assert_eq!(node.holders("x").await, 0);
    }
}

/// Has a store mint larger fences than its clock would: as one whose clock is ahead.
async fn run_ahead(node: &Node, by: u64) {
    let store = node.store();
    let session = SessionId::from_bits(1);
    let about = bramah_core::About::this_process();
    store.open(Arc::new(Opening::new(session, TTL, bramah_core::Keep::Process, about))).await.unwrap();
    let mut claim = Claim {
        id: bramah_core::ClaimId { session, seq: 1 },
        name: bramah_core::Name::new("ahead").unwrap(),
        capacity: 1,
        weight: 1,
        wait: Wait::No,
        again: false,
        floor: None,
        ttl: TTL,
        lease: None,
        note: "".into(),
    };
    let Standing::Held { fence: Some(fence), .. } = store.claim(Arc::new(claim.clone())).await.unwrap()
    else {
        panic!("it is free");
    };
    claim.again = true;
    claim.floor = Some(Fence::new(fence.get() + by));
    store.claim(Arc::new(claim.clone())).await.unwrap();
    store.withdraw(Arc::new(claim), Exit::Own).await.unwrap();
}

#[tokio::test]
async fn fences_rise_also_where_majorities_share_one_member_only() {
    let nodes = nodes(3);
    let session = open(&nodes).await;
    let mut last = None;
    for round in 0..30 {
        // A different one is away each time: two rounds have one member in common. And every other time one votes
        // that is ahead, and away the next time.
        for (at, node) in nodes.iter().enumerate() {
            node.switch(at != round % 3);
        }
        if round % 2 == 0 {
            run_ahead(&nodes[(round + 1) % 3], 3_600_000_000).await;
        }
        let guard = lock(&session).await.unwrap();
        let fence = guard.fence();
        assert!(fence > last && fence.is_some(), "{fence:?} after {last:?}");
        last = fence;
        guard.release().await;
    }
}

/// Answers a repeated claim with a newer fence than it was told, as a store may: a message that was late has raised it.
#[derive(Debug)]
struct Newer;

impl Twist for Newer {
    fn claim(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>) -> Reply<Standing> {
        let floor = claim.floor.map(|floor| Fence::new(floor.get() + 3_600_000_000));
        inner.claim(Arc::new(Claim { floor, ..(*claim).clone() }))
    }
}

#[tokio::test]
async fn a_fence_that_one_member_alone_knows_is_not_given_out() {
    let nodes = nodes(3);
    let mut members = members(&nodes);
    let newer: Arc<dyn Engine> = Arc::new(Twisted::new(Arc::new(nodes[0].clone()), Arc::new(Newer)));
    members[0] = Member::new("newer", newer);
    let session = Session::builder(Quorum::builder(members).build().unwrap()).ttl(TTL).open().await.unwrap();
    nodes[2].switch(false);
    let guard = lock(&session).await.unwrap();
    let first = guard.fence();
    guard.release().await;
    nodes[2].switch(true);
    nodes[0].switch(false);
    let then = lock(&session).await.unwrap().fence();
    assert!(then > first, "{then:?} after {first:?}");
}

#[tokio::test]
async fn what_is_broken_at_one_member_is_not_given_back_there() {
    let nodes = nodes(3);
    let session = open(&nodes).await;
    let guard = lock(&session).await.unwrap();
    // As if who breaks it had come to the first member only, so far.
    let other = Session::open(nodes[0].store()).await.unwrap();
    let name = bramah_core::Name::new("x").unwrap();
    assert!(other.break_hold(&name, guard.tag(), "a test").await.unwrap());
    tokio::time::timeout(TTL * 2, guard.lost()).await.expect("it is broken everywhere");
    for node in &nodes {
        eventually("it is free", || async { node.holders("x").await == 0 }).await;
    }
}

#[tokio::test]
async fn all_of_them_means_all() {
    let nodes = nodes(2);
    let quorum = Quorum::builder(members(&nodes)).share(Share::All).build().unwrap();
    let session = Session::builder(quorum).ttl(TTL).open().await.unwrap();
    lock(&session).await.unwrap().release().await;
    nodes[1].switch(false);
    let error = session.mutex("x").unwrap().try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn without_fences_there_are_none() {
    let nodes = nodes(3);
    let quorum = Quorum::builder(members(&nodes)).fences(false).build().unwrap();
    let session = Session::builder(quorum).ttl(TTL).open().await.unwrap();
    assert_eq!(lock(&session).await.unwrap().fence(), None);
}

#[tokio::test]
async fn what_cannot_be_a_quorum_is_refused() {
    let none = Quorum::builder([]).build().unwrap_err();
    assert!(none.to_string().contains("needs a member"), "{none}");
    let store = Memory::new();
    let twice = Quorum::builder([Member::new("a", store.clone()), Member::new("a", store.clone())]).build();
    assert!(twice.unwrap_err().to_string().contains("a is a member twice"));
    let instant = Quorum::builder([Member::new("a", store)]).node_timeout(Duration::ZERO).build();
    assert_eq!(instant.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn permits_are_refused_with_the_reason() {
    let session = open(&nodes(3)).await;
    let error = session.semaphore("x", 3).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("Session::slots"), "{error}");
}

#[tokio::test]
async fn those_who_wait_for_members_that_do_not_vote_yet_are_told_and_then_served() {
    let nodes = nodes(5);
    let session = open(&nodes).await;
    for (at, node) in nodes.iter().enumerate().skip(1) {
        node.rest(TTL + Duration::from_millis(100 * at as u64));
    }
    let mutex = session.mutex("x").unwrap();
    let refused = mutex.try_lock().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    let after = refused.retry_after().unwrap();
    assert!(
        after > TTL - Duration::from_millis(500) && after <= TTL + Duration::from_millis(200),
        "{after:?}"
    );
    for at in 1..5 {
        assert!(refused.to_string().contains(&format!("node {at} in 1.")), "{refused}");
    }
    assert!(!refused.to_string().contains("node 0"), "{refused}");
    let late = mutex.lock_within(Duration::from_millis(50)).await.unwrap_err();
    assert_eq!((late.kind(), late.retry_after().is_some()), (ErrorKind::Unavailable, true), "{late}");
    assert_eq!(nodes[0].holders("x").await, 0, "votes that are not enough for long are given back");
    // Longer than a third of the ttl, after which a store that does not answer is given up.
    let waiting = tokio::spawn(async move { mutex.lock().await });
    eventually("to be told", || async { session.hindrance().is_some() }).await;
    assert!(waiting.await.unwrap().unwrap().is_held());
    assert!(nodes[1].is_young_for().is_none() && nodes[2].is_young_for().is_none());
    eventually("nothing to be told", || async { session.hindrance().is_none() }).await;
}

#[tokio::test]
async fn split_votes_are_given_back_also_while_a_member_is_away() {
    let nodes = nodes(5);
    let session = open(&nodes).await;
    nodes[4].switch(false);
    // Somebody else has two of the four that answer: as if it had asked at the same time.
    let other = Arc::new(claim_of(SessionId::random().unwrap()));
    for node in &nodes[2..4] {
        assert!(matches!(node.store().claim(other.clone()).await.unwrap(), Standing::Held { .. }));
    }
    let mutex = session.mutex("x").unwrap();
    let waiting = tokio::spawn(async move { mutex.lock().await });
    eventually("us to have asked", || async { session.claims() == 1 }).await;
    // It can have the other two although we want them: we come and go.
    for node in &nodes[..2] {
        eventually("our vote to be given back", || async {
            let votes = node.store().claim(other.clone()).await.unwrap();
            matches!(votes, Standing::Held { .. })
        })
        .await;
    }
    for node in &nodes[..4] {
        node.store().withdraw(other.clone(), Exit::Own).await.unwrap();
    }
    assert!(waiting.await.unwrap().unwrap().is_held());
}

/// A claim on `x` that nobody's session made.
fn claim_of(session: SessionId) -> Claim {
    Claim {
        id: ClaimId { session, seq: 1 << 40 },
        name: bramah_core::Name::new("x").unwrap(),
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

#[tokio::test]
async fn all_who_wait_in_turn_learn_that_the_store_is_away() {
    let wait = Duration::from_millis(1000) + TTL;
    let nodes = nodes(3);
    let (a, b) = (open(&nodes).await, open(&nodes).await);
    let held = lock(&a).await.unwrap();
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            let mutex = b.mutex("x").unwrap();
            tokio::spawn(async move { mutex.lock_within(wait).await.map(|_| ()) })
        })
        .collect();
    eventually("four who wait", || async { b.claims() == 4 }).await;
    for node in &nodes {
        node.switch(false);
    }
    // Not the first of them only, which has the turn to ask. A watch is trusted for a second.
    for waiter in waiting {
        let error = waiter.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    drop(held);
}
