//! A wish for a lock on a quorum takes as many members as the lock does.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah_conformance::twist::{Twist, Twisted};
use bramah_core::{
    Alarm, Asking, Claim, Engine, Error, ErrorKind, Memory, Opening, Profile, Reply, Session,
    quorum::{Member, Quorum},
};

const TTL: Duration = Duration::from_secs(3);

/// A member that pushes nothing, and can be made to take no wishes for a while or at all.
#[derive(Debug, Default)]
struct Plain {
    away: AtomicBool,
    never: AtomicBool,
}

impl Twist for Plain {
    fn profile(&self, inner: &Arc<dyn Engine>) -> Profile {
        let asking = if self.never.load(Ordering::SeqCst) { Asking::Never } else { Asking::Kept };
        Profile { asking, ..inner.profile() }
    }

    fn open(&self, inner: &Arc<dyn Engine>, opening: Arc<Opening>) -> Reply<Duration> {
        inner.open(Arc::new(Opening { alarm: Alarm::none(), ..(*opening).clone() }))
    }

    fn ask(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>) -> Reply<()> {
        if self.never.load(Ordering::SeqCst) {
            return Reply::now(Err(claim.unaskable("this member takes none")));
        }
        match self.away.load(Ordering::SeqCst) {
            true => Reply::now(Err(Error::new(ErrorKind::Unavailable, "it is away"))),
            false => inner.ask(claim),
        }
    }
}

type Members = Vec<(Arc<Plain>, Arc<dyn Engine>)>;

fn members() -> Members {
    let member = |_| {
        let twist = Arc::new(Plain::default());
        let engine: Arc<dyn Engine> =
            Arc::new(Twisted::new(Arc::new(Memory::new()) as Arc<dyn Engine>, twist.clone()));
        (twist, engine)
    };
    (0..3).map(member).collect()
}

async fn open(members: &Members) -> Session {
    let named =
        members.iter().enumerate().map(|(at, (_, engine))| Member::new(format!("node {at}"), engine.clone()));
    Session::builder(Quorum::builder(named).build().unwrap()).ttl(TTL).open().await.unwrap()
}

#[tokio::test]
async fn a_wish_that_a_majority_has_taken_reaches_the_holder() {
    for away in 0..3 {
        let members = members();
        let (a, b) = (open(&members).await, open(&members).await);
        let guard = a.mutex("x").unwrap().lock().await.unwrap();
        members[away].0.away.store(true, Ordering::SeqCst);
        assert!(b.ask(&guard.name(), guard.tag()).await.unwrap());
        assert!(tokio::time::timeout(TTL * 3, guard.asked()).await.is_ok(), "without node {away}");
        assert!(guard.confirm().await.unwrap());
    }
}

#[tokio::test]
async fn a_wish_that_a_minority_has_taken_is_an_error_that_names_the_others() {
    let members = members();
    let (a, b) = (open(&members).await, open(&members).await);
    let guard = a.mutex("x").unwrap().lock().await.unwrap();
    members[0].0.away.store(true, Ordering::SeqCst);
    members[2].0.away.store(true, Ordering::SeqCst);
    let error = b.ask(&guard.name(), guard.tag()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = error.to_string();
    assert!(text.contains("node 0") && text.contains("node 2") && !text.contains("node 1:"), "{text}");
}

#[tokio::test]
async fn a_quorum_with_a_member_that_takes_no_wishes_refuses_them() {
    let members = members();
    members[1].0.never.store(true, Ordering::SeqCst);
    let (a, b) = (open(&members).await, open(&members).await);
    let guard = a.mutex("x").unwrap().lock().await.unwrap();
    assert_eq!(a.profile().asking, Asking::Never);
    let error = b.ask(&guard.name(), guard.tag()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error.to_string().contains("this member takes none") && error.to_string().contains("bramah break"),
        "{error}"
    );
}
