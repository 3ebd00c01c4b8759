//! One lock that everybody wants, with nothing to do for who has it.

use std::time::Duration;

use super::{
    super::{
        contention::{Record, Shape, watch},
        crowd::Who,
        scores::{Goal, Rounds},
    },
    Fences, Masters, Result, Scores,
};

/// Who waits for its turn by trying has a few of them in each second: it takes a while until shares say something.
const SPAN: Duration = Duration::from_secs(3);
/// The goal is about one process; several are measured beside.
const ONE: Shape = Shape { processes: 1, tasks: 64, span: SPAN };
const SEVERAL: Shape = Shape { processes: 4, tasks: 16, span: SPAN };

pub(super) fn run(scores: &mut Scores, masters: &Masters, rounds: usize) -> Result<()> {
    let size = masters.0.len();
    let ratio = compare(scores, masters, rounds, ONE)?;
    let what = format!("holder changes/s over rslock's, {} tasks, {size} masters", ONE.tasks);
    scores.goal("L3", &what, &ratio, Goal::AtLeast(3.0));
    let ratio = compare(scores, masters, rounds, SEVERAL)?;
    scores.figure("holder changes/s over rslock's", &ratio, "");
    Ok(())
}

/// Our holder changes over rslock's.
fn compare(scores: &mut Scores, masters: &Masters, rounds: usize, shape: Shape) -> Result<Rounds> {
    let (Shape { processes, tasks, .. }, size) = (shape, masters.0.len());
    scores.heading(&format!(
        "one lock, {processes} process(es) x {tasks} tasks, {size} masters, empty section, {rounds} interleaved rounds"
    ));
    let (mut ours, mut peer) = (Record::default(), Record::default());
    let (theirs, url) = (masters.each().join(","), masters.url(Fences::On));
    for round in 0..rounds {
        for (who, url, record) in [(Who::Rslock, &theirs, &mut peer), (Who::Bramah, &url, &mut ours)] {
            let seen = watch(&masters.0, who, url, &format!("hot/{round}"), shape)?;
            scores.check(seen.checked, seen.overlaps, seen.regressions);
            record.add(&seen);
        }
    }
    peer.print(scores, "rslock");
    ours.print(scores, "bramah");
    Ok(ours.changes.over(&peer.changes))
}
