//! Many at once.

mod rig;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah_core::{Claim, Standing, Wait, Woken};
use rig::{Client, Dir};

/// A counter that loses updates when two add to it at a time.
#[derive(Default)]
struct Tally(AtomicU64);

impl Tally {
    async fn add(&self) {
        let seen = self.0.load(Ordering::Relaxed);
        tokio::task::yield_now().await;
        self.0.store(seen + 1, Ordering::Relaxed);
    }
}

const TASKS: u64 = 8;
const ROUNDS: u64 = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_engines_with_many_threads_count_exactly() {
    let dir = Dir::new();
    let tally = Arc::new(Tally::default());
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let engine = Client::new(&dir).engine;
        for _ in 0..TASKS {
            let (client, tally) = (Client::on(engine.clone()), Arc::clone(&tally));
            tasks.push(tokio::spawn(async move {
                let mut last = None;
                for _ in 0..ROUNDS {
                    let (claim, fence) = client.lock("x").await;
                    assert!(Some(fence) > last);
                    last = Some(fence);
                    tally.add().await;
                    client.withdraw(&claim).await;
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(tally.0.load(Ordering::Relaxed), 2 * TASKS * ROUNDS);
}

/// Without waiting: everyone tries, so that the ledger itself is fought for.
#[test]
fn threads_that_only_try_never_hold_together() {
    let dir = Dir::new();
    let inside = AtomicU64::new(0);
    let engines = [Client::new(&dir).engine, Client::new(&dir).engine];
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (engine, inside) = (engines[number % 2].clone(), &inside);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let client = Client::on(engine);
                let mut held = 0;
                while held < 25 {
                    let claim = client.draft("x", Wait::No);
                    if let Standing::Held { .. } = runtime.block_on(client.claim(&claim)).unwrap() {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        held += 1;
                        runtime.block_on(client.withdraw(&claim));
                    }
                    std::thread::yield_now();
                }
            });
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_semaphore_lets_in_as_many_as_fit_and_no_more() {
    let dir = Dir::new();
    let (inside, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for number in 0..12u32 {
        let (client, inside, most) = (Client::new(&dir), Arc::clone(&inside), Arc::clone(&most));
        tasks.push(tokio::spawn(async move {
            for _ in 0..20 {
                let claim = Claim { capacity: 4, weight: 1 + number % 3, ..client.draft("s", Wait::Line) };
                let mut standing = client.claim(&claim).await.unwrap();
                while let Standing::Queued { wake, sleep, .. } = standing {
                    if let Ok(Woken::Held(_)) = tokio::time::timeout(sleep, wake).await {
                        break;
                    }
                    standing = client.ask(&claim).await.unwrap();
                }
                let now =
                    inside.fetch_add(u64::from(claim.weight), Ordering::SeqCst) + u64::from(claim.weight);
                most.fetch_max(now, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_micros(200)).await;
                inside.fetch_sub(u64::from(claim.weight), Ordering::SeqCst);
                client.withdraw(&claim).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let most = most.load(Ordering::SeqCst);
    assert!((2..=4).contains(&most), "{most}");
}

/// Waiters of one process and of another stand in one line; a hand-over between them is pushed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_hand_over_between_processes_is_pushed() {
    let dir = Dir::new();
    let clients = [Client::new(&dir), Client::new(&dir)];
    let (mut held, _) = clients[0].lock("x").await;
    for round in 0..200 {
        let next = clients[(round + 1) % 2].draft("x", Wait::Line);
        let Standing::Queued { wake, .. } = clients[(round + 1) % 2].claim(&next).await.unwrap() else {
            panic!()
        };
        clients[round % 2].withdraw(&held).await;
        assert!(matches!(rig::woken(wake).await, Woken::Held(Some(_))));
        held = next;
    }
}
