//! What other clients of ZooKeeper fell for, on an ensemble of three. Each test has a client beside ours that does what is easily written,
//! and shows what becomes of it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "traps/naive.rs"]
mod naive;
#[path = "faults/stage.rs"]
mod stage;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use bramah_core::Name;
use bramah_lab::{Loss, Proxy};
use naive::{Naive, Ticket};
use stage::*;

/// B40: a client that is cut off past its session loses its node, and nobody can tell it. One without a clock of its own goes on as if it
/// had the lock, beside the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_lost_is_known_by_our_clock_and_not_to_one_that_waits_to_be_told() {
    let stage = stage().await;
    let (holder, ways) = stage.client(&[0, 1, 2], ms(1500)).await;
    let next = stage.session(ms(10_000)).await;
    let proxies = stage.ensemble.proxies().unwrap();
    // Its driver gives a session up by itself two fifths of its time after ZooKeeper does.
    let naive = Naive::connect(&proxies, ms(6000)).await;
    let node = naive.create("naive").await.unwrap();
    let told = naive.end_of("naive", &node).await;
    let guard = Arc::new(lock(&holder, "ours").await);
    let lost = loss(&guard);
    let (beside, after) = (waiter(&next, "naive"), waiter(&next, "ours"));
    waiting(&next, "naive", 1).await;
    waiting(&next, "ours", 1).await;
    cut_off(&proxies);
    cut_off(&ways);
    let (_, beside) = soon("the grant beside the naive one", beside).await.unwrap();
    assert!(!told.is_finished(), "the test's own premise: nobody told it, and it believes still");
    let (granted, after) = soon("the grant after ours", after).await.unwrap();
    assert!(soon("the loss", lost).await.unwrap() <= granted, "told after the next grant");
    assert!(beside.is_held() && after.is_held() && !guard.is_held());
    told.abort();
    let _ = told.await;
    drop((naive, guard));
    reconnect(&proxies);
    reconnect(&ways);
    beside.release().await;
    after.release().await;
    lock(&holder, "ours").await.release().await;
    stage.settled([holder, next]).await;
}

/// B40: somebody who knows a session's id and password closes it. Nobody can be told of that before the next is granted, but at once it
/// is, and by far sooner than with the next renewal; those who wait are served in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_closed_by_force_is_told_at_once_and_the_line_goes_on() {
    let stage = stage().await;
    let (holder, proxies) = stage.client(&[0, 1, 2], ms(20_000)).await;
    let (second, third) = (stage.session(ms(20_000)).await, stage.session(ms(20_000)).await);
    for who in ["a holder", "a waiter"] {
        let guard = Arc::new(lock(if who == "a holder" { &holder } else { &third }, "x").await);
        let robbed = (who == "a waiter").then(|| waiter(&holder, "x"));
        if robbed.is_some() {
            waiting(&second, "x", 1).await;
        }
        let ticket = overheard(&proxies).await;
        let next = waiter(&second, "x");
        waiting(&second, "x", if robbed.is_some() { 2 } else { 1 }).await;
        let (lost, before) = (loss(&guard), guard.fence().unwrap());
        let address = stage.ensemble.addresses().remove(stage.follower());
        // Meanwhile it does not take its session back: a member may leave one that does so unanswered, and its driver waits for that.
        cut_off(&proxies);
        tokio::task::block_in_place(|| ticket.close(&address)).unwrap();
        reconnect(&proxies);
        let closed = now();
        if let Some(robbed) = robbed {
            // It stands in line again, at the end.
            let at_the_end = async {
                loop {
                    let line = second.inspect(&Name::new("x").unwrap()).await.ok().flatten();
                    let last =
                        line.and_then(|line| Some((line.places.len(), line.places.last()?.claim.id.session)));
                    if last == Some((3, holder.id())) {
                        return;
                    }
                    tokio::time::sleep(ms(10)).await;
                }
            };
            soon("a place at the end", at_the_end).await;
            assert!(guard.is_held() && !next.is_finished() && !robbed.is_finished());
            lost.abort();
            // The task has its share of the guard until it has ended.
            let _ = lost.await;
            Arc::into_inner(guard).unwrap().release().await;
            let (_, next) = soon("who was behind", next).await.unwrap();
            assert!(next.fence().unwrap() > before && !robbed.is_finished());
            next.release().await;
            soon("who was robbed", robbed).await.unwrap().1.release().await;
            continue;
        }
        let told = soon("the loss", lost).await.unwrap();
        // A renewal comes every 6.6 s.
        assert!(told.since(closed) < ms(5000), "told after {:?}", told.since(closed));
        let (_, next) = soon("the next grant", next).await.unwrap();
        assert!(!guard.is_held() && next.fence().unwrap() > before);
        next.release().await;
    }
    stage.settled([holder, second, third]).await;
}

/// What a client says of its session when it connects anew.
async fn overheard(proxies: &[Proxy]) -> Ticket {
    let heard: Arc<Mutex<Option<Ticket>>> = Arc::default();
    for proxy in proxies {
        let heard = heard.clone();
        proxy.lose_replies_matching(Loss::Kill, move |bytes| {
            if let Some(ticket) = Ticket::read(bytes) {
                *heard.lock().unwrap() = Some(ticket);
            }
            false
        });
    }
    proxies.iter().for_each(Proxy::sever);
    let ticket = async {
        loop {
            if let Some(ticket) = heard.lock().unwrap().take() {
                return ticket;
            }
            tokio::time::sleep(ms(10)).await;
        }
    };
    let ticket = soon("a new connection of the session", ticket).await;
    proxies.iter().for_each(Proxy::lose_nothing);
    ticket
}

/// B41: a creation whose answer is lost, and which is sent again, is there twice. Who finds its node by an id has one; who does not waits
/// for itself, and everybody behind it for a ghost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_creation_whose_answer_is_lost_is_found_by_us_and_a_ghost_to_one_that_sends_it_again() {
    let stage = stage().await;
    let (session, ways) = stage.client(&[0, 1, 2], ms(5000)).await;
    let other = stage.session(ms(5000)).await;
    let proxies = stage.ensemble.proxies().unwrap();
    let naive = Naive::connect(&proxies, ms(5000)).await;
    lose_one(&proxies);
    assert!(naive.create("naive").await.is_err(), "no answer was lost");
    proxies.iter().for_each(Proxy::lose_nothing);
    let node = naive.create_again("naive").await;
    let line = naive.line("naive").await;
    assert_eq!(line.len(), 2, "the test's own premise: {line:?}");
    assert_eq!(line[1], node, "it stands behind its own ghost");
    let behind = waiter(&other, "naive");
    waiting(&other, "naive", 2).await;
    naive.delete("naive", &node).await;
    waiting(&other, "naive", 1).await;
    assert!(!behind.is_finished(), "the ghost keeps everybody out");
    naive.make_folder("ours").await.unwrap();
    let lost = lose_one(&ways);
    let guard = lock(&session, "ours").await;
    assert!(lost.load(Ordering::SeqCst) > 0, "no answer was lost");
    let alone = async {
        while naive.line("ours").await.len() != 1 {
            tokio::time::sleep(ms(10)).await;
        }
    };
    soon("one node", alone).await;
    assert!(guard.confirm().await.unwrap());
    ways.iter().for_each(Proxy::lose_nothing);
    guard.release().await;
    lock(&other, "ours").await.release().await;
    // Only the end of its session ends the ghost.
    drop(naive);
    soon("who was behind the ghost", behind).await.unwrap().1.release().await;
    stage.settled([session, other]).await;
}

/// Loses the answer to the next creation of a lock's node.
fn lose_one(proxies: &[Proxy]) -> Arc<AtomicUsize> {
    let lost = Arc::new(AtomicUsize::new(0));
    for proxy in proxies {
        let lost = lost.clone();
        proxy.lose_replies_matching(Loss::Kill, move |bytes| {
            let creates = bytes.windows(5).any(|window| window == b"lock-")
                && bytes.windows(5).any(|window| window == b"world");
            creates && lost.fetch_add(1, Ordering::SeqCst) == 0
        });
    }
    lost
}

/// B42: a client that comes back with a new session sees the node of its last one, which ZooKeeper has not dropped yet. Who knows it by its
/// name alone takes it for its own, and has it taken away. That ours looks whose it is: `faults.rs`,
/// `a_node_of_another_session_is_not_taken_for_ours_although_its_name_is`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_a_session_before_is_a_lock_to_one_that_goes_by_its_name_and_none_to_us() {
    let stage = stage().await;
    let (holder, ways) = stage.client(&[0, 1, 2], ms(3000)).await;
    let next = stage.session(ms(10_000)).await;
    let proxies = stage.ensemble.proxies().unwrap();
    let before = Naive::connect(&proxies, ms(6000)).await;
    let node = before.create("naive").await.unwrap();
    let old = lock(&holder, "ours").await;
    let (beside, after) = (waiter(&next, "naive"), waiter(&next, "ours"));
    waiting(&next, "naive", 1).await;
    waiting(&next, "ours", 1).await;
    cut_off(&proxies);
    cut_off(&ways);
    // It begins anew, and looks for the node that it has.
    let others = stage.ensemble.proxies().unwrap();
    let again = Naive::connect(&others, ms(6000)).await;
    assert_eq!(
        again.line("naive").await.first(),
        Some(&node),
        "the test's own premise: it believes to hold it"
    );
    let (_, beside) = soon("the grant beside it", beside).await.unwrap();
    assert!(again.is_connected() && beside.is_held(), "its session lives, and another has the lock");
    let (_, after) = soon("the grant after ours", after).await.unwrap();
    assert!(!old.is_held());
    reconnect(&ways);
    drop(old);
    // Ours is back, with a session of its own that has nothing: it stands behind.
    let anew = waiter(&holder, "ours");
    waiting(&next, "ours", 1).await;
    assert!(after.is_held() && !anew.is_finished());
    beside.release().await;
    after.release().await;
    soon("its turn", anew).await.unwrap().1.release().await;
    drop((before, again));
    reconnect(&proxies);
    stage.settled([holder, next]).await;
}

/// B43: a member that was cut off answers reads for a while, with what was true before. Who looks there whether it holds its lock is
/// told so although another has it; ours has a majority agree, and is told nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_is_behind_confirms_a_lost_lock_to_one_that_reads_and_not_to_us() {
    // A member that hears of nobody goes on answering for eight seconds.
    let stage = stage_with(&[("syncLimit", "40")]).await;
    let follower = stage.follower();
    let (holder, _ways) = stage.client(&[follower], ms(6000)).await;
    let (next, _others) = stage.client(&stage.others(follower), ms(6000)).await;
    let proxy = Proxy::to(&stage.ensemble.addresses()[follower]).unwrap();
    let naive = Naive::connect(std::slice::from_ref(&proxy), ms(6000)).await;
    let node = naive.create("naive").await.unwrap();
    let guard = lock(&holder, "ours").await;
    assert!(guard.confirm().await.unwrap());
    let (beside, after) = (waiter(&next, "naive"), waiter(&next, "ours"));
    waiting(&next, "naive", 1).await;
    waiting(&next, "ours", 1).await;
    stage.ensemble.isolate(follower);
    // The others go on, and end both holds.
    for name in ["naive", "ours"] {
        let line = next.inspect(&Name::new(name).unwrap()).await.unwrap().unwrap();
        assert!(next.break_hold(&line.name, line.places[0].claim.id.tag(), "a test").await.unwrap());
    }
    let (_, beside) = soon("the grant beside the naive one", beside).await.unwrap();
    let (_, after) = soon("the grant after ours", after).await.unwrap();
    let third = lock(&next, "free").await;
    let line = naive.line("naive").await;
    assert_eq!(line.first(), Some(&node), "the test's own premise: it is told that it holds it still");
    assert!(naive.line("free").await.is_empty(), "the test's own premise: it is told that nobody has it");
    let confirmed = guard.confirm().await;
    assert!(!matches!(confirmed, Ok(true)), "{confirmed:?} while another has it");
    let tried = holder.mutex("free").unwrap().try_lock().await;
    assert!(!matches!(tried, Ok(Some(_))), "granted while another has it");
    assert!(beside.is_held() && after.is_held() && third.is_held());
    drop(naive);
    stage.ensemble.heal();
    tokio::task::block_in_place(|| stage.ensemble.await_leader(&[0, 1, 2])).unwrap();
    soon("the loss", guard.lost()).await;
    for guard in [beside, after, third] {
        guard.release().await;
    }
    lock(&holder, "ours").await.release().await;
    drop((guard, tried));
    stage.settled([holder, next]).await;
}

/// B43: the one ahead goes, and somebody is ahead of that. Who takes its end for its own turn has the lock beside the holder; ours lists
/// the line again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_the_one_ahead_is_a_grant_to_one_that_does_not_look_again_and_none_to_us() {
    let stage = stage().await;
    let (a, b) = (stage.session(ms(10_000)).await, stage.session(ms(10_000)).await);
    let guard = lock(&a, "x").await;
    let direct = stage.ensemble.proxies().unwrap();
    let (middle, last) = (Naive::connect(&direct, ms(6000)).await, Naive::connect(&direct, ms(6000)).await);
    let node = middle.create("x").await.unwrap();
    last.create("x").await.unwrap();
    let naive = last.end_of("x", &node).await;
    waiting(&a, "x", 2).await;
    let ours = waiter(&b, "x");
    waiting(&a, "x", 3).await;
    // The one in the middle goes, and then the one ahead of ours.
    drop(middle);
    soon("what the last takes for its turn", naive).await.unwrap();
    assert!(guard.is_held(), "the test's own premise: two believe to hold it");
    drop(last);
    waiting(&a, "x", 1).await;
    // Longer than it takes to be told.
    tokio::time::sleep(ms(500)).await;
    assert!(guard.is_held() && !ours.is_finished(), "two hold it");
    guard.release().await;
    soon("the turn of ours", ours).await.unwrap().1.release().await;
    stage.settled([a, b]).await;
}
