//! Locks that nobody else wants, one name for each caller.

use std::time::Duration;

use bramah::Session;
use bramah_redis::Redis;

use crate::drive::{Locked, burst};

use super::{
    super::{runtime, text},
    Better, Field, KINDS, Kind, LAYOUTS, Result, Scores, Server,
    machine::{Caller, Machine},
};

/// What its compiler needs, for each kind of lock and way to call.
const COMPILE: Duration = Duration::from_secs(4);
const WARM_UP: Duration = Duration::from_millis(150);
const SPAN: Duration = Duration::from_millis(1000);

#[derive(Default)]
struct Fields {
    rate: Field,
    client_us: Field,
    server_us: Field,
}

impl Fields {
    fn push(&mut self, contender: usize, pairs: f64, seconds: f64, client_cpu: f64, server_cpu: f64) {
        self.rate.push(contender, pairs / seconds);
        self.client_us.push(contender, client_cpu * 1e6 / pairs);
        self.server_us.push(contender, server_cpu * 1e6 / pairs);
    }
}

pub(super) fn run(scores: &mut Scores, server: &Server, rounds: usize) -> Result<()> {
    let runtime = runtime()?;
    let mut java = Machine::start(&server.url())?;
    for kind in KINDS {
        for caller in [Caller::Thread, Caller::Futures] {
            java.pairs(kind, caller, 64, COMPILE)?;
        }
    }
    let open = |layout: &&str| {
        let engine = Redis::from_url(&format!("{}?layout={layout}", server.url())).map_err(text)?;
        runtime.block_on(Session::open(engine)).map_err(text)
    };
    let sessions = LAYOUTS.iter().map(open).collect::<Result<Vec<_>>>()?;
    for callers in [1, 64, 1024] {
        let caller = quicker(&mut java, callers)?;
        let theirs = match caller {
            Caller::Thread => "threads",
            Caller::Futures => "lockAsync with thread ids",
        };
        scores.heading(&format!(
            "lock + release of names that nobody else wants, {callers} caller(s) (Redisson: {theirs}), {rounds} \
             interleaved rounds"
        ));
        let mut fields = Fields::default();
        for _ in 0..rounds {
            for (contender, kind) in KINDS.into_iter().enumerate() {
                java.pairs(kind, caller, callers, WARM_UP)?;
                let before = server.cpu()?;
                let driven = java.pairs(kind, caller, callers, SPAN)?;
                let used = server.cpu()? - before;
                let server_cpu = used * driven.pairs / driven.all;
                fields.push(contender, driven.pairs, driven.seconds, driven.cpu, server_cpu);
            }
            for (nth, session) in sessions.iter().enumerate() {
                let warm = runtime.block_on(burst(Locked::workers(session, callers)?, WARM_UP))?;
                let before = server.cpu()?;
                let driven = runtime.block_on(burst(warm.workers, SPAN))?;
                let used = server.cpu()? - before;
                Locked::check(&driven.workers, scores);
                fields.push(KINDS.len() + nth, driven.pairs as f64, driven.seconds, driven.cpu, used);
            }
        }
        fields.rate.print(scores, "pairs a second", "");
        fields.client_us.print(scores, "client CPU a pair", "us");
        fields.server_us.print(scores, "server CPU a pair", "us");
        fields.rate.goals(scores, "R1", &format!("pairs/s, {callers} caller(s)"), Better::More);
        if callers == 64 {
            fields.server_us.goals(scores, "R2", "server CPU a pair, 64 callers", Better::Less);
        }
    }
    Ok(())
}

/// The way to call that is quicker for Redisson with so many callers.
fn quicker(java: &mut Machine, callers: usize) -> Result<Caller> {
    let mut rate = |caller| -> Result<f64> {
        java.pairs(Kind::Plain, caller, callers, WARM_UP)?;
        let driven = java.pairs(Kind::Plain, caller, callers, SPAN)?;
        Ok(driven.pairs / driven.seconds)
    };
    let (threads, futures) = (rate(Caller::Thread)?, rate(Caller::Futures)?);
    Ok(if threads > futures { Caller::Thread } else { Caller::Futures })
}
