//! What somebody who waits is told meanwhile.

use std::{
    convert::Infallible,
    io::{IsTerminal, stderr},
    time::Duration,
};

use bramah::{Clock, LineView, Moment, Name, Session};

use crate::{
    holder,
    plan::Talk,
    say::{clean, say, talk},
    span,
};

/// When the first line comes, the second, and all others.
pub(crate) const PAUSES: [Duration; 3] =
    [Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(60)];

/// An outage is told if the wait goes on for at least so long.
const LEFT: Duration = Duration::from_secs(1);
/// How long a look at the store may take before we see whether it answers at all.
const LOOK: Duration = Duration::from_secs(2);

/// Tells who has the lock and how far we are: on a terminal in one line that is kept up to date, else every now and
/// then; at once when its holder is found stopped, or the store does not answer. Never ends; dropped when the wait is over.
pub(crate) async fn tell(session: &Session, names: &[Name], talk: Talk, until: Moment) -> Infallible {
    if talk == Talk::Little {
        return std::future::pending().await;
    }
    let clock = Clock::boot();
    let started = clock.now();
    let mut board = Board::new();
    let mut outage = Outage::new(talk, until);
    let mut pauses = PAUSES.into_iter();
    let mut pause = move || pauses.next().unwrap_or(PAUSES[2]);
    let mut due = started + pause();
    let mut look = due;
    let mut was_stopped = false;
    loop {
        // Not to the moment, and without the tick that a deadline needs. Seeing whether the store answers costs nothing.
        clock.nap(look.since(clock.now()).min(LOOK)).await;
        let found = match session.hindrance() {
            None if clock.now() < look => continue,
            None => soon(&clock, waited_for(session, names)).await,
            Some(_) => None,
        };
        let now = clock.now();
        let found = match (session.hindrance(), found) {
            (None, Some(found)) => found,
            (why, _) => {
                let why = why.map_or_else(|| "it has not answered yet".to_owned(), |why| why.to_string());
                if board.is_terminal() {
                    let so_far = span::write(now.since(started));
                    board.draw(&format!("waiting for the store ({so_far} so far): {why}"));
                } else {
                    outage.tell(&why);
                }
                look = now + LOOK / 2;
                continue;
            }
        };
        outage.end();
        let stopped = found.as_ref().is_some_and(|(_, line)| holder::trouble(line).is_some());
        let words = found.as_ref().and_then(|(name, line)| {
            Some(format!("waiting for {name}: {}", holder::ahead(line, session.id())?))
        });
        if let Some(words) = words {
            if board.is_terminal() {
                board.draw(&format!("{words} ({} so far)", span::write(now.since(started))));
            } else if now >= due || (stopped && !was_stopped) {
                say(&words);
            }
        }
        if now >= due {
            due = now + pause();
        }
        was_stopped = stopped;
        let place = found.and_then(|(_, line)| holder::place(&line, session.id())).unwrap_or(1);
        look = if board.is_terminal() { now + rhythm(place) / 2 } else { due.min(now + rhythm(place)) };
    }
}

/// What is found; `None` if that takes longer than [`LOOK`].
async fn soon<T>(clock: &Clock, look: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        found = look => Some(found),
        () = clock.sleep_until(clock.now() + LOOK) => None,
    }
}

/// Tells why the store does not answer: once, and again when the reason is another one. At the end of a wait that is left to
/// the failure.
pub(crate) struct Outage {
    talk: Talk,
    clock: Clock,
    until: Moment,
    /// Without digits, which may be times and ports.
    told: Option<String>,
}

impl Outage {
    pub(crate) fn new(talk: Talk, until: Moment) -> Self {
        Self { talk, clock: Clock::boot(), until, told: None }
    }

    pub(crate) fn tell(&mut self, why: &str) {
        let reason: String = why.chars().filter(|c| !c.is_ascii_digit()).collect();
        let is_worth_it = self.talk > Talk::Little && self.clock.now() + LEFT < self.until;
        if is_worth_it && self.told.as_ref() != Some(&reason) {
            say(&format!("waiting for the store: {why}"));
            self.told = Some(reason);
        }
    }

    pub(crate) fn is_told(&self) -> bool {
        self.told.is_some()
    }

    /// The next one is told, whatever its reason.
    pub(crate) fn end(&mut self) {
        self.told = None;
    }
}

/// The lock that we stand in line for, of several the first. A store that does not answer is the business of whoever
/// acquires.
async fn waited_for<'a>(session: &Session, names: &'a [Name]) -> Option<(&'a Name, LineView)> {
    let mut other = None;
    for name in names {
        let Ok(Some(line)) = session.glance(name).await else { continue };
        if holder::place(&line, session.id()).is_some() {
            return Some((name, line));
        }
        let others = line.holders().any(|place| place.claim.id.session != session.id());
        other = other.or(others.then_some((name, line)));
    }
    // A store without a line: the first that somebody else has.
    other
}

/// How often to look: those at the front often, and a long line together only a few times a second.
fn rhythm(place: usize) -> Duration {
    PAUSES[0] * u32::try_from(place.clamp(1, 30)).unwrap_or(30)
}

/// A line of stderr that can be written over, if that is a terminal.
struct Board {
    terminal: bool,
    drawn: bool,
}

impl Board {
    fn new() -> Self {
        // Not over the prompt of a shell that has us in the background.
        let ours = rustix::termios::tcgetpgrp(rustix::stdio::stderr()) == Ok(rustix::process::getpgrp());
        Self { terminal: stderr().is_terminal() && ours, drawn: false }
    }

    fn is_terminal(&self) -> bool {
        self.terminal
    }

    fn draw(&mut self, words: &str) {
        let size = rustix::termios::tcgetwinsize(rustix::stdio::stderr());
        let width = size.map_or(0, |size| size.ws_col);
        let width = if width == 0 { 80 } else { width };
        let text: String =
            format!("bramah: {}", clean(words)).chars().take(usize::from(width.max(20)) - 1).collect();
        // The rest of an older line is wiped out.
        talk(&format!("\r{text}\u{1b}[K"));
        self.drawn = true;
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        if self.drawn {
            talk("\r\u{1b}[K");
        }
    }
}
