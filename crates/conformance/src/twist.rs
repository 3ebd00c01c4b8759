//! Engines with something changed: to hold calls back, to promise less, to be wrong on purpose.

mod halfway;
mod narrow;
mod seats;
mod stepped;
mod still;
mod valve;
mod whole;

use std::{fmt::Debug, sync::Arc, time::Duration};

use bramah_core::{
    Claim, Engine, Exit, Look, Opening, Profile, Renewal, Reply, Scope, SessionId, Standing, Survey,
};

pub use halfway::Halfway;
pub use narrow::Narrow;
pub use seats::OneSeat;
pub use stepped::Stepped;
pub use still::{Deaf, Still};
pub use valve::{Flow, Valve};
pub use whole::Whole;

/// A change to an engine. Every method passes the call on unless it is written anew: unlike an engine of its own, a
/// twist is *meant* to leave most of it alone.
pub trait Twist: Debug + Send + Sync + 'static {
    /// As [`Engine::profile`].
    fn profile(&self, inner: &Arc<dyn Engine>) -> Profile {
        inner.profile()
    }

    /// As [`Engine::open`].
    fn open(&self, inner: &Arc<dyn Engine>, opening: Arc<Opening>) -> Reply<Duration> {
        inner.open(opening)
    }

    /// As [`Engine::claim`].
    fn claim(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>) -> Reply<Standing> {
        inner.claim(claim)
    }

    /// As [`Engine::renew`].
    fn renew(
        &self,
        inner: &Arc<dyn Engine>,
        session: SessionId,
        claims: Arc<[Arc<Claim>]>,
    ) -> Reply<Renewal> {
        inner.renew(session, claims)
    }

    /// As [`Engine::withdraw`].
    fn withdraw(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        inner.withdraw(claim, exit)
    }

    /// As [`Engine::ask`].
    fn ask(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>) -> Reply<()> {
        inner.ask(claim)
    }

    /// As [`Engine::close`].
    fn close(&self, inner: &Arc<dyn Engine>, session: SessionId) -> Reply<()> {
        inner.close(session)
    }

    /// As [`Engine::survey`].
    fn survey(&self, inner: &Arc<dyn Engine>, scope: &Scope, look: Look) -> Reply<Survey> {
        inner.survey(scope, look)
    }
}

/// An engine with a [`Twist`] in front of it. Clones share both.
#[derive(Debug)]
pub struct Twisted<T> {
    inner: Arc<dyn Engine>,
    twist: Arc<T>,
}

impl<T: Twist> Twisted<T> {
    /// Puts `twist` in front of `inner`.
    pub fn new(inner: Arc<dyn Engine>, twist: Arc<T>) -> Self {
        Self { inner, twist }
    }
}

impl<T> Clone for Twisted<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), twist: self.twist.clone() }
    }
}

impl<T: Twist> Engine for Twisted<T> {
    fn profile(&self) -> Profile {
        self.twist.profile(&self.inner)
    }

    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        self.twist.open(&self.inner, opening)
    }

    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
        self.twist.claim(&self.inner, claim)
    }

    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        self.twist.renew(&self.inner, session, claims)
    }

    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        self.twist.withdraw(&self.inner, claim, exit)
    }

    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        self.twist.ask(&self.inner, claim)
    }

    fn close(&self, session: SessionId) -> Reply<()> {
        self.twist.close(&self.inner, session)
    }

    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        self.twist.survey(&self.inner, scope, look)
    }

    fn lifelines(&self, session: SessionId) -> Vec<std::os::fd::OwnedFd> {
        self.inner.lifelines(session)
    }
}
