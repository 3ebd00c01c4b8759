//! `bramah wait`: until nobody holds a lock. Those who stand in line for it do not count, although the first of them
//! is about to have it: nothing is promised about the moment after.

use bramah::{Clock, LineView, Moment, Name, Scope, SessionId, Tag};

use crate::{
    cmd,
    exit::{Exit, Failure},
    holder,
    lookout::Lookout,
    plan::{Patience, Talk},
    say::say,
    signals::Signals,
    store::Store,
    take,
    waiter::PAUSES,
};

/// We have no place in any line.
const US: SessionId = SessionId::from_bits(0);

pub(crate) async fn wait(
    store: &Store,
    name: &Name,
    patience: Patience,
    busy_code: u8,
    talk: Talk,
) -> Result<Exit, Failure> {
    let mut signals = Signals::heed()?;
    let Some(line) = signals.unless_told(until_free(store, name, patience, talk)).await? else {
        return Ok(Exit::Done);
    };
    if talk > Talk::Little && busy_code != 0 {
        say(&format!("{name} {}", holder::busy(Some(&line), US)));
    }
    Ok(Exit::Command(busy_code))
}

/// Refuses to wait for the run around us: it waits for us.
pub(crate) async fn refuse_own(store: &Store, name: &Name, inside: &[Tag]) -> Result<(), Failure> {
    if inside.is_empty() {
        return Ok(());
    }
    let survey = cmd::look(store, &Scope::Exact(name.clone())).await?;
    match survey.lines.iter().find_map(|line| take::own_hold(line, inside)) {
        Some(tag) => Err(take::own_refusal(name, tag)),
        None => Ok(()),
    }
}

/// Waits until nobody holds it. The line as it is if somebody still does when the time is up.
async fn until_free(
    store: &Store,
    name: &Name,
    patience: Patience,
    talk: Talk,
) -> Result<Option<LineView>, Failure> {
    let clock = Clock::boot();
    let deadline = match patience {
        Patience::None => clock.now(),
        Patience::For(wait) => clock.now() + wait,
        Patience::Forever => Moment::NEVER,
    };
    let scope = Scope::Exact(name.clone());
    let mut lookout = Lookout::new(cmd::existing(store).await?, scope.clone());
    let mut pauses = PAUSES.into_iter();
    let mut pause = || pauses.next().unwrap_or(PAUSES[2]);
    let mut due = if talk == Talk::Little { Moment::NEVER } else { clock.now() + pause() };
    loop {
        tokio::select! {
            biased;
            // A look of its own, as -n needs no watch: the last word is the truth of now.
            () = clock.sleep_until(deadline) => return Ok(held(lookout.glimpse(&scope).await?)),
            () = clock.sleep_until(due) => {
                // A store that does not answer is the business of the lookout.
                let line = lookout.glimpse(&scope).await.ok().flatten();
                if let Some(words) = line.and_then(|line| holder::ahead(&line, US)) {
                    say(&format!("waiting for {name}: {words}"));
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

fn held(line: Option<LineView>) -> Option<LineView> {
    line.filter(|line| line.holders().next().is_some())
}
