//! Who holds what, who waits, and how to end it.

use std::{sync::Arc, time::Duration};

use tracing::warn;

use crate::{
    Break, Error, ErrorKind, Exit, LineView, Look, Modes, Name, PlaceState, PlaceView, Result, Scope,
    Session, Survey, Tag,
};

impl Session {
    /// The line of `name`, if anybody stands in it: who holds it, for how long, who waits. A free one is told of
    /// only while the store has a record of its last break.
    ///
    /// # Errors
    /// What the engine says.
    pub async fn inspect(&self, name: &Name) -> Result<Option<LineView>> {
        Ok(self.survey(&Scope::Exact(name.clone())).await?.pop())
    }

    /// The same at a glance, for those who look often: who holds it, and the ids of those who wait. Who they are may be
    /// left out.
    ///
    /// # Errors
    /// What the engine says.
    pub async fn glance(&self, name: &Name) -> Result<Option<LineView>> {
        let scope = Scope::Exact(name.clone());
        Ok(self.0.core.engine.survey(&scope, Look::Glance).await?.lines.pop())
    }

    /// All lines in a scope, by name. Those that could not be read are logged; [`watch`](Session::watch) tells of them.
    ///
    /// # Errors
    /// What the engine says.
    pub async fn survey(&self, scope: &Scope) -> Result<Vec<LineView>> {
        let survey = self.0.core.engine.survey(scope, Look::Once).await?;
        for error in &survey.unreadable {
            warn!(%error, "a line cannot be read");
        }
        Ok(survey.lines)
    }

    /// The same, with a wake for the next change.
    ///
    /// # Errors
    /// What the engine says.
    pub async fn watch(&self, scope: &Scope) -> Result<Survey> {
        self.0.core.engine.survey(scope, Look::Watching).await
    }

    /// Ends somebody's claim by force: a hold, or a place in line. Whether it was there. Its process learns with its
    /// next renewal; what it writes until then only a fence can stop.
    ///
    /// # Errors
    /// `Invalid` without a reason, and what the engine says.
    ///
    /// # Cancel safety
    /// What was sent is finished when this is dropped.
    pub async fn break_hold(&self, name: &Name, tag: Tag, reason: &str) -> Result<bool> {
        if reason.trim().is_empty() {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("{name}: breaking a hold needs a reason; give one"),
            ));
        }
        let Some(line) = self.inspect(name).await? else { return Ok(false) };
        let Some(place) = line.places.into_iter().find(|place| place.claim.id.tag() == tag) else {
            return Ok(false);
        };
        let cause = Break { by: self.about().owner.clone(), reason: reason.into() };
        warn!(%name, %tag, by = %cause.by, reason, "a hold is broken");
        let core = &self.0.core;
        core.whole(core.engine.withdraw(place.claim, Exit::Broken(Arc::new(cause)))).await?;
        Ok(true)
    }

    /// Asks somebody to let go of a lock, where the store [passes that on](crate::Asking): its [`Guard::asked`](crate::Guard::asked) ends.
    /// Whether it holds the lock, and so was asked. It may go on holding it; [`break_hold`](Session::break_hold) does not ask.
    ///
    /// # Errors
    /// `Unsupported` on a store that passes nothing on, and what the engine says.
    ///
    /// # Cancel safety
    /// What was sent is finished when this is dropped.
    pub async fn ask(&self, name: &Name, tag: Tag) -> Result<bool> {
        let Some(line) = self.inspect(name).await? else { return Ok(false) };
        let held = line.holders().find(|place| place.claim.id.tag() == tag);
        let Some(claim) = held.map(|place| place.claim.clone()) else { return Ok(false) };
        let core = &self.0.core;
        core.whole(core.engine.ask(claim)).await?;
        Ok(true)
    }

    /// Refuses a face that the store does not promise.
    pub(crate) fn require(&self, modes: Modes, name: &Name, what: &str) -> Result<()> {
        let offered = self.profile().modes;
        if offered >= modes {
            return Ok(());
        }
        let offers = match offered {
            Modes::Exclusive => "exclusive locks only",
            Modes::Shared | Modes::Permits => "exclusive and shared locks only",
        };
        Err(Error::new(
            ErrorKind::Unsupported,
            format!("{name}: {what} is not to be had on this store, which has {offers}"),
        ))
    }
}

impl LineView {
    /// Those who hold it.
    pub fn holders(&self) -> impl Iterator<Item = &PlaceView> {
        self.places.iter().filter(|place| place.is_held())
    }

    /// Those who wait, in order.
    pub fn waiters(&self) -> impl Iterator<Item = &PlaceView> {
        self.places.iter().filter(|place| !place.is_held())
    }
}

impl PlaceView {
    /// Whether it is held.
    pub fn is_held(&self) -> bool {
        matches!(self.state, PlaceState::Held { .. })
    }

    /// How long it has been held, if it is and the store knows.
    pub fn held_for(&self) -> Option<Duration> {
        match self.state {
            PlaceState::Held { since, .. } => since,
            PlaceState::Waiting => None,
        }
    }
}
