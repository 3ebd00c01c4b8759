//! What somebody who waits is told meanwhile.

use std::{convert::Infallible, time::Duration};

use bramah::{Clock, Name, Session};

use crate::{holder, plan::Talk, say::say};

/// When the first line comes, the second, and all others.
const PAUSES: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(60)];

/// Tells every now and then who has the lock and how far we are; at once when its holder is found stopped. Never
/// ends; dropped when the wait is over.
pub(crate) async fn tell(session: &Session, name: &Name, talk: Talk) -> Infallible {
    if talk == Talk::Little {
        return std::future::pending().await;
    }
    let clock = Clock::boot();
    let mut pauses = PAUSES.into_iter();
    let mut pause = move || pauses.next().unwrap_or(PAUSES[2]);
    let mut due = clock.now() + pause();
    let mut look = due;
    let mut was_stopped = false;
    loop {
        clock.sleep_until(look).await;
        // A store that does not answer is the business of whoever acquires.
        let line = session.inspect(name).await.ok().flatten();
        let now = clock.now();
        let stopped = line.as_ref().is_some_and(|line| holder::trouble(line).is_some());
        let told = line.as_ref().and_then(|line| holder::ahead(line, session.id()));
        if let Some(words) = told.filter(|_| now >= due || (stopped && !was_stopped)) {
            say(&format!("waiting for {name}: {words}"));
        }
        if now >= due {
            due = now + pause();
        }
        was_stopped = stopped;
        let place = line.and_then(|line| holder::place(&line, session.id())).unwrap_or(1);
        look = due.min(now + rhythm(place));
    }
}

/// How often to look: those at the front often, and a long line together only a few times a second.
fn rhythm(place: usize) -> Duration {
    PAUSES[0] * u32::try_from(place.clamp(1, 30)).unwrap_or(30)
}
