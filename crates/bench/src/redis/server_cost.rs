//! G4: what a lock and release that nobody else wants costs the server. All over the same bare client.

use std::time::Duration;

use crate::drive::{Pairs, drive};

use super::{
    Result,
    bare::{Least, Ours},
    pairs::Called,
    redisson::{Latch, Redisson, Uncontended},
    runtime,
    scores::{Goal, Rounds, Scores},
    server::Server,
};

const TASKS: usize = 64;
const SPAN: Duration = Duration::from_millis(600);

struct Bottom {
    least: Least,
    key: String,
    number: u64,
}

impl Pairs for Bottom {
    async fn pair(&mut self) -> Result<()> {
        self.number += 1;
        self.least.pair(&self.key, self.number).await
    }
}

/// Microseconds of the server's CPU for each pair.
async fn cost<P: Pairs>(server: &Server, workers: Vec<P>) -> Result<f64> {
    let warm = drive(workers, Duration::from_millis(50)).await?;
    let before = server.cpu()?;
    // Its warm-up counts as well: the server's CPU is divided by all that it did.
    let calls = server.scripts()?.0;
    drive(warm.workers, SPAN).await?;
    let pairs = (server.scripts()?.0 - calls) as f64 / 2.0;
    Ok((server.cpu()? - before) * 1e6 / pairs)
}

pub(super) fn run(scores: &mut Scores, server: &Server, rounds: usize) -> Result<()> {
    scores.heading(&format!(
        "the server's CPU for one lock + release, {TASKS} tasks of a bare client, {rounds} interleaved rounds"
    ));
    let runtime = runtime()?;
    let [mut ours, mut floor, mut plain, mut shipped] = [const { Rounds::new() }; 4];
    runtime.block_on(async {
        let url = server.url();
        let (bare, least) = (Ours::connect(&url).await?, Least::connect(&url).await?);
        let redisson = Redisson::connect(&url).await?;
        for _ in 0..rounds {
            let bottom = (0..TASKS)
                .map(|n| Bottom { least: least.clone(), key: format!("least/{n}"), number: 0 })
                .collect();
            floor.push(cost(server, bottom).await?);
            ours.push(cost(server, Called::workers(&bare, TASKS)).await?);
            plain.push(cost(server, Uncontended::workers(&redisson, TASKS, Latch::Without)).await?);
            shipped.push(cost(server, Uncontended::workers(&redisson, TASKS, Latch::AsShipped)).await?);
        }
        Ok::<_, String>(())
    })?;
    scores.figure("SET NX + INCR, compare and delete: the floor", &floor, "us");
    scores.figure("bramah's two scripts", &ours, "us");
    scores.figure("Redisson's two scripts without the unlock latch", &plain, "us");
    scores.figure("Redisson's as shipped, with the latch and its DEL", &shipped, "us");
    let what = "server CPU a pair over Redisson's";
    scores.goal("G4", &format!("{what} without latch"), &ours.over(&plain), Goal::AtMost(0.85));
    scores.goal("G4", &format!("{what} as shipped"), &ours.over(&shipped), Goal::AtMost(0.65));
    Ok(())
}
