//! `bramah watch`: what happens to locks, a line each.

use std::{
    collections::HashSet,
    io::{IsTerminal, stdout},
    thread,
};

use bramah::{Clock, Error, Scope, Wake, Woken};

use crate::{
    cmd,
    event::{self, Event, What},
    exit::{Exit, Failure},
    holder, json,
    lookout::{Lookout, Sight},
    plan::Form,
    say::{clean, emit, say},
    signals::Signals,
    span, stamp,
    store::Store,
};

/// What is not read on a terminal is read by a program.
pub(crate) async fn watch(store: &Store, scope: &Scope, form: Form) -> Result<Exit, Failure> {
    let form = if stdout().is_terminal() { form } else { Form::Json };
    let mut signals = Signals::heed()?;
    signals.unless_told(stream(store, scope, form)).await
}

/// Prints until a signal comes or nobody reads.
async fn stream(store: &Store, scope: &Scope, form: Form) -> Result<Exit, Failure> {
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
        let told = |event: &Event<'_>| match form {
            Form::Json => json::to_line(&json::Event::of(event, &at, &shown)) + "\n",
            Form::Human => line(event, &at) + "\n",
        };
        let lines: Vec<_> = events.iter().map(told).collect();
        if !lines.is_empty() {
            print(lines).await?;
        }
        sight.lines.retain(|line| !line.places.is_empty());
        before = Some(sight);
    }
}

/// `18:40:00Z  released  deploy/prod  ana@ci-7:812 ("hotfix 1.4.2"), held for 12m04s`
fn line(event: &Event<'_>, at: &str) -> String {
    let place = event.place;
    let mut line = format!(
        "{}  {:8}  {}  {}{}",
        stamp::time_of_day(at),
        event.what.word().replace('_', " "),
        clean(event.name.as_str()),
        holder::owner(place),
        holder::why(place)
    );
    let (how, time) = match event.what {
        What::Held | What::Released | What::Expired | What::Broken if place.is_held() => {
            ("held", place.held_for())
        }
        What::GaveUp | What::Broken => ("in line", place.age),
        _ => ("", None),
    };
    if let Some(time) = time {
        line.push_str(&format!(", {how} for {}", span::write(time + event.ago)));
    }
    if let Some(broken) = event.broken {
        line.push_str(&format!("; by {} (\"{}\")", clean(&broken.cause.by), clean(&broken.cause.reason)));
    }
    line
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

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use bramah::{Break, Broken};

    use super::*;
    use crate::sample::{line as sample, place};

    #[test]
    fn lines_for_people_say_when_what_where_who_and_how_long() {
        let before = [sample(1, [place(1, 1).held(724).note("hot\u{1b}fix"), place(2, 1), place(3, 1)])];
        let mut after = sample(1, [place(2, 1).held(0)]);
        let cause = Arc::new(Break { by: "eve".into(), reason: "hung".into() });
        after.broken = Some(Broken { id: before[0].places[0].claim.id, cause, ago: Duration::ZERO });
        let told = |events: Vec<Event<'_>>| {
            events.iter().map(|event| line(event, "2026-11-15T18:40:00.123Z")).collect::<Vec<_>>().join("\n")
        };
        let first = "\
18:40:00Z  held      deploy/prod  ana@ci-7:1 (job 8812: \"hot\\u{1b}fix\"), held for 12m04s
18:40:00Z  waiting   deploy/prod  ana@ci-7:2 (job 8812)
18:40:00Z  waiting   deploy/prod  ana@ci-7:3 (job 8812)";
        assert_eq!(told(event::present(&before)), first);
        let then = "\
18:40:00Z  broken    deploy/prod  ana@ci-7:1 (job 8812: \"hot\\u{1b}fix\"), held for 12m05s; by eve (\"hung\")
18:40:00Z  gave up   deploy/prod  ana@ci-7:3 (job 8812), in line for 4.0s
18:40:00Z  acquired  deploy/prod  ana@ci-7:2 (job 8812)";
        assert_eq!(told(event::between(&before, &[after], Duration::from_secs(1))), then);
    }
}
