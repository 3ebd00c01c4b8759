//! Which store, which names, which defaults: flags over environment over config file.

use std::time::Duration;

use bramah::{Name, Scope};

use crate::{
    args::{OnLost, Place},
    env::Env,
    exit::Failure,
    store::Store,
};

/// What is settled before a verb looks at its own flags.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) store: Store,
    pub(crate) env_ttl: Option<Duration>,
    pub(crate) env_wait: Option<Duration>,
    namespace: Option<Name>,
}

/// What the config file says of one lock, or of all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Defaults {
    pub(crate) ttl: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) grace: Option<Duration>,
    pub(crate) max_run: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
    pub(crate) on_lost: Option<OnLost>,
    pub(crate) slots: Option<u32>,
    pub(crate) require_reason: bool,
}

impl Settings {
    pub(crate) fn resolve(place: &Place, env: &Env) -> Result<Self, Failure> {
        let namespace = place.namespace.as_ref().or(env.namespace.as_ref()).map(Name::new).transpose()?;
        Ok(Self {
            store: Store::choose(place.engine.clone(), env)?,
            env_ttl: env.ttl,
            env_wait: env.wait,
            namespace,
        })
    }

    /// The lock of this name, in the namespace. A name that is in it already is meant as it stands, so that names
    /// can be copied from what is listed.
    pub(crate) fn name(&self, text: &str) -> Result<Name, Failure> {
        let name = Name::new(text)?;
        match &self.namespace {
            Some(space) if !name.is_under(space) => Ok(Name::new(format!("{space}/{name}"))?),
            _ => Ok(name),
        }
    }

    /// `deploy` and `deploy/` mean the same; without a prefix, all of the namespace.
    pub(crate) fn scope(&self, prefix: Option<&str>) -> Result<Scope, Failure> {
        Ok(match (prefix, &self.namespace) {
            (Some(prefix), _) => Scope::Under(self.name(prefix.strip_suffix('/').unwrap_or(prefix))?),
            (None, Some(space)) => Scope::Under(space.clone()),
            (None, None) => Scope::All,
        })
    }

    /// What the config file says of this lock.
    pub(crate) fn defaults(&self, _: &Name) -> Defaults {
        Defaults::default()
    }
}
