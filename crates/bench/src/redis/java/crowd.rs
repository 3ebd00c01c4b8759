//! One lock that the callers of several processes want, with nothing to do for who has it.

use std::{slice, time::Duration};

use bramah::Moment;

use super::{
    super::{
        contention::{Seen, Shape, observe, watch},
        crowd::{Held, Who},
    },
    Better, Field, KINDS, Kind, LAYOUTS, Result, Scores, Server,
    machine::Machine,
};

const SHAPE: Shape = Shape { processes: 4, tasks: 64, span: Duration::from_millis(1500) };

/// What the compilers of four processes need on a small machine.
const COMPILE: Shape = Shape { span: Duration::from_secs(6), ..SHAPE };

pub(super) fn run(scores: &mut Scores, server: &Server, rounds: usize) -> Result<()> {
    let Shape { processes, tasks, .. } = SHAPE;
    scores.heading(&format!(
        "one lock, {processes} processes x {tasks} callers (Redisson: threads), empty section, {rounds} interleaved \
         rounds"
    ));
    let mut machines = (0..processes).map(|_| Machine::start(&server.url())).collect::<Result<Vec<_>>>()?;
    for kind in KINDS {
        contend(server, &mut machines, kind, COMPILE, "warm")?;
    }
    let (mut changes, mut cpu_us) = (Field::default(), Field::default());
    for round in 0..rounds {
        let mut seen = Vec::new();
        for kind in KINDS {
            let name = format!("java/{}/{round}", kind.word());
            seen.push(contend(server, &mut machines, kind, SHAPE, &name)?);
        }
        for layout in LAYOUTS {
            let url = format!("{}?layout={layout}", server.url());
            seen.push(watch(slice::from_ref(server), Who::Bramah, &url, &format!("hot/{round}"), SHAPE)?);
        }
        for (contender, seen) in seen.into_iter().enumerate() {
            scores.check(seen.checked, seen.overlaps, seen.regressions);
            changes.push(contender, seen.changes);
            cpu_us.push(contender, seen.cpu_us);
        }
    }
    changes.print(scores, "holder changes a second", "");
    cpu_us.print(scores, "server CPU a change", "us");
    changes.goals(scores, "R3", "holder changes/s, 4 x 64", Better::More);
    Ok(())
}

fn contend(server: &Server, machines: &mut [Machine], kind: Kind, shape: Shape, name: &str) -> Result<Seen> {
    let go = |machine: &mut Machine, start: Moment, end: Moment| {
        machine.tell(&format!("crowd {} {name} {} {} {}", kind.word(), shape.tasks, start.ns(), end.ns()))
    };
    observe(slice::from_ref(server), Who::Redisson, shape, machines, go, report)
}

/// Its holds, with its threads counted from `first`. How many overlaps it saw itself.
fn report(machine: &mut Machine, first: usize, crowd: &mut Vec<Held>) -> Result<u64> {
    let line = machine.line()?;
    let overlaps = line.parse().map_err(|_| format!("not understood of redisson: {line}"))?;
    loop {
        let line = machine.line()?;
        if line == "end" {
            return Ok(overlaps);
        }
        let held = Held::read(&line).ok_or_else(|| format!("not understood of redisson: {line}"))?;
        crowd.push(Held { task: held.task + first, ..held });
    }
}
