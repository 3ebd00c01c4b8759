//! G5, G6: one lock that everybody wants, with nothing to do for who has it.
//!
//! What counts is how often the holder changes: a release that is followed by the releaser's own next acquisition hands
//! nothing over.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdout, Command, Stdio},
    slice,
    time::Duration,
};

use bramah::{Clock, Moment};

use super::{
    Result, bare, crowd,
    crowd::{Held, Who},
    scores::{Goal, Rounds, Scores},
    server::Server,
    text,
};

const WARM_UP: Duration = Duration::from_millis(500);
/// From the call to arms to the first claim, so that all processes start together.
const CALL: Duration = Duration::from_millis(50);

/// How many want the lock, and for how long they are watched.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) processes: usize,
    pub(super) tasks: usize,
    pub(super) span: Duration,
}

/// What was seen of one run.
pub(super) struct Seen {
    pub(super) changes: f64,
    acquisitions: f64,
    commands: f64,
    /// Microseconds that servers were in scripts for each change.
    script_us: f64,
    /// Microseconds of all servers' CPU for each change.
    pub(super) cpu_us: f64,
    jain: f64,
    gap_us: (f64, f64),
    /// The longest wait over the mean one.
    longest: f64,
    pub(super) checked: u64,
    pub(super) overlaps: u64,
    pub(super) regressions: u64,
}

pub(super) fn between_processes(scores: &mut Scores, server: &Server, rounds: usize) -> Result<()> {
    let shape = Shape { processes: 4, tasks: 64, span: Duration::from_millis(1500) };
    let (ours, baseline) = compare(scores, server, rounds, shape)?;
    let changes = ours.changes.over(&baseline.changes);
    scores.goal("G5", "holder changes/s over Redisson's, 4 x 64", &changes, Goal::AtLeast(1.4));
    scores.goal("G5", "commands for each hand-off, 4 x 64", &ours.commands, Goal::AtMost(2.2));
    scores.goal("G5", "Jain index, 4 x 64", &ours.jain, Goal::AtLeast(0.99));
    scores.goal("G5", "longest wait over the mean, 4 x 64", &ours.longest, Goal::AtMost(3.0));
    Ok(())
}

pub(super) fn in_one_process(scores: &mut Scores, server: &Server, rounds: usize) -> Result<()> {
    for (tasks, span) in [(256, 1500), (2048, 2500)] {
        let shape = Shape { processes: 1, tasks, span: Duration::from_millis(span) };
        let (ours, baseline) = compare(scores, server, rounds, shape)?;
        let changes = ours.changes.over(&baseline.changes);
        let what = format!("holder changes/s over Redisson's, 1 x {tasks}");
        scores.goal("G6", &what, &changes, Goal::AtLeast(2.0));
        scores.goal("G6", &format!("Jain index, 1 x {tasks}"), &ours.jain, Goal::AtLeast(0.95));
    }
    Ok(())
}

/// One contender over the rounds.
#[derive(Default)]
pub(super) struct Record {
    pub(super) changes: Rounds,
    acquisitions: Rounds,
    commands: Rounds,
    script_us: Rounds,
    jain: Rounds,
    p50_us: Rounds,
    p99_us: Rounds,
    longest: Rounds,
}

impl Record {
    pub(super) fn add(&mut self, seen: &Seen) {
        self.changes.push(seen.changes);
        self.acquisitions.push(seen.acquisitions);
        self.commands.push(seen.commands);
        self.script_us.push(seen.script_us);
        self.jain.push(seen.jain);
        self.p50_us.push(seen.gap_us.0);
        self.p99_us.push(seen.gap_us.1);
        self.longest.push(seen.longest);
    }

    pub(super) fn print(&self, scores: &Scores, who: &str) {
        for (what, rounds, unit) in [
            ("holder changes a second", &self.changes, ""),
            ("acquisitions a second", &self.acquisitions, ""),
            ("commands for each holder change", &self.commands, ""),
            ("servers' time in scripts for each", &self.script_us, "us"),
            ("Jain index over tasks", &self.jain, ""),
            ("from release to the next hold, p50", &self.p50_us, "us"),
            ("from release to the next hold, p99", &self.p99_us, "us"),
            ("longest wait over the mean", &self.longest, ""),
        ] {
            scores.figure(&format!("{who}, {what}"), rounds, unit);
        }
    }
}

fn compare(scores: &mut Scores, server: &Server, rounds: usize, shape: Shape) -> Result<(Record, Record)> {
    let Shape { processes, tasks, .. } = shape;
    scores.heading(&format!(
        "one lock, {processes} process(es) x {tasks} tasks, empty section, {rounds} interleaved rounds"
    ));
    let (mut ours, mut baseline, mut floor) = (Record::default(), Record::default(), Rounds::default());
    let runtime = super::runtime()?;
    for round in 0..rounds {
        floor.push(runtime.block_on(bare::round_trip(&server.url()))?);
        for (who, record) in [(Who::Redisson, &mut baseline), (Who::Bramah, &mut ours)] {
            let seen =
                watch(slice::from_ref(server), who, &server.url(), &format!("hot/{tasks}/{round}"), shape)?;
            scores.check(seen.checked, seen.overlaps, seen.regressions);
            record.add(&seen);
        }
    }
    scores.figure("a script that does nothing, one after the other, p50", &floor, "us");
    baseline.print(scores, "Redisson's way");
    ours.print(scores, "bramah");
    Ok((ours, baseline))
}

/// One run of one contender on servers without any keys.
pub(super) fn watch(servers: &[Server], who: Who, url: &str, name: &str, shape: Shape) -> Result<Seen> {
    for server in servers {
        server.flush()?;
    }
    let mut members = (0..shape.processes)
        .map(|_| Member::start(&format!("{} {url} {name} {}", who.name(), shape.tasks)))
        .collect::<Result<Vec<_>>>()?;
    for member in &mut members {
        member.ready()?;
    }
    observe(servers, who, shape, &mut members, Member::go, Member::report)
}

/// Calls the processes to arms and judges what they report.
pub(super) fn observe<M>(
    servers: &[Server],
    who: Who,
    shape: Shape,
    members: &mut [M],
    go: impl Fn(&mut M, Moment, Moment) -> Result<()>,
    report: impl Fn(&mut M, usize, &mut Vec<Held>) -> Result<u64>,
) -> Result<Seen> {
    let clock = Clock::boot();
    let start = clock.now() + CALL;
    let (from, to) = (start + WARM_UP, start + WARM_UP + shape.span);
    for member in &mut *members {
        // A little longer than they are watched.
        go(member, start, to + Duration::from_millis(50))?;
    }
    // The window is from one count of commands to the other, whenever the machine let us have them.
    let count_at = |at: Moment| -> Result<(u64, u64, f64, u64)> {
        std::thread::sleep(at.since(clock.now()));
        let (mut sent, mut script_us, mut cpu) = (0, 0, 0.0);
        for server in servers {
            let (calls, us) = server.sent(who.sends())?;
            sent += calls;
            script_us += us;
            cpu += server.cpu()?;
        }
        Ok((sent, script_us, cpu, clock.now().ns()))
    };
    let (before, script_us, cpu, opened) = count_at(from)?;
    let (after, script_us_after, cpu_after, closed) = count_at(to)?;
    let mut crowd = Vec::new();
    let mut overlaps = 0;
    for (process, member) in members.iter_mut().enumerate() {
        overlaps += report(member, process * shape.tasks, &mut crowd)?;
    }
    crowd.sort_unstable_by_key(|held| held.held_ns);
    let mut seen = judge(&crowd, who, (opened, closed), shape.processes * shape.tasks)
        .ok_or_else(|| format!("{}: the lock never changed hands", who.name()))?;
    seen.overlaps += overlaps;
    let changes = seen.changes * (closed - opened) as f64 / 1e9;
    seen.commands = (after - before) as f64 / changes;
    seen.script_us = (script_us_after - script_us) as f64 / changes;
    seen.cpu_us = (cpu_after - cpu) * 1e6 / changes;
    Ok(seen)
}

/// All holds in the order of time. What only the server knows is left at nothing.
fn judge(crowd: &[Held], who: Who, (opened, closed): (u64, u64), tasks: usize) -> Option<Seen> {
    let (mut overlaps, mut regressions, mut left) = (0, 0, 0);
    let mut fence = 0;
    for held in crowd {
        overlaps += u64::from(held.held_ns < left);
        left = left.max(held.left_ns);
        regressions += u64::from(who == Who::Bramah && held.fence <= fence);
        fence = fence.max(held.fence);
    }
    let inside = |held: &&Held| (opened..closed).contains(&held.held_ns);
    let window: Vec<&Held> = crowd.iter().filter(inside).collect();
    let changes = window.windows(2).filter(|pair| pair[0].task != pair[1].task).count() as f64;
    if changes == 0.0 {
        return None;
    }
    let mut gaps: Vec<u64> =
        window.windows(2).map(|pair| pair[1].held_ns.saturating_sub(pair[0].left_ns)).collect();
    gaps.sort_unstable();
    let at = |percent: usize| gaps.get(gaps.len() * percent / 100).map_or(f64::NAN, |&ns| ns as f64 / 1e3);
    let mut shares = vec![0.0; tasks];
    for held in &window {
        if let Some(share) = shares.get_mut(held.task) {
            *share += 1.0;
        }
    }
    let waits: Vec<f64> = window.iter().map(|held| (held.held_ns - held.asked_ns) as f64).collect();
    let mean = waits.iter().sum::<f64>() / waits.len() as f64;
    let seconds = (closed - opened) as f64 / 1e9;
    Some(Seen {
        changes: changes / seconds,
        acquisitions: window.len() as f64 / seconds,
        commands: 0.0,
        script_us: 0.0,
        cpu_us: 0.0,
        jain: jain(&shares),
        gap_us: (at(50), at(99)),
        longest: waits.iter().copied().fold(0.0, f64::max) / mean,
        checked: crowd.len() as u64,
        overlaps,
        regressions,
    })
}

/// 1 if all shares are alike, 1/n if one has everything.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// A process of the crowd.
struct Member {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Member {
    fn start(orders: &str) -> Result<Self> {
        let program = std::env::current_exe().map_err(text)?;
        let mut child = Command::new(program)
            .env(crowd::ENVIRONMENT, orders)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(text)?;
        let out = child.stdout.take().ok_or("a process without output")?;
        Ok(Self { child, out: BufReader::new(out) })
    }

    fn ready(&mut self) -> Result<()> {
        let mut line = String::new();
        self.out.read_line(&mut line).map_err(text)?;
        if line.trim() == "ready" { Ok(()) } else { Err(format!("a process of the crowd said {line:?}")) }
    }

    fn go(&mut self, start: Moment, end: Moment) -> Result<()> {
        let input = self.child.stdin.as_mut().ok_or("a process without input")?;
        writeln!(input, "{} {}", start.ns(), end.ns()).map_err(text)
    }

    /// Its holds, with its tasks counted from `first`. How many overlaps it saw itself.
    fn report(&mut self, first: usize, crowd: &mut Vec<Held>) -> Result<u64> {
        let mut overlaps = None;
        for line in (&mut self.out).lines() {
            let line = line.map_err(text)?;
            if overlaps.is_none() {
                overlaps = Some(line.parse().map_err(text)?);
                continue;
            }
            let held = Held::read(&line).ok_or_else(|| format!("not understood of the crowd: {line}"))?;
            crowd.push(Held { task: held.task + first, ..held });
        }
        overlaps.ok_or_else(|| "a process of the crowd ended without a report".to_owned())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(task: usize, fence: u64, held_ns: u64, left_ns: u64) -> Held {
        Held { task, fence, asked_ns: 0, held_ns, left_ns }
    }

    #[test]
    fn overlaps_and_fences_that_went_back_are_found() {
        let good = [held(0, 1, 10, 20), held(1, 2, 20, 30), held(1, 3, 30, 40)];
        let seen = judge(&good, Who::Bramah, (0, 100), 2).unwrap();
        assert_eq!((seen.overlaps, seen.regressions, seen.checked), (0, 0, 3));
        let bad = [held(0, 2, 10, 50), held(1, 1, 20, 30), held(0, 3, 40, 60)];
        let seen = judge(&bad, Who::Bramah, (0, 100), 2).unwrap();
        assert_eq!((seen.overlaps, seen.regressions), (2, 1));
        // Redisson's lock has no fences.
        let seen = judge(&bad.map(|held| Held { fence: 0, ..held }), Who::Redisson, (0, 100), 2).unwrap();
        assert_eq!((seen.overlaps, seen.regressions), (2, 0));
    }

    #[test]
    fn only_a_change_of_the_holder_counts() {
        let two = [held(0, 1, 1, 2), held(0, 2, 3, 4), held(1, 3, 5, 6)];
        let seen = judge(&two, Who::Bramah, (0, 1_000_000_000), 2);
        assert_eq!(seen.map(|seen| (seen.changes, seen.acquisitions)), Some((1.0, 3.0)));
        assert!(judge(&two[..2], Who::Bramah, (0, 10), 2).is_none());
    }

    #[test]
    fn shares_that_are_alike_have_an_index_of_one() {
        assert_eq!(jain(&[3.0, 3.0]), 1.0);
        assert_eq!(jain(&[6.0, 0.0]), 0.5);
    }
}
