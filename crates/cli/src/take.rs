//! Taking what is wanted: as the flags say, however others use the name, and telling who has it meanwhile.

use std::{collections::HashMap, time::Duration};

use bramah::{
    Clock, Error, ErrorKind, Guards, Keep, LineView, Lock, Moment, Name, Session, Tag, all, line::WHOLE,
};

use crate::{
    cmd,
    exit::Failure,
    holder,
    plan::{Mode, Talk, Want},
    say::say,
    store::Store,
    wait::Wait,
    waiter,
};

/// How often a try goes round when the use of a name changes under our hands: each time somebody was in line.
const TRIES: usize = 10;
/// How long a question may take whose answer only has us say more.
const ANSWER: Duration = Duration::from_secs(1);
/// The pause before another round when that happens again, at first and at the most.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(100)];

/// Opens a session for what is wanted.
pub(crate) async fn open(
    store: &Store,
    want: &Want,
    keep: Keep,
    wait: &Wait,
    talk: Talk,
) -> Result<Session, Failure> {
    wait.for_store(store, talk, async || {
        let mut builder = cmd::session(store).await?.ttl(want.ttl).keep(keep);
        if let Some(owner) = &want.owner {
            builder = builder.owner(owner);
        }
        for (key, value) in &want.labels {
            builder = builder.label(key, value);
        }
        Ok(builder.open().await?)
    })
    .await
}

/// Takes all of it, or nothing: `None` is busy. Says meanwhile for whom we wait, or that the store does not answer.
pub(crate) async fn take(
    session: &Session,
    want: &Want,
    wait: &Wait,
    talk: Talk,
) -> Result<Option<Guards>, Failure> {
    tokio::select! {
        biased;
        got = insist(session, want, wait.until) => got,
        never = waiter::tell(session, &want.names, talk, wait.until.unwrap_or(Moment::NEVER)) => match never {},
        failure = wait.given_up(session) => Err(failure),
    }
}

/// A lock that others share, and one that they do not, are two kinds of line; flock's users need not know. Where a
/// name is in use as the other kind, it is taken as that one, the strong way: who wanted to share waits its turn.
///
/// A line can become another kind whenever it is empty, so also between a conflict and the next attempt. Whoever is
/// first in an empty line is never refused, so each round of ours that fails is one in which somebody else got in line.
/// It goes on until it is decided, or the time is up.
async fn insist(session: &Session, want: &Want, until: Option<Moment>) -> Result<Option<Guards>, Failure> {
    let clock = Clock::boot();
    let mut in_use = HashMap::new();
    let [mut pause, longest] = PAUSES;
    for round in 1.. {
        let locks = want.names.iter().map(|name| {
            let lock = face(session, name, want.mode, in_use.get(name).copied())?;
            Ok(lock.reason(&want.reason))
        });
        let locks = all(locks.collect::<Result<Vec<Lock>, Failure>>()?);
        let got = match until {
            None => locks.try_lock().await,
            Some(Moment::NEVER) => locks.lock().await.map(Some),
            Some(until) => locks.lock_within(until.since(clock.now())).await.map(Some),
        };
        let again = match got {
            Err(error) if error.kind() == ErrorKind::Timeout => return Ok(None),
            // Of several, one was lost while another was waited for.
            Err(error) if error.kind() == ErrorKind::Lost && until.is_some() => Err(error),
            Err(error) => {
                let Some((name, capacity)) = other_kind(&error, want.mode) else { return Err(error.into()) };
                in_use.insert(name, capacity);
                Ok(())
            }
            Ok(Some(guards)) => match prove(&guards, want).await {
                Ok(true) => return Ok(Some(guards)),
                Ok(false) => Ok(()),
                Err(error) if error.kind() == ErrorKind::Unavailable && until.is_some() => Err(error),
                Err(error) => return Err(error.into()),
            },
            Ok(None) => return Ok(None),
        };
        let over = match until {
            None => round >= TRIES,
            Some(until) => clock.now() >= until,
        };
        if over {
            // What was lost before the command began was not the command's.
            match again {
                Err(error) if error.kind() != ErrorKind::Lost => return Err(error.into()),
                _ => break,
            }
        }
        // The first time it is taken as what it is in use as.
        if round > 1 {
            clock.nap(pause).await;
            pause = (pause * 2).min(longest);
        }
    }
    Ok(None)
}

/// The name that is in use as the other kind of line, and which that is. Slots are never taken as something else.
fn other_kind(error: &Error, mode: Mode) -> Option<(Name, u32)> {
    let (name, capacity) = error.in_use()?;
    let convertible = !matches!(mode, Mode::Slots(_)) && [1, WHOLE].contains(&capacity);
    convertible.then(|| (name.clone(), capacity))
}

/// Has the store say that what was waited for is ours for a whole ttl: until then it is good for a few seconds, and a
/// command would be ended before it had begun. Whether it still is.
async fn prove(guards: &Guards, want: &Want) -> Result<bool, Error> {
    for guard in guards.iter().filter(|guard| guard.remaining() < want.ttl / 2) {
        guard.confirm().await?;
    }
    Ok(guards.is_held())
}

fn face(session: &Session, name: &Name, mode: Mode, in_use: Option<u32>) -> Result<Lock, Failure> {
    let shared = in_use == Some(WHOLE);
    let single = in_use == Some(1);
    Ok(match mode {
        Mode::Slots(slots) => session.semaphore(name, slots)?.permits(1),
        Mode::Mutex if !shared => session.mutex(name)?.into(),
        Mode::Read | Mode::Write if single => session.mutex(name)?.into(),
        Mode::Mutex | Mode::Write => session.rwlock(name)?.write(),
        Mode::Read => session.rwlock(name)?.read(),
    })
}

/// Says who has it, if the store tells that soon.
pub(crate) async fn tell_busy(session: &Session, want: &Want) {
    let clock = Clock::boot();
    let until = clock.now() + ANSWER;
    for name in &want.names {
        let line = tokio::select! {
            biased;
            line = session.inspect(name) => line.ok().flatten(),
            () = clock.sleep_until(until) => None,
        };
        // Of several, the first that somebody has; if all are free by now, the first.
        let held = line.as_ref().is_some_and(|line| line.holders().next().is_some());
        if held || want.names.len() == 1 {
            return say(&format!("{name} {}", holder::busy(line.as_ref(), session.id())));
        }
    }
    say(&format!("{} was busy, and is free now", want.title()));
}

/// Refuses what the run around us holds: we would wait for it, and it waits for us.
pub(crate) async fn refuse_own(
    session: &Session,
    want: &Want,
    inside: &[Tag],
    store: &Store,
    wait: &Wait,
    talk: Talk,
) -> Result<(), Failure> {
    if inside.is_empty() {
        return Ok(());
    }
    for name in &want.names {
        let line = wait.for_store(store, talk, async || Ok(session.glance(name).await?)).await?;
        if let Some(tag) = line.and_then(|line| own_hold(&line, inside)) {
            return Err(own_refusal(name, tag));
        }
    }
    Ok(())
}

/// The hold of this line that one of the runs around us has.
pub(crate) fn own_hold(line: &LineView, inside: &[Tag]) -> Option<Tag> {
    line.holders().map(|holder| holder.claim.id.tag()).find(|tag| inside.contains(tag))
}

pub(crate) fn own_refusal(name: &Name, tag: Tag) -> Failure {
    Failure::usage(format!(
        "{name} is held by the run that this one is inside of ({tag}): it would wait for itself; take another \
         name, or leave the inner one out"
    ))
}
