//! A slot moves from one node of a cluster to another while its locks are in use.

use std::time::Duration;

use bramah_core::{ErrorKind, Release};
use bramah_lab::{Cluster, servers::Flavor};

use crate::rig::*;

const NAME: &str = "moving";

/// A cluster, the URL of it, and the slot's nodes before and after.
fn cluster(layout: Layout) -> (Cluster, String, u16, usize, usize) {
    let cluster = Cluster::start(Flavor::Redis7).unwrap();
    let url = layout.url(&format!("redis+cluster://{}", cluster.addresses().join(",")));
    // The name is the tag of the native key, and the plain key itself.
    let slot = Cluster::slot_of(NAME);
    let from = cluster.node_of(slot).unwrap();
    (cluster, url, slot, from, (from + 1) % 3)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn a_slot_moves_under_a_hold_and_a_line_and_the_hand_over_is_pushed_from_its_new_node() {
    on_all(|layout| async move {
        let (cluster, url, slot, from, to) = cluster(layout);
        let ttl = ms(15_000);
        let (a, b, c) = (open(&url, ttl).await, open(&url, ttl).await, open(&url, ttl).await);
        let ledger = Ledger::strict();
        let held = ledger.lock(&mutex(&a, NAME)).await;
        let first = wait_for(&ledger, &mutex(&b, NAME));
        await_line(&cluster.nodes()[from], layout, NAME, 2).await;
        let second = wait_for(&ledger, &mutex(&c, NAME));
        await_line(&cluster.nodes()[from], layout, NAME, 3).await;

        cluster.move_slot(slot, from, to).unwrap();

        assert!(held.confirm().await.unwrap(), "it has moved along");
        await_ears(&cluster, to, layout, 2).await;
        let mut released = now();
        assert_eq!(held.release().await, Release::Released);
        let (mut first, mut second) = (first, second);
        let (served, rest, in_order) = tokio::select! {
            served = &mut first => (served.unwrap(), second, true),
            served = &mut second => (served.unwrap(), first, false),
        };
        assert!(in_order || layout != Layout::Native, "the line was turned around");
        let mut spans = vec![now().since(released)];
        released = now();
        assert_eq!(served.release().await, Release::Released);
        let served = rest.await.unwrap();
        spans.push(now().since(released));
        assert_eq!(served.release().await, Release::Released);
        // Pushed, and not found by the next renewal (1.6 s) or poll (half a second at the earliest).
        spans.extend(hand_overs(&cluster, to, layout, &ledger, [&a, &b], 5).await);
        spans.sort();
        assert!(spans[spans.len() / 2] < ms(150), "handed over by a timer: {spans:?}");
        close_all([a, b, c], &cluster.nodes().iter().collect::<Vec<_>>()).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn in_the_middle_of_a_move_holds_are_kept_and_handed_over_and_afterwards_all_is_as_before() {
    on_all(|layout| async move {
        let (cluster, url, slot, from, to) = cluster(layout);
        let ttl = ms(6000);
        let (a, b) = (open(&url, ttl).await, open(&url, ttl).await);
        let ledger = Ledger::strict();
        let held = ledger.lock(&mutex(&a, NAME)).await;
        let waiting = wait_for(&ledger, &mutex(&b, NAME));
        await_line(&cluster.nodes()[from], layout, NAME, 2).await;

        cluster.begin_move(slot, from, to).unwrap();
        // The keys are still at home.
        assert!(held.confirm().await.unwrap());
        cluster.move_keys(slot, from, to).unwrap();
        // Now every request is sent on with ASK.
        assert!(held.confirm().await.unwrap());
        let (asked, before) = (now(), held.remaining());
        eventually("a renewal through ASK", PATIENCE, || {
            let passed = now().since(asked);
            if held.remaining() + passed > before + ms(500) { Ok(()) } else { Err("none yet".into()) }
        })
        .await;
        assert_eq!(held.release().await, Release::Released);
        if layout == Layout::Native {
            // The line is there, with its mark: it is handed over in the middle of the move.
            assert_eq!(waiting.await.unwrap().release().await, Release::Released);
            cluster.end_move(slot, from, to).unwrap();
        } else {
            // A free plain lock has one key of the two that are needed, and a cluster refuses that until the end.
            cluster.end_move(slot, from, to).unwrap();
            assert_eq!(waiting.await.unwrap().release().await, Release::Released);
        }
        for lock in [mutex(&a, NAME), mutex(&b, NAME)] {
            assert_eq!(ledger.persist(&lock).await.release().await, Release::Released);
        }
        let spans = hand_overs(&cluster, to, layout, &ledger, [&a, &b], 5).await;
        assert!(spans[2] < ms(150), "handed over by a timer: {spans:?}");
        close_all([a, b], &cluster.nodes().iter().collect::<Vec<_>>()).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn a_free_lock_in_the_middle_of_a_move_is_refused_clearly_and_had_afterwards() {
    on_all(|layout| async move {
        let (cluster, url, slot, from, to) = cluster(layout);
        // Long enough to be told why, and not only that there was no answer in time.
        let session = open(&url, ms(6000)).await;
        let ledger = Ledger::strict();
        ledger.lock(&mutex(&session, NAME)).await.release().await;
        cluster.begin_move(slot, from, to).unwrap();
        cluster.move_keys(slot, from, to).unwrap();
        let mut silences = 0;
        loop {
            let why = match mutex(&session, NAME).lock_within(ms(3000)).await {
                Ok(guard) => {
                    ledger.granted(guard).release().await;
                    break;
                }
                Err(why) => why,
            };
            assert_eq!(why.kind(), ErrorKind::Unavailable, "{why}");
            let told = ["is moving the keys", "when the cluster has settled"];
            if told.iter().any(|words| why.to_string().contains(words)) {
                break;
            }
            // A machine that is short of time may not be told within it.
            silences += 1;
            assert!(silences < 10, "{why}");
        }
        cluster.end_move(slot, from, to).unwrap();
        ledger.persist(&mutex(&session, NAME)).await.release().await;
        close_all([session], &cluster.nodes().iter().collect::<Vec<_>>()).await;
    })
    .await;
}

/// The keys of a slot move one by one, and each time it takes a while: now the lock is on one node and its mark on the other,
/// now it is the other way round.
#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn a_hold_is_kept_and_released_while_the_keys_of_its_slot_are_on_two_nodes() {
    on_all(|layout| async move {
        let (cluster, url, slot, from, to) = cluster(layout);
        let ttl = ms(6000);
        let (a, b, c) = (open(&url, ttl).await, open(&url, ttl).await, open(&url, ttl).await);
        let ledger = Ledger::strict();
        // The name has a mark, or a token, before anything moves.
        ledger.lock(&mutex(&a, NAME)).await.release().await;
        let held = ledger.lock(&mutex(&a, NAME)).await;
        let waiting = wait_for(&ledger, &mutex(&b, NAME));
        await_line(&cluster.nodes()[from], layout, NAME, 2).await;

        cluster.begin_move(slot, from, to).unwrap();
        let keys = cluster.keys_in(slot, from).unwrap();
        assert!(keys.len() >= 2, "there is nothing to take apart: {keys:?}");
        for key in keys.iter().take(keys.len() - 1) {
            cluster.move_key(key, from, to).unwrap();
            // Longer than it can go without a renewal.
            let (asked, mut renewals, mut left) = (now(), 0, held.remaining());
            while now().since(asked) < ttl + ms(1000) {
                assert!(held.is_held(), "lost after {:?} with {key} on its way", now().since(asked));
                if held.remaining() > left {
                    renewals += 1;
                }
                left = held.remaining();
                nap(ms(20)).await;
            }
            assert!(renewals > 0);
            if layout != Layout::Redisson {
                assert!(held.confirm().await.unwrap(), "{layout:?}: {key}");
            }
        }
        // A release does not wait for the end of the move, nor does it take the next one's place away.
        assert_eq!(held.release().await, Release::Released);
        cluster.move_keys(slot, from, to).unwrap();
        cluster.end_move(slot, from, to).unwrap();
        match tokio::time::timeout(PATIENCE, waiting).await.unwrap() {
            Ok(next) => assert_eq!(next.release().await, Release::Released),
            // Without a line whoever waits asks for a free lock, and may have been told that its slot is on its way.
            Err(why) => assert!(layout != Layout::Native, "{why}"),
        }
        ledger.persist(&mutex(&c, NAME)).await.release().await;
        close_all([a, b, c], &cluster.nodes().iter().collect::<Vec<_>>()).await;
    })
    .await;
}

/// Where a key that is not there cannot be made, a lock of one cannot become a line of two: whoever comes waits for the end of
/// the move, and takes nothing from the holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn a_hold_is_kept_when_somebody_comes_to_wait_while_its_slot_moves_away() {
    on_all(|layout| async move {
        let (cluster, url, slot, from, to) = cluster(layout);
        let ttl = ms(6000);
        let (a, b) = (open(&url, ttl).await, open(&url, ttl).await);
        let ledger = Ledger::strict();
        // The name has a mark, or a token, before anything moves.
        ledger.lock(&mutex(&a, NAME)).await.release().await;
        let held = ledger.lock(&mutex(&a, NAME)).await;

        cluster.begin_move(slot, from, to).unwrap();
        // It may be told that the slot is on its way, and asks again.
        let (theirs, lock) = (ledger.clone(), mutex(&b, NAME));
        let waiting = tokio::spawn(async move { theirs.persist(&lock).await });
        // Longer than the hold lasts without a renewal.
        let began = now();
        while now().since(began) < ttl + ms(1000) {
            assert!(held.is_held(), "lost after {:?}", now().since(began));
            assert!(!waiting.is_finished(), "there are two, or it gave up");
            nap(ms(20)).await;
        }
        assert!(held.confirm().await.unwrap());
        cluster.move_keys(slot, from, to).unwrap();
        cluster.end_move(slot, from, to).unwrap();

        await_line(&cluster.nodes()[to], layout, NAME, 2).await;
        assert!(held.confirm().await.unwrap(), "it has moved along");
        assert_eq!(held.release().await, Release::Released);
        let next = tokio::time::timeout(PATIENCE, waiting).await.unwrap().unwrap();
        assert_eq!(next.release().await, Release::Released);
        close_all([a, b], &cluster.nodes().iter().collect::<Vec<_>>()).await;
    })
    .await;
}

/// Of two locks in one slot each is kept while they are on different nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn two_holds_of_one_slot_are_kept_while_they_are_on_two_nodes() {
    on_both(|layout| async move {
        let (cluster, url, slot, from, to) = cluster(layout);
        // A name with a tag is in the slot of that in the plain layout; in the native one it takes another name of the slot.
        let other = (0..).map(|n| format!("moving-{n}")).find(|name| Cluster::slot_of(name) == slot).unwrap();
        let ttl = ms(4000);
        let a = open(&url, ttl).await;
        let held = [mutex(&a, NAME).lock().await.unwrap(), mutex(&a, &other).lock().await.unwrap()];
        cluster.begin_move(slot, from, to).unwrap();
        let keys = cluster.keys_in(slot, from).unwrap();
        let key = keys.iter().find(|key| key.contains(&other)).unwrap();
        cluster.move_key(key, from, to).unwrap();
        let began = now();
        while now().since(began) < ttl + ms(1000) {
            assert!(held.iter().all(bramah_core::Guard::is_held), "after {:?}", now().since(began));
            nap(ms(20)).await;
        }
        cluster.move_keys(slot, from, to).unwrap();
        cluster.end_move(slot, from, to).unwrap();
        for guard in held {
            assert_eq!(guard.release().await, Release::Released);
        }
        close_all([a], &cluster.nodes().iter().collect::<Vec<_>>()).await;
    })
    .await;
}

/// How long it takes from release to grant, sorted.
async fn hand_overs(
    cluster: &Cluster,
    node: usize,
    layout: Layout,
    ledger: &std::sync::Arc<Ledger>,
    [a, b]: [&bramah_core::Session; 2],
    times: usize,
) -> Vec<Duration> {
    let mut spans = Vec::new();
    for _ in 0..times {
        let held = ledger.lock(&mutex(a, NAME)).await;
        let waiting = wait_for(ledger, &mutex(b, NAME));
        await_line(&cluster.nodes()[node], layout, NAME, 2).await;
        await_ears(cluster, node, layout, 1).await;
        let released = now();
        assert_eq!(held.release().await, Release::Released);
        let next = waiting.await.unwrap();
        spans.push(now().since(released));
        assert_eq!(next.release().await, Release::Released);
    }
    spans.sort();
    spans
}

/// Waits until so many are told by this node of what happens there.
async fn await_ears(cluster: &Cluster, node: usize, layout: Layout, count: usize) {
    let node = &cluster.nodes()[node];
    eventually("those who listen", PATIENCE, || {
        let there = match layout {
            Layout::Native => node.call(&["PUBSUB", "SHARDCHANNELS"])?.many().len(),
            Layout::Plain | Layout::Redisson => {
                let stats = node.call(&["INFO", "stats"])?.text();
                let keys = stats.lines().find_map(|line| line.strip_prefix("tracking_total_items:"));
                keys.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
            }
        };
        if there >= count { Ok(()) } else { Err(format!("{there} of {count}")) }
    })
    .await;
}
