//! A process of ours that holds locks and is killed.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::fleet::{mutex, open};

/// The ttl of its locks.
pub(crate) const TTL: Duration = Duration::from_secs(3);

const ORDERS: &str = "BRAMAH_REDLOCK_HOLD";

pub(crate) struct Ours(Child);

impl Ours {
    /// Returns when it holds the lock.
    pub(crate) fn start(url: &str, name: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "ours::a_process_that_holds", "--nocapture"])
            .env(ORDERS, format!("{url} {name}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let ours = Self(child);
        let held = tokio::task::block_in_place(|| lines.any(|line| line.contains("ours: held")));
        assert!(held, "the process ended");
        ours
    }

    /// As by `kill -9`.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Other tests start this one as a process of its own; here it has nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_holds() {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let (url, name) = orders.split_once(' ').unwrap();
    let session = open(url, TTL).await;
    let guard = mutex(&session, name).lock().await.unwrap();
    println!("ours: held");
    guard.lost().await;
}
