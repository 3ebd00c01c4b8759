//! `bramah watch`: what happens to locks, a line of JSON each.

use std::{collections::HashSet, thread};

use bramah::{Clock, Error, Scope, Wake, Woken};

use crate::{
    cmd, event,
    exit::{Exit, Failure},
    json,
    lookout::{Lookout, Sight},
    say::{emit, say},
    signals::Signals,
    stamp,
    store::Store,
};

pub(crate) async fn watch(store: &Store, scope: &Scope) -> Result<Exit, Failure> {
    let mut signals = Signals::heed()?;
    signals.unless_told(stream(store, scope)).await
}

/// Prints until a signal comes or nobody reads.
async fn stream(store: &Store, scope: &Scope) -> Result<Exit, Failure> {
    let (clock, shown) = (Clock::boot(), store.shown());
    let mut lookout = Lookout::new(cmd::existing(store).await?, scope.clone());
    let mut before: Option<Sight> = None;
    let mut told = HashSet::new();
    loop {
        let mut sight = lookout.next().await?;
        if let Some(before) = &before {
            recall(&lookout, before, &mut sight).await;
        }
        complain(&mut told, &sight.unreadable);
        let events = match &before {
            None => event::present(&sight.lines),
            Some(before) => event::between(&before.lines, &sight.lines, clock.now().since(before.at)),
        };
        let at = stamp::now();
        let lines: Vec<_> =
            events.iter().map(|event| json::to_line(&json::Event::of(event, &at, &shown)) + "\n").collect();
        if !lines.is_empty() {
            print(lines).await?;
        }
        sight.lines.retain(|line| !line.places.is_empty());
        before = Some(sight);
    }
}

/// A line that is free is told of only when it is asked for, and how it became free may be on record. One that cannot
/// be read is taken to be as it was.
async fn recall(lookout: &Lookout, before: &Sight, sight: &mut Sight) {
    for line in event::vanished(&before.lines, &sight.lines) {
        match lookout.glimpse(&Scope::Exact(line.name.clone())).await {
            Ok(found) => sight.lines.extend(found),
            Err(_) => sight.lines.push(line.clone()),
        }
    }
}

/// Says what cannot be read, once each time that it becomes so.
fn complain(told: &mut HashSet<String>, unreadable: &[Error]) {
    let now: HashSet<String> = unreadable.iter().map(Error::to_string).collect();
    for error in now.difference(told) {
        say(error);
    }
    *told = now;
}

/// Prints on a thread of its own: a reader that does not go on reading must not keep us from hearing a signal.
async fn print(lines: Vec<String>) -> Result<(), Failure> {
    let failed = |why: String| Failure::new(Exit::Output, format!("cannot write: {why}"));
    let (bell, wake) = Wake::pair();
    let writer = thread::Builder::new().spawn(move || {
        let done = lines.iter().try_for_each(|line| emit(line));
        bell.ring(Woken::Ask);
        done
    });
    let writer = writer.map_err(|error| failed(error.to_string()))?;
    wake.await;
    writer.join().unwrap_or_else(|_| Err(failed("the thread that does it has ended".into())))
}
