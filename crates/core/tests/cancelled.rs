//! A waiter that goes away while a question about its place is in flight.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bramah_conformance::twist::{Twist, Twisted};
use bramah_core::{Claim, Engine, Exit, Memory, Reply, Session, Standing};
use tokio::sync::Semaphore;

const SOON: Duration = Duration::from_secs(20);

/// A store whose waiters ask again at once, and get their answers when they are let through.
#[derive(Debug)]
struct Slow {
    questions: AtomicUsize,
    withdrawals: AtomicUsize,
    answers: Arc<Semaphore>,
}

impl Twist for Slow {
    fn claim(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>) -> Reply<Standing> {
        let is_question = claim.again;
        let (reply, answers) = (inner.claim(claim), self.answers.clone());
        if is_question {
            self.questions.fetch_add(1, Ordering::AcqRel);
        }
        Reply::later(async move {
            if is_question {
                answers.acquire().await.unwrap().forget();
            }
            Ok(match reply.await? {
                Standing::Queued { ahead, wake, .. } => {
                    Standing::Queued { ahead, wake, sleep: Duration::ZERO }
                }
                other => other,
            })
        })
    }

    fn withdraw(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        self.withdrawals.fetch_add(1, Ordering::AcqRel);
        inner.withdraw(claim, exit)
    }
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(SOON, wait).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

/// Its place is given back at once. The answer may have the engine note the claim anew, so it is withdrawn once more behind that.
#[tokio::test]
async fn a_claim_is_withdrawn_again_behind_a_question_that_was_in_flight() {
    let store = Memory::new();
    let holder = Session::open(store.clone()).await.unwrap();
    let _held = holder.mutex("a").unwrap().lock().await.unwrap();
    let slow = Arc::new(Slow {
        questions: AtomicUsize::new(0),
        withdrawals: AtomicUsize::new(0),
        answers: Arc::new(Semaphore::new(0)),
    });
    let engine: Arc<dyn Engine> = Arc::new(Twisted::new(Arc::new(store), slow.clone()));
    let session = Session::builder(engine).open().await.unwrap();
    let mutex = session.mutex("a").unwrap();
    let waiter = tokio::spawn(async move { mutex.lock().await.map(drop) });
    until("a question", || slow.questions.load(Ordering::Acquire) == 1).await;
    waiter.abort();
    until("the withdrawal", || slow.withdrawals.load(Ordering::Acquire) == 1).await;
    slow.answers.add_permits(1);
    until("the withdrawal behind the answer", || slow.withdrawals.load(Ordering::Acquire) == 2).await;
    assert_eq!(session.claims(), 0);
}
