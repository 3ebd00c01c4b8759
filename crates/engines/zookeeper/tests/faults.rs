//! Real failures of a real ensemble of three, through the public API.
//!
//! What is asked of each: nobody holds beside another, fences rise, a loss is told before the next grant, waiters are served in
//! order, and nothing is left behind.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "faults/stage.rs"]
mod stage;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bramah_core::{About, Claim, ClaimId, Engine, Exit, Keep, Name, Opening, SessionId, Standing, Wait};
use bramah_lab::{Loss, Proxy, ZooKeeper as Ensemble};
use bramah_zookeeper::ZooKeeper;
use sha2::Digest;
use stage::*;
use zookeeper_client::{Acls, Client, CreateMode};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_killed_costs_nobody_the_count() {
    let stage = stage().await;
    let harm = |ensemble: &Ensemble| {
        let leader = ensemble.leader().unwrap();
        ensemble.kill(leader).unwrap();
        let others: Vec<usize> = (0..3).filter(|member| *member != leader).collect();
        ensemble.await_leader(&others).unwrap();
        ensemble.start_again(leader).unwrap();
        ensemble.await_leader(&[0, 1, 2]).unwrap();
    };
    counts_under(&stage, 2, harm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_freezes_costs_nobody_the_count() {
    let stage = stage().await;
    let harm = |ensemble: &Ensemble| {
        let leader = ensemble.leader().unwrap();
        let follower = (0..3).find(|member| *member != leader).unwrap();
        ensemble.freeze(follower).unwrap();
        // Longer than a client waits for a silent member.
        std::thread::sleep(ms(4000));
        ensemble.thaw(follower).unwrap();
        ensemble.await_leader(&[0, 1, 2]).unwrap();
    };
    counts_under(&stage, 2, harm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_members_restarted_cost_nobody_the_count() {
    let stage = stage().await;
    let harm = |ensemble: &Ensemble| {
        (0..3).for_each(|member| ensemble.kill(member).unwrap());
        std::thread::scope(|scope| {
            (0..3).for_each(|member| drop(scope.spawn(move || ensemble.start_again(member).unwrap())));
        });
        ensemble.await_leader(&[0, 1, 2]).unwrap();
    };
    counts_under(&stage, 2, harm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_at_a_member_that_is_cut_off_knows_before_the_next_is_granted() {
    let stage = stage().await;
    cut_off_with(&stage, stage.follower()).await;
    cut_off_with(&stage, stage.ensemble.leader().unwrap()).await;
}

/// A minority that a holder is in.
async fn cut_off_with(stage: &Stage, member: usize) {
    // It knows of no other member, so it stays at this one.
    let (holder, _proxies) = stage.client(&[member], ms(3000)).await;
    let (next, _others) = stage.client(&stage.others(member), ms(3000)).await;
    let guard = Arc::new(lock(&holder, "x").await);
    let (lost, first) = (loss(&guard), guard.fence().unwrap());
    let granted = waiter(&next, "x");
    waiting(&next, "x", 1).await;
    stage.ensemble.isolate(member);
    let (granted, second) = soon("the next grant", granted).await.unwrap();
    let lost = soon("the loss", lost).await.unwrap();
    assert!(lost <= granted, "told {:?} after the next grant", lost.since(granted));
    assert!(second.fence().unwrap() > first);
    stage.ensemble.heal();
    tokio::task::block_in_place(|| stage.ensemble.await_leader(&[0, 1, 2])).unwrap();
    assert!(!guard.is_held() && second.is_held());
    second.release().await;
    // The one that was cut off takes part again.
    lock(&holder, "x").await.release().await;
    assert_eq!(holder.close(SOON).await.left, []);
    assert_eq!(next.close(SOON).await.left, []);
    stage.is_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_nobody_is_granted_anything_and_the_holder_gives_up_in_time() {
    let stage = stage().await;
    // At the leader, which answers for as long as it takes itself for one.
    let (holder, _proxies) = stage.client(&[stage.ensemble.leader().unwrap()], ms(3000)).await;
    let next = stage.session(ms(3000)).await;
    let guard = Arc::new(lock(&holder, "x").await);
    let (lost, first) = (loss(&guard), guard.fence().unwrap());
    let granted = waiter(&next, "x");
    waiting(&next, "x", 1).await;
    (0..3).for_each(|member| stage.ensemble.isolate(member));
    let cut = now();
    let lost = soon("the loss", lost).await.unwrap();
    // A ttl and a little: what a leader without followers answers keeps nothing.
    assert!(lost.since(cut) < ms(4000), "told after {:?}", lost.since(cut));
    assert!(!granted.is_finished(), "a grant without a majority");
    let error = holder.mutex("y").unwrap().lock_within(ms(300)).await.unwrap_err();
    assert!(error.kind().is_transient(), "{error}");
    stage.ensemble.heal();
    tokio::task::block_in_place(|| stage.ensemble.await_leader(&[0, 1, 2])).unwrap();
    let (granted, second) = soon("the grant after all", granted).await.unwrap();
    assert!(granted >= lost && second.fence().unwrap() > first);
    second.release().await;
    lock(&holder, "x").await.release().await;
    drop(guard);
    assert_eq!(holder.close(SOON).await.left, []);
    assert_eq!(next.close(SOON).await.left, []);
    stage.is_empty().await;
}

/// B40: the node goes with the session, and its holder has known since its own deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_is_cut_off_past_its_session_knows_before_the_next_is_granted() {
    let stage = stage().await;
    let (holder, proxies) = stage.client(&[0, 1, 2], ms(1500)).await;
    let next = stage.session(ms(5000)).await;
    for round in 0..3 {
        let guard = Arc::new(lock(&holder, "x").await);
        let (lost, first) = (loss(&guard), guard.fence().unwrap());
        let granted = waiter(&next, "x");
        waiting(&next, "x", 1).await;
        cut_off(&proxies);
        let (granted, second) = soon("the next grant", granted).await.unwrap();
        let lost = soon("the loss", lost).await.unwrap();
        assert!(lost <= granted, "round {round}: told {:?} after the next grant", lost.since(granted));
        assert!(second.fence().unwrap() > first);
        reconnect(&proxies);
        assert!(!guard.is_held() && second.is_held());
        second.release().await;
    }
    lock(&holder, "x").await.release().await;
    assert_eq!(holder.close(SOON).await.left, []);
    assert_eq!(next.close(SOON).await.left, []);
    stage.is_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_does_not_outlast_the_session_that_it_hangs_from() {
    let stage = stage().await;
    let (holder, proxies) = stage.client(&[0, 1, 2], ms(1500)).await;
    let next = stage.session(ms(5000)).await;
    let leased = holder.mutex("x").unwrap().lease(ms(60_000));
    let guard = Arc::new(soon("a grant", leased.lock()).await.unwrap());
    let lost = loss(&guard);
    let granted = waiter(&next, "x");
    waiting(&next, "x", 1).await;
    cut_off(&proxies);
    let (granted, second) = soon("the next grant", granted).await.unwrap();
    let lost = soon("the loss", lost).await.unwrap();
    assert!(lost <= granted, "told {:?} after the next grant", lost.since(granted));
    assert!(second.fence().unwrap() > guard.fence().unwrap());
    reconnect(&proxies);
    second.release().await;
    lock(&holder, "x").await.release().await;
    assert_eq!(holder.close(SOON).await.left, []);
    assert_eq!(next.close(SOON).await.left, []);
    stage.is_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_is_cut_off_past_its_session_is_passed_over_and_stands_at_the_end_when_it_is_back() {
    let stage = stage().await;
    let holder = stage.session(ms(10_000)).await;
    let (middle, proxies) = stage.client(&[0, 1, 2], ms(1500)).await;
    let last = stage.session(ms(10_000)).await;
    let guard = lock(&holder, "x").await;
    let second = waiter(&middle, "x");
    waiting(&holder, "x", 1).await;
    let third = waiter(&last, "x");
    waiting(&holder, "x", 2).await;
    cut_off(&proxies);
    // Its place goes with its session, and the one behind it still waits for the holder.
    waiting(&holder, "x", 1).await;
    assert!(!third.is_finished() && guard.is_held());
    reconnect(&proxies);
    waiting(&holder, "x", 2).await;
    let first = guard.fence().unwrap();
    guard.release().await;
    let (_, third) = soon("the turn of the last", third).await.unwrap();
    assert!(!second.is_finished(), "the one that was gone took its old place");
    assert!(third.fence().unwrap() > first);
    let fence = third.fence().unwrap();
    third.release().await;
    let (_, second) = soon("the turn of the one that was gone", second).await.unwrap();
    assert!(second.fence().unwrap() > fence);
    second.release().await;
    for session in [holder, middle, last] {
        assert_eq!(session.close(SOON).await.left, []);
    }
    stage.is_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_break_cost_nobody_the_lock() {
    let stage = stage().await;
    let (holder, proxies) = stage.client(&[0, 1, 2], ms(4000)).await;
    let (waits, others) = stage.client(&[0, 1, 2], ms(4000)).await;
    let guard = lock(&holder, "x").await;
    let second = waiter(&waits, "x");
    waiting(&holder, "x", 1).await;
    for _ in 0..5 {
        proxies.iter().chain(&others).for_each(Proxy::sever);
        // It is found again by what it says, and not by its connection.
        soon("a confirmation", async { while !matches!(guard.confirm().await, Ok(true)) {} }).await;
    }
    waiting(&holder, "x", 1).await;
    assert!(guard.is_held() && !second.is_finished());
    guard.release().await;
    let (_, second) = soon("the turn of who waited", second).await.unwrap();
    second.release().await;
    assert_eq!(holder.close(SOON).await.left, []);
    assert_eq!(waits.close(SOON).await.left, []);
    stage.is_empty().await;
}

/// Whether these bytes create a claim's node.
fn creates(bytes: &[u8]) -> bool {
    bytes.windows(5).any(|window| window == b"lock-") && bytes.windows(9).any(|window| window == b"bramah 1 ")
}

/// B41: the first try is found again by its id. What a client does that has none is in `traps.rs`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_creation_whose_answer_is_lost_leaves_one_node_and_no_ghost() {
    let stage = stage().await;
    let (session, proxies) = stage.client(&[0, 1, 2], ms(4000)).await;
    let other = stage.session(ms(4000)).await;
    lock(&session, "x").await.release().await;
    let raw = Client::connect(&stage.ensemble.connect_string()).await.unwrap();
    for loss in [Loss::Kill, Loss::Stall] {
        let lost = lose_next(&proxies, loss, creates);
        let guard = lock(&session, "x").await;
        assert!(lost.load(Ordering::SeqCst) > 0, "no creation was lost");
        // The ghost of the first try would be a second node, before ours, and nobody would get the lock any more.
        let alone = async {
            while raw.list_children("/faults/x").await.unwrap().len() != 1 {
                tokio::time::sleep(ms(10)).await;
            }
        };
        soon("one node", alone).await;
        assert!(guard.confirm().await.unwrap());
        proxies.iter().for_each(Proxy::lose_nothing);
        guard.release().await;
        lock(&other, "x").await.release().await;
    }
    assert_eq!(session.close(SOON).await.left, []);
    assert_eq!(other.close(SOON).await.left, []);
    stage.is_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_somebody_deletes_is_a_loss_that_is_told_at_once() {
    let stage = stage().await;
    // So long that no renewal tells.
    let session = stage.session(ms(38_000)).await;
    let guard = Arc::new(lock(&session, "x").await);
    let raw = Client::connect(&stage.ensemble.connect_string()).await.unwrap();
    let node = raw.list_children("/faults/x").await.unwrap().remove(0);
    let (deleted, lost) = (now(), loss(&guard));
    raw.delete(&format!("/faults/x/{node}"), None).await.unwrap();
    let lost = soon("the loss", lost).await.unwrap();
    assert!(lost.since(deleted) < ms(5000), "told after {:?}", lost.since(deleted));
    assert!(!guard.is_held());
    // A waiter whose node is deleted enters anew, at the end.
    let holder = lock(&session, "x").await;
    let waits = waiter(&session, "x");
    waiting(&session, "x", 1).await;
    let mut nodes = raw.list_children("/faults/x").await.unwrap();
    nodes.sort_by_key(|node| {
        node.chars().rev().take(10).collect::<Vec<_>>().into_iter().rev().collect::<String>()
    });
    raw.delete(&format!("/faults/x/{}", nodes[1]), None).await.unwrap();
    let anew = async {
        loop {
            let line = session.inspect(&Name::new("x").unwrap()).await.unwrap().unwrap();
            let now: Vec<String> = raw.list_children("/faults/x").await.unwrap();
            if line.waiters().count() == 1 && !now.contains(&nodes[1]) {
                return;
            }
            tokio::time::sleep(ms(10)).await;
        }
    };
    tokio::time::timeout(ms(5000), anew).await.expect("a waiter in line again, long before a renewal");
    holder.release().await;
    soon("its turn", waits).await.unwrap().1.release().await;
    assert_eq!(session.close(SOON).await.left, []);
    stage.is_empty().await;
}

/// Has the answer to the next such request lost, at whichever member. How many there were.
fn lose_next(proxies: &[Proxy], loss: Loss, is_it: fn(&[u8]) -> bool) -> Arc<AtomicUsize> {
    let lost = Arc::new(AtomicUsize::new(0));
    for proxy in proxies {
        let lost = lost.clone();
        proxy.lose_replies_matching(loss, move |bytes| {
            is_it(bytes) && lost.fetch_add(1, Ordering::SeqCst) == 0
        });
    }
    lost
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_is_given_up_before_it_was_answered_leaves_no_ghost() {
    let stage = stage().await;
    let (session, proxies) = stage.client(&[0, 1, 2], ms(4000)).await;
    let other = stage.session(ms(4000)).await;
    let guard = lock(&other, "x").await;
    let raw = Client::connect(&stage.ensemble.connect_string()).await.unwrap();
    for loss in [Loss::Kill, Loss::Stall] {
        let lost = lose_next(&proxies, loss, creates);
        let error = session.mutex("x").unwrap().lock_within(ms(200)).await.unwrap_err();
        assert!(error.kind().is_transient(), "{error}");
        assert!(lost.load(Ordering::SeqCst) > 0, "no creation was lost");
        let alone = async {
            while raw.list_children("/faults/x").await.unwrap().len() != 1 {
                tokio::time::sleep(ms(10)).await;
            }
        };
        soon("one node, the holder's", alone).await;
        proxies.iter().for_each(Proxy::lose_nothing);
    }
    guard.release().await;
    lock(&session, "x").await.release().await;
    assert_eq!(session.close(SOON).await.left, []);
    assert_eq!(other.close(SOON).await.left, []);
    stage.is_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_whose_transaction_was_not_answered_are_had_once() {
    let stage = stage().await;
    let (session, proxies) = stage.client(&[0, 1, 2], ms(4000)).await;
    let other = stage.session(ms(4000)).await;
    let raw = Client::connect(&stage.ensemble.connect_string()).await.unwrap();
    let draws = |bytes: &[u8]| bytes.windows(6).any(|window| window == b"lease-");
    for loss in [Loss::Kill, Loss::Stall] {
        let lost = lose_next(&proxies, loss, draws);
        let two = session.semaphore("pool", 3).unwrap().permits(2);
        let take = async {
            loop {
                match two.lock().await {
                    Ok(guard) => return guard,
                    Err(error) => assert!(error.kind().is_transient(), "{error}"),
                }
            }
        };
        let guard = soon("two permits", take).await;
        assert!(lost.load(Ordering::SeqCst) > 0, "no transaction was lost");
        proxies.iter().for_each(Proxy::lose_nothing);
        let counted = async {
            while raw.list_children("/faults/pool/leases").await.unwrap().len() != 2 {
                tokio::time::sleep(ms(10)).await;
            }
        };
        soon("two nodes", counted).await;
        assert!(guard.confirm().await.unwrap());
        let third =
            other.semaphore("pool", 3).unwrap().permits(1).try_lock().await.unwrap().expect("one is left");
        assert!(other.semaphore("pool", 3).unwrap().permits(1).try_lock().await.unwrap().is_none());
        third.release().await;
        guard.release().await;
    }
    assert_eq!(session.close(SOON).await.left, []);
    assert_eq!(other.close(SOON).await.left, []);
    stage.is_empty().await;
}

/// What the node of a claim has in its name.
fn uuid(id: ClaimId) -> String {
    let hash =
        sha2::Sha256::new().chain_update(id.session.bits().to_be_bytes()).chain_update(id.seq.to_be_bytes());
    let hex: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// B42: with the same id in its name, and not of our session. What a client does that goes by the name is in `traps.rs`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_another_session_is_not_taken_for_ours_although_its_name_is() {
    let stage = stage().await;
    let proxy = Proxy::to(&stage.ensemble.addresses()[0]).unwrap();
    let engine: Arc<dyn Engine> =
        ZooKeeper::from_url(&format!("zookeeper://{}/faults?connect_timeout=20s", proxy.address()))
            .unwrap()
            .into();
    let session = SessionId::random().unwrap();
    let opening = Opening::new(session, ms(10_000), Keep::Process, About::this_process());
    let ttl = engine.open(Arc::new(opening)).await.unwrap();
    let claim = |seq| Claim {
        id: ClaimId { session, seq },
        name: Name::new("x").unwrap(),
        capacity: 1,
        weight: 1,
        wait: Wait::Line,
        again: false,
        floor: None,
        ttl,
        lease: None,
        note: "".into(),
    };
    let first = Arc::new(claim(1));
    assert!(matches!(engine.claim(first.clone()).await.unwrap(), Standing::Held { .. }));
    engine.withdraw(first, Exit::Own).await.unwrap();
    // As if a session of ours before this one had left it.
    let raw = Client::connect(&stage.ensemble.connect_string()).await.unwrap();
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let prefix = format!("/faults/x/_c_{}-lock-", uuid(claim(2).id));
    let (_, old) = raw.create(&prefix, b"", &options).await.unwrap();
    let lost = lose_next(std::slice::from_ref(&proxy), Loss::Kill, creates);
    assert!(engine.claim(Arc::new(claim(2))).await.is_err(), "the answer was lost");
    assert_eq!(lost.load(Ordering::SeqCst), 1);
    proxy.lose_nothing();
    raw.sync("/").await.unwrap();
    let nodes = raw.list_children("/faults/x").await.unwrap();
    assert_eq!(nodes.len(), 2, "the test's own premise: {nodes:?}");
    let ours = nodes.iter().find(|node| !node.ends_with(&old.to_string())).unwrap();
    raw.delete(&format!("/faults/x/{ours}"), None).await.unwrap();
    let asked = async {
        loop {
            match engine.claim(Arc::new(claim(2).asking())).await {
                Ok(standing) => return standing,
                Err(_) => tokio::time::sleep(ms(50)).await,
            }
        }
    };
    let standing = soon("an answer", asked).await;
    assert!(matches!(standing, Standing::Gone), "{standing:?}");
    engine.close(session).await.unwrap();
}
