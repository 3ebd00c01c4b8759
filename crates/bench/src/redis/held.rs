//! G8 and growth: many locks held by one session.

use std::time::Duration;

use bramah::{Clock, Guard, Session};
use bramah_redis::Redis;

use crate::drive::{Locked, drive};

use super::{
    Result, runtime,
    scores::{Goal, Rounds, Scores},
    server::Server,
    text,
};

const TTL: Duration = Duration::from_secs(30);
const MANY: usize = 100_000;
/// Calls from this on are written down by the server, in us.
const SLOW_US: u64 = 300;
const HANDS: usize = 256;
const TASKS: usize = 64;
const SPAN: Duration = Duration::from_millis(500);

pub(super) fn run(scores: &mut Scores, server: &Server, rounds: usize) -> Result<()> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let engine = Redis::from_url(&server.url()).map_err(text)?;
        let session = Session::builder(engine).ttl(TTL).open().await.map_err(text)?;
        let mut guards = Vec::with_capacity(MANY);
        scores.heading(&format!(
            "one lock + release beside locks that are held, {TASKS} tasks, {rounds} rounds"
        ));
        let mut first = None;
        for others in [1, 1_000, MANY] {
            guards.extend(hold(&session, guards.len()..others).await?);
            let (mut rate, mut cpu_us) = (Rounds::new(), Rounds::new());
            for _ in 0..rounds {
                let driven = drive(Locked::workers(&session, TASKS)?, SPAN).await?;
                Locked::check(&driven.workers, scores);
                rate.push(driven.rate());
                cpu_us.push(driven.cpu_us());
            }
            let alone = *first.get_or_insert_with(|| cpu_us.median());
            let growth = Rounds::of(cpu_us.median() / alone);
            scores.figure(&format!("beside {others}, pairs a second"), &rate, "");
            scores.figure(&format!("beside {others}, client CPU a pair"), &cpu_us, "us");
            if others > 1 {
                let what = format!("client CPU a pair beside {others} held over beside one");
                scores.goal("growth", &what, &growth, Goal::AtMost(1.5));
            }
        }
        keep(scores, server, &guards).await?;
        release(guards).await
    })
}

/// Two rounds of renewal of everything.
async fn keep(scores: &mut Scores, server: &Server, guards: &[Guard]) -> Result<()> {
    scores.heading(&format!("{MANY} locks held by one session, ttl {TTL:?}, over two rounds of renewal"));
    server.call(&["CONFIG", "SET", "slowlog-log-slower-than", &SLOW_US.to_string()])?;
    server.call(&["CONFIG", "SET", "slowlog-max-len", "10000"])?;
    server.call(&["SLOWLOG", "RESET"])?;
    let clock = Clock::boot();
    let (mut share, mut calls, mut mean_us) = (Rounds::new(), Rounds::new(), Rounds::new());
    for _ in 0..2 {
        let (began, cpu, before) = (clock.now(), server.cpu()?, server.scripts()?);
        clock.sleep_until(began + TTL / 3).await;
        let after = server.scripts()?;
        share.push((server.cpu()? - cpu) / clock.now().since(began).as_secs_f64() * 100.0);
        calls.push((after.0 - before.0) as f64);
        mean_us.push((after.1 - before.1) as f64 / (after.0 - before.0).max(1) as f64);
    }
    let slow = slow_calls(server)?;
    // Nothing was written down: then none took as long as that.
    let longest = Rounds::of(slow.iter().copied().max().unwrap_or(SLOW_US) as f64 / 1e3);
    let lost = guards.iter().filter(|guard| !guard.is_held()).count();
    let stored = server.call(&["DBSIZE"])?.text().parse::<usize>().map_err(text)?;
    let lost = Rounds::of(lost.max(MANY.saturating_sub(stored)) as f64);
    scores.figure("calls of scripts in ttl/3", &calls, "");
    scores.figure("one call, mean", &mean_us, "us");
    let over = |us: u64| slow.iter().filter(|&&took| took > us).count();
    println!(
        "  calls over {SLOW_US} us: {}; over 500 us: {}; over 1 ms: {}",
        slow.len(),
        over(500),
        over(1_000)
    );
    scores.goal("G8", "% of one core for renewal, the whole server", &share, Goal::AtMost(2.5));
    scores.goal("G8", "longest call of a script, ms", &longest, Goal::AtMost(1.0));
    scores.goal("G8", "locks lost, by their guards or in the store", &lost, Goal::AtMost(0.0));
    if calls.least() * 100.0 < MANY as f64 {
        return Err(format!("only {} calls in ttl/3: not everything was renewed", calls.least()));
    }
    Ok(())
}

/// How long each script took that took long, by the server's own clock: what it served nobody else in.
fn slow_calls(server: &Server) -> Result<Vec<u64>> {
    let mut slow = Vec::new();
    for entry in server.call(&["SLOWLOG", "GET", "-1"])?.many() {
        let parts = entry.many();
        let took = parts.get(2).map(bramah_lab::Reply::text).unwrap_or_default();
        let command = parts.get(3).cloned().map(bramah_lab::Reply::many).unwrap_or_default();
        if command.first().is_some_and(|word| word.text().eq_ignore_ascii_case("evalsha")) {
            slow.push(took.parse().map_err(text)?);
        }
    }
    Ok(slow)
}

async fn hold(session: &Session, numbers: std::ops::Range<usize>) -> Result<Vec<Guard>> {
    let hand = |first: usize| {
        let (session, numbers) = (session.clone(), numbers.clone());
        tokio::spawn(async move {
            let mut guards = Vec::new();
            for n in numbers.skip(first).step_by(HANDS) {
                let mutex = session.mutex(format!("held/{n}")).map_err(text)?;
                guards.push(mutex.lock().await.map_err(text)?);
            }
            Ok::<_, String>(guards)
        })
    };
    let hands: Vec<_> = (0..HANDS).map(hand).collect();
    let mut guards = Vec::with_capacity(numbers.len());
    for hand in hands {
        guards.extend(hand.await.map_err(text)??);
    }
    Ok(guards)
}

async fn release(mut guards: Vec<Guard>) -> Result<()> {
    let mut hands = Vec::with_capacity(HANDS);
    while !guards.is_empty() {
        let share = guards.split_off(guards.len().saturating_sub(MANY.div_ceil(HANDS)));
        hands.push(tokio::spawn(async move {
            for guard in share {
                guard.release().await;
            }
        }));
    }
    for hand in hands {
        hand.await.map_err(text)?;
    }
    Ok(())
}
