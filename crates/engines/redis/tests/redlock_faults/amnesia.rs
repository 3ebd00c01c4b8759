//! A master restarts at once and has forgotten its vote (B14), as a supervisor has it (B15).

use std::{sync::Arc, time::Duration};

use bramah_core::{ErrorKind, Lock, Release, Session};

use crate::{rig::*, stage::*};

/// A holds on the first three of five, B reaches the last three, and the one in the middle forgets.
struct Scene {
    masters: Masters,
    _ways: [Ways; 2],
    a: Session,
    b: Session,
    ledger: Arc<Ledger>,
    held: Held,
    /// Where B has the one in the middle.
    middle: String,
    asked: Lock,
}

async fn scene(restart: &str, ttl: Duration, ledger: Arc<Ledger>) -> Scene {
    let masters = Masters::start(5);
    let (first, last) = (Ways::without(&masters, &[3, 4]), Ways::without(&masters, &[0, 1]));
    let mut options = format!("restart={restart}&node_timeout=1s");
    if restart == "wait" {
        masters.await_age(ttl).await;
        options += &format!("&max_ttl={}ms", ttl.as_millis());
    }
    let (a, b) = (join(&first.url(&options), ttl).await, join(&last.url(&options), ttl).await);
    let held = ledger.lock(&mutex(&a, "forgotten")).await;
    assert_eq!(masters.voters("forgotten"), [0, 1, 2]);
    masters[MIDDLE].restart().unwrap();
    assert_eq!(masters.voters("forgotten"), [0, 1], "it has forgotten");
    let (middle, asked) = (last[MIDDLE].address(), mutex(&b, "forgotten"));
    Scene { masters, _ways: [first, last], a, b, ledger, held, middle, asked }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_master_that_was_restarted_does_not_vote_while_its_first_vote_may_count() {
    let ttl = ms(3000);
    let Scene { masters, _ways, a, b, ledger, held, middle, asked } =
        scene("wait", ttl, Ledger::strict()).await;
    let before = now();
    let why = asked.try_lock().await.unwrap_err();
    assert_eq!(why.kind(), ErrorKind::Unavailable, "{why}");
    let text = why.to_string();
    assert!(text.contains(&middle) && text.contains("votes in"), "{text}");
    let after = why.retry_after().unwrap_or_else(|| panic!("it does not say when: {text}"));
    assert!(!after.is_zero() && after <= ttl + ms(2000), "{after:?}");

    // Who waits is granted it without another word, and the ledger sees to it that A no longer believes in its hold.
    let next = ledger.lock(&asked).await;
    assert!(now().since(before) + ms(100) >= after, "it was told {after:?}");
    assert!(!held.is_held());
    assert_eq!(held.release().await, Release::AlreadyLost);
    assert_eq!(next.release().await, Release::Released);
    close([a, b]).await;
    masters.await_nothing_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_master_that_is_trusted_votes_twice_and_the_fence_saves_the_resource() {
    let Scene { masters, _ways, a, b, ledger, held, asked, .. } =
        scene("trust", ms(20_000), Ledger::forgiving()).await;
    // The ledger is for fences only: it sees that the second is the larger one.
    let next = ledger.persist(&asked).await;
    assert!(masters.voters("forgotten").contains(&MIDDLE));
    the_fence_saves_the_resource(&held, &next);
    next.release().await;
    held.release().await;
    close([a, b]).await;
}
