//! G1, G2, G3: locks that nobody else wants, one name for each task.

use std::time::Duration;

use bramah::Session;
use bramah_redis::Redis;
use rslock::LockManager;

use crate::drive::{Driven, Locked, Pairs, drive};

use super::{
    Result,
    bare::{self, Ours},
    runtime,
    scores::{Goal, Rounds, Scores},
    server::Server,
    text,
};

const SPAN: Duration = Duration::from_millis(700);

/// The same scripts, bare.
pub(super) struct Called {
    ours: Ours,
    key: String,
    number: u64,
}

impl Called {
    pub(super) fn workers(ours: &Ours, tasks: usize) -> Vec<Self> {
        (0..tasks)
            .map(|n| Self { ours: ours.clone(), key: format!("bramah:{{bare/{n}}}"), number: 0 })
            .collect()
    }
}

impl Pairs for Called {
    async fn pair(&mut self) -> Result<()> {
        self.number += 1;
        self.ours.pair(&self.key, self.number).await
    }
}

/// The peer, as it comes.
pub(super) struct Peer {
    manager: LockManager,
    key: String,
    ttl: Duration,
}

impl Peer {
    pub(super) fn workers(manager: &LockManager, tasks: usize, ttl: Duration) -> Vec<Self> {
        (0..tasks).map(|n| Self { manager: manager.clone(), key: format!("rslock/{n}"), ttl }).collect()
    }
}

impl Pairs for Peer {
    async fn pair(&mut self) -> Result<()> {
        let lock = self.manager.lock(self.key.as_str(), self.ttl).await.map_err(text)?;
        lock.release().await;
        Ok(())
    }
}

/// What one contender reached, over the rounds.
#[derive(Default)]
struct Reached {
    rate: Rounds,
    cpu_us: Rounds,
}

impl Reached {
    fn add<P>(&mut self, driven: &Driven<P>) {
        self.rate.push(driven.rate());
        self.cpu_us.push(driven.cpu_us());
    }

    fn print(&self, scores: &Scores, who: &str) {
        scores.figure(&format!("{who}, pairs a second"), &self.rate, "");
        scores.figure(&format!("{who}, client CPU a pair"), &self.cpu_us, "us");
    }
}

pub(super) fn run(scores: &mut Scores, server: &Server, rounds: usize) -> Result<()> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let session = Session::open(Redis::from_url(&server.url()).map_err(text)?).await.map_err(text)?;
        let bare = Ours::connect(&server.url()).await?;
        let manager = LockManager::new(vec![server.url()]);
        let ttl = Duration::from_millis(bare::TTL_MS);
        for tasks in [64, 1024] {
            scores.heading(&format!(
                "lock + release of names that nobody else wants, {tasks} tasks, {rounds} interleaved rounds"
            ));
            let (mut ours, mut floor, mut peer) =
                (Reached::default(), Reached::default(), Reached::default());
            for _ in 0..rounds {
                floor.add(&drive(Called::workers(&bare, tasks), SPAN).await?);
                let driven = drive(Locked::workers(&session, tasks)?, SPAN).await?;
                Locked::check(&driven.workers, scores);
                ours.add(&driven);
                peer.add(&drive(Peer::workers(&manager, tasks, ttl), SPAN).await?);
            }
            floor.print(scores, "the same scripts, bare client");
            ours.print(scores, "bramah");
            peer.print(scores, "rslock (without a fence)");
            // What is left to win: nobody who calls scripts through this client is cheaper than the bare client.
            scores.figure("bramah's client CPU over the bare client's", &ours.cpu_us.over(&floor.cpu_us), "");
            scores.figure("the bare client's CPU over rslock's", &floor.cpu_us.over(&peer.cpu_us), "");
            let at = |what: &str| format!("{what}, {tasks} tasks");
            let speed = |other: &Reached| ours.rate.over(&other.rate);
            scores.goal("G1", &at("pairs/s over the bare client's"), &speed(&floor), Goal::AtLeast(0.9));
            let faster = if tasks == 64 { 1.1 } else { 1.8 };
            scores.goal("G2", &at("pairs/s over rslock's"), &speed(&peer), Goal::AtLeast(faster));
            if tasks == 1024 {
                let cpu = ours.cpu_us.over(&peer.cpu_us);
                scores.goal("G3", &at("client CPU a pair over rslock's"), &cpu, Goal::AtMost(0.5));
            }
        }
        Ok(())
    })
}
