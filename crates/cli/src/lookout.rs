//! Looking at a store again and again, whenever something may have changed there.

use std::{sync::Arc, time::Duration};

use bramah::{Clock, Engine, Error, ErrorKind, LineView, Look, Moment, PlaceView, Scope, Wake};

use crate::exit::Failure;

/// How long a store may be out of reach before we give up.
const PATIENCE: Duration = Duration::from_secs(10);
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
    /// Since when the store has not answered.
    trouble: Option<Moment>,
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
        Self { engine, scope, clock: Clock::boot(), rest: None, trouble: None }
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
        let since = *self.trouble.get_or_insert(now);
        if error.kind() != ErrorKind::Unavailable || now.since(since) >= PATIENCE {
            return Err(error.into());
        }
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
