//! Locks that are left by a session that goes on, and claims that are refused together with their withdrawal.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{sync::Arc, time::Duration};

use bramah_conformance::twist::{Twist, Twisted};
use bramah_core::{
    Claim, Engine, Error, ErrorKind, Exit, Keep, Memory, Owner, Release, Reply, Session, Standing,
};

async fn unkept(store: &Memory) -> Session {
    Session::builder(store.clone()).keep(Keep::Nobody).open().await.unwrap()
}

#[tokio::test]
async fn a_lock_that_another_guard_of_its_owner_holds_is_not_left() {
    let session = unkept(&Memory::new()).await;
    let owner = Owner::new();
    let lock = session.mutex("a").unwrap().owned_by(&owner);
    let (one, two) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    assert_eq!(one.leave().await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(two.confirm().await.unwrap(), "the other guard is asked about and renewed as before");
    assert!(two.leave().await.unwrap().release().await.unwrap());
}

#[tokio::test]
async fn releasing_a_lock_that_was_left_leaves_its_open_session_as_it_is() {
    let store = Memory::new();
    let (session, other) = (unkept(&store).await, Session::open(store.clone()).await.unwrap());
    let left = session.mutex("a").unwrap().lock().await.unwrap().leave().await.unwrap();
    let held = session.mutex("b").unwrap().lock().await.unwrap();
    assert!(left.release().await.unwrap());
    assert!(other.ask(&held.name(), held.tag()).await.unwrap());
    tokio::time::timeout(Duration::from_secs(20), held.asked()).await.expect("the holder hears of the wish");
    assert_eq!(held.release().await, Release::Released);
}

/// Refuses everything, and not at once.
#[derive(Debug)]
struct Denies;

fn denied<T: Send + 'static>() -> Reply<T> {
    Reply::later(async {
        tokio::task::yield_now().await;
        Err(Error::new(ErrorKind::Denied, "this user may not do that"))
    })
}

impl Twist for Denies {
    fn claim(&self, _: &Arc<dyn Engine>, _: Arc<Claim>) -> Reply<Standing> {
        denied()
    }

    fn withdraw(&self, _: &Arc<dyn Engine>, _: Arc<Claim>, _: Exit) -> Reply<()> {
        denied()
    }
}

#[tokio::test]
async fn a_claim_whose_withdrawal_is_refused_too_is_given_up() {
    let engine: Arc<dyn Engine> = Arc::new(Twisted::new(Arc::new(Memory::new()), Arc::new(Denies)));
    let session = Session::open(engine).await.unwrap();
    let refused = session.mutex("a").unwrap().lock().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    let closed = session.close(Duration::from_secs(20)).await;
    assert!(closed.left.is_empty(), "it is withdrawn again and again: {closed:?}");
}
