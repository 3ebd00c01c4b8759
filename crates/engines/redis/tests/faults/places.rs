//! Somebody in line is cut off or dies: the others do not wait for its ttl.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use bramah_core::{Claim, Release};
use bramah_lab::{Fault, Proxy};

use crate::rig::*;

/// Longer by far than a place in line is kept.
const TTL: Duration = Duration::from_secs(30);

/// What the others may have to wait for: the place is kept that long without a word, then the grant that was pushed to
/// it is, and then somebody has to ask.
const LONGEST: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_front_waiter_that_is_cut_off_holds_the_others_up_for_seconds_and_not_for_its_ttl() {
    on_both(|layout| async move {
        let server = server(&[]);
        let url = layout.url(&server.url());
        let proxy = Proxy::to(&server.address()).unwrap();
        let (a, c) = (open(&url, TTL).await, open(&url, TTL).await);
        let b = open(&layout.url(&format!("redis://{}", proxy.address())), TTL).await;
        let ledger = Ledger::strict();
        let held = ledger.lock(&mutex(&a, "front")).await;
        let cut_off = tokio::spawn({
            let (ledger, lock) = (ledger.clone(), mutex(&b, "front"));
            async move { ledger.persist(&lock).await }
        });
        await_line(&server, layout, "front", 2).await;
        let third = wait_for(&ledger, &mutex(&c, "front"));
        await_line(&server, layout, "front", 3).await;

        proxy.requests(Fault::Hold);
        proxy.replies(Fault::Hold);
        let released = now();
        assert_eq!(held.release().await, Release::Released);
        let next = tokio::time::timeout(LONGEST, third).await.expect("it waited for the ttl").unwrap();
        let waited = now().since(released);
        if layout == Layout::Native {
            assert!(waited > ms(1000), "it was its neighbour's turn: {waited:?}");
            assert!(waited > Claim::MAX_KEPT / 2 && waited < LONGEST, "{waited:?}");
        }
        proxy.requests(Fault::Pass);
        proxy.replies(Fault::Pass);
        // Back again, it must not believe the grant that was held up on its way.
        nap(ms(300)).await;
        assert!(next.confirm().await.unwrap());
        assert_eq!(next.release().await, Release::Released);
        let back = tokio::time::timeout(PATIENCE, cut_off).await.expect("it is back").unwrap();
        assert_eq!(back.release().await, Release::Released);
        close_all([a, b, c], &[&server]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_that_is_killed_in_line_holds_the_others_up_for_seconds_and_not_for_its_ttl() {
    on_both(|layout| async move {
        let server = server(&[]);
        let url = layout.url(&server.url());
        let (a, c) = (open(&url, TTL).await, open(&url, TTL).await);
        let ledger = Ledger::strict();
        let held = ledger.lock(&mutex(&a, "front")).await;
        let mut child = Waiting::start(&url);
        await_line(&server, layout, "front", 2).await;
        let third = wait_for(&ledger, &mutex(&c, "front"));
        await_line(&server, layout, "front", 3).await;
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        let released = now();
        assert_eq!(held.release().await, Release::Released);
        let next = tokio::time::timeout(LONGEST, third).await.expect("it waited for the ttl").unwrap();
        assert!(now().since(released) < LONGEST);
        assert_eq!(next.release().await, Release::Released);
        for session in [a, c] {
            assert!(session.close(PATIENCE).await.left.is_empty());
        }
        // Nobody is left who could remove the record of the dead session; the store drops it by itself.
        let left = leftovers(&server).unwrap();
        assert!(left.iter().all(|key| key.starts_with("bramah:session:")), "{left:?}");
        assert_eq!(left.len(), 1, "{left:?}");
    })
    .await;
}

const URL: &str = "BRAMAH_FAULTS_WAIT_AT";

/// This test program once more, as a process that waits for the lock.
struct Waiting(Child);

impl Waiting {
    fn start(url: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "places::a_process_that_waits", "--ignored", "--nocapture"])
            .env(URL, url)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("waits")), "the process ended");
        Self(child)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[ignore = "another test starts it as a process of its own"]
#[tokio::test]
async fn a_process_that_waits() {
    let Ok(url) = std::env::var(URL) else { return };
    let session = open(&url, TTL).await;
    println!("it waits");
    let guard = mutex(&session, "front").lock().await.unwrap();
    guard.lost().await;
}
