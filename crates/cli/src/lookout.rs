//! Looking at a store again and again, whenever something may have changed there.

use std::{sync::Arc, time::Duration};

use bramah::{Clock, Engine, Error, ErrorKind, LineView, Look, Moment, PlaceView, Scope, Wake};

use crate::{exit::Failure, plan::Talk, waiter::Outage};

/// How long a store may be out of reach before we give up.
const OUTAGE: Duration = Duration::from_secs(10);
/// The pause before a store that did not answer is asked again.
const PAUSE: Duration = Duration::from_millis(250);
/// How much later than the end of a ttl we look.
const LATER: Duration = Duration::from_millis(10);
/// The shortest time between two looks that only time asks for: a claim may outstay its ttl.
const LEAST: Duration = Duration::from_millis(50);

/// Somebody who looks at a scope. No session: looking leaves no trace.
pub(crate) struct Lookout {
    engine: Arc<dyn Engine>,
    scope: Scope,
    clock: Clock,
    /// What to wait for before the next look.
    rest: Option<(Wake, Moment)>,
    /// Since when the store has not answered, and why.
    trouble: Option<(Moment, Error)>,
    /// How long that may last.
    most: Duration,
    outage: Outage,
}

/// What was seen.
#[derive(Debug)]
pub(crate) struct Sight {
    /// When the look began.
    pub(crate) at: Moment,
    pub(crate) lines: Vec<LineView>,
    pub(crate) unreadable: Vec<Error>,
}

impl Lookout {
    pub(crate) fn new(engine: Arc<dyn Engine>, scope: Scope) -> Self {
        Self {
            engine,
            scope,
            clock: Clock::boot(),
            rest: None,
            trouble: None,
            most: OUTAGE,
            outage: Outage::new(Talk::Little, Moment::NEVER),
        }
    }

    /// The same, and a store that is out of reach is waited for as long as it takes. That is told.
    pub(crate) fn enduring(engine: Arc<dyn Engine>, scope: Scope, outage: Outage) -> Self {
        Self { most: Duration::MAX, outage, ..Self::new(engine, scope) }
    }

    /// Tells why the store does not answer.
    pub(crate) fn tell(&mut self, why: &str) {
        self.outage.tell(why);
    }

    /// Why the store does not answer.
    pub(crate) fn trouble(&self) -> Option<&Error> {
        self.trouble.as_ref().map(|(_, error)| error)
    }

    /// What there is: the first time at once, then after something may have changed.
    ///
    /// # Cancel safety
    /// No change is lost when this is dropped.
    pub(crate) async fn next(&mut self) -> Result<Sight, Failure> {
        loop {
            if let Some((wake, until)) = &mut self.rest {
                tokio::select! {
                    biased;
                    _ = wake => {}
                    () = self.clock.sleep_until(*until) => {}
                }
                self.rest = None;
            }
            let at = self.clock.now();
            match self.engine.survey(&self.scope, Look::Watching).await {
                Ok(survey) => {
                    self.trouble = None;
                    self.outage.end();
                    let sleep = survey.sleep.min(shortest(&survey.lines));
                    self.rest = Some((survey.wake, self.clock.now() + sleep));
                    return Ok(Sight { at, lines: survey.lines, unreadable: survey.unreadable });
                }
                Err(error) => self.bear(error)?,
            }
        }
    }

    /// One look, now.
    pub(crate) async fn glimpse(&self, scope: &Scope) -> Result<Option<LineView>, Error> {
        Ok(self.engine.survey(scope, Look::Once).await?.lines.pop())
    }

    /// A store that does not answer may be starting anew.
    fn bear(&mut self, error: Error) -> Result<(), Failure> {
        let now = self.clock.now();
        let since = self.trouble.as_ref().map_or(now, |(since, _)| *since);
        if error.kind() != ErrorKind::Unavailable || now.since(since) >= self.most {
            return Err(error.into());
        }
        self.outage.tell(&error.to_string());
        self.trouble = Some((since, error));
        self.rest = Some((Wake::never(), now + PAUSE));
        Ok(())
    }
}

/// Until the first claim could run out: that makes no sound.
fn shortest(lines: &[LineView]) -> Duration {
    let places = lines.iter().flat_map(|line| &line.places);
    let left = places.filter_map(|place: &PlaceView| place.left).min();
    left.map_or(Duration::MAX, |left| left.saturating_add(LATER).max(LEAST))
}
