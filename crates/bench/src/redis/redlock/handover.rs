//! One lock that everybody wants, with nothing to do for who has it.

use std::time::Duration;

use super::{
    super::{
        contention::{Record, Shape, watch},
        crowd::Who,
        scores::Goal,
    },
    Fences, Masters, Result, Scores,
};

/// rslock hands over a few dozen times a second: it takes a while until its shares say something.
const SPAN: Duration = Duration::from_millis(3000);
const SHAPES: [Shape; 2] =
    [Shape { processes: 1, tasks: 64, span: SPAN }, Shape { processes: 4, tasks: 16, span: SPAN }];

pub(super) fn run(scores: &mut Scores, masters: &Masters, rounds: usize) -> Result<()> {
    for shape in SHAPES {
        compare(scores, masters, rounds, shape)?;
    }
    Ok(())
}

fn compare(scores: &mut Scores, masters: &Masters, rounds: usize, shape: Shape) -> Result<()> {
    let (Shape { processes, tasks, .. }, size) = (shape, masters.0.len());
    scores.heading(&format!(
        "one lock, {processes} process(es) x {tasks} tasks, {size} masters, empty section, {} interleaved rounds",
        rounds
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
    let what = format!("holder changes/s over rslock's, {processes} x {tasks}, {size} masters");
    scores.goal("L3", &what, &ours.changes.over(&peer.changes), Goal::AtLeast(3.0));
    Ok(())
}
