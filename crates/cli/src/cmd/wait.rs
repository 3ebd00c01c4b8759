//! `bramah wait`: until nobody holds a lock. Those who stand in line for it do not count, although the first of them
//! is about to have it: nothing is promised about the moment after.

use std::time::Duration;

use bramah::{Clock, Error, LineView, Moment, Name, Scope, SessionId, Tag};

use crate::{
    args::IfDown,
    cmd,
    exit::{Exit, Failure},
    holder,
    lookout::Lookout,
    plan::{Patience, Talk},
    say::say,
    signals::Signals,
    store::Store,
    take,
    wait::Wait,
    waiter::{Outage, PAUSES},
};

/// How long one look may take.
const ANSWER: Duration = Duration::from_secs(1);

/// We have no place in any line.
const US: SessionId = SessionId::from_bits(0);

pub(crate) async fn wait(
    store: &Store,
    name: &Name,
    patience: Patience,
    busy_code: u8,
    talk: Talk,
    inside: &[Tag],
) -> Result<Exit, Failure> {
    let mut signals = Signals::heed()?;
    let wait = Wait::new(patience, IfDown::Wait);
    let free = async {
        refuse_own(store, name, inside, &wait, talk).await?;
        until_free(store, name, &wait, talk).await
    };
    let Some(line) = signals.unless_told(free).await? else { return Ok(Exit::Done) };
    if talk > Talk::Little && busy_code != 0 {
        say(&format!("{name} {}", holder::busy(Some(&line), US)));
    }
    Ok(Exit::Command(busy_code))
}

/// Refuses to wait for the run around us: it waits for us.
async fn refuse_own(
    store: &Store,
    name: &Name,
    inside: &[Tag],
    wait: &Wait,
    talk: Talk,
) -> Result<(), Failure> {
    if inside.is_empty() {
        return Ok(());
    }
    let scope = Scope::Exact(name.clone());
    let survey = wait.for_store(store, talk, async || cmd::look(store, &scope).await).await?;
    match survey.lines.iter().find_map(|line| take::own_hold(line, inside)) {
        Some(tag) => Err(take::own_refusal(name, tag)),
        None => Ok(()),
    }
}

/// Waits until nobody holds it. The line as it is if somebody still does when the time is up.
async fn until_free(
    store: &Store,
    name: &Name,
    wait: &Wait,
    talk: Talk,
) -> Result<Option<LineView>, Failure> {
    let clock = Clock::boot();
    let scope = Scope::Exact(name.clone());
    let engine = cmd::existing(store).await?;
    let Some(until) = wait.until else {
        return Ok(held(Lookout::new(engine, scope.clone()).glimpse(&scope).await?));
    };
    let mut lookout = Lookout::enduring(engine, scope.clone(), Outage::new(talk, until));
    let mut pauses = PAUSES.into_iter();
    let mut pause = || pauses.next().unwrap_or(PAUSES[2]);
    let mut due = if talk == Talk::Little { Moment::NEVER } else { clock.now() + pause() };
    loop {
        tokio::select! {
            biased;
            () = clock.sleep_until(until) => {
                if let Some(why) = lookout.trouble() {
                    return Err(why.clone().into());
                }
                // A look of its own: the last word is the truth of now.
                return match glimpse(&clock, &lookout, &scope).await {
                    Some(line) => Ok(held(line?)),
                    None => Err(wait.silent(store)),
                };
            }
            () = clock.sleep_until(due) => {
                if lookout.trouble().is_none() {
                    match glimpse(&clock, &lookout, &scope).await {
                        Some(Ok(line)) => {
                            if let Some(words) = line.and_then(|line| holder::ahead(&line, US)) {
                                say(&format!("waiting for {name}: {words}"));
                            }
                        }
                        Some(Err(why)) => lookout.tell(&why.to_string()),
                        None => lookout.tell(&format!("{} has not answered yet", store.shown())),
                    }
                }
                due = clock.now() + pause();
            }
            sight = lookout.next() => {
                if sight?.lines.pop().and_then(|line| held(Some(line))).is_none() {
                    return Ok(None);
                }
            }
        }
    }
}

/// One look; `None` if it is not answered soon.
async fn glimpse(clock: &Clock, lookout: &Lookout, scope: &Scope) -> Option<Result<Option<LineView>, Error>> {
    tokio::select! {
        biased;
        line = lookout.glimpse(scope) => Some(line),
        () = clock.sleep_until(clock.now() + ANSWER) => None,
    }
}

fn held(line: Option<LineView>) -> Option<LineView> {
    line.filter(|line| line.holders().next().is_some())
}
