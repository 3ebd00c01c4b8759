//! The store under test.

use std::{fmt, sync::Arc};

use bramah_core::{Engine, Result};

use crate::Later;

/// Gives a new engine on the store under test.
pub(crate) type Connect = Arc<dyn Fn() -> Later<Result<Arc<dyn Engine>>> + Send + Sync>;
/// Gives a new engine for a URL.
pub(crate) type Dial = Arc<dyn Fn(String) -> Later<Result<Arc<dyn Engine>>> + Send + Sync>;
/// Stops the store and starts it again.
pub(crate) type Restart = Arc<dyn Fn() -> Later<Result<()>> + Send + Sync>;

/// One store, and how to get clients of it.
#[derive(Clone)]
pub struct Target {
    connect: Connect,
    address: Option<Arc<str>>,
    dial: Option<Dial>,
    restart: Option<Restart>,
    is_bound: bool,
    pace: u32,
}

impl Target {
    /// A store inside this process: every client is a clone of `engine`.
    pub fn shared<E: Engine + Clone>(engine: E) -> Self {
        Self::new(move || {
            let engine: Arc<dyn Engine> = Arc::new(engine.clone());
            Box::pin(async { Ok(engine) })
        })
    }

    /// A store that `connect` gives a new and independent client of, each time it is called.
    pub fn new(connect: impl Fn() -> Later<Result<Arc<dyn Engine>>> + Send + Sync + 'static) -> Self {
        Self {
            connect: Arc::new(connect),
            address: None,
            dial: None,
            restart: None,
            is_bound: false,
            pace: 1,
        }
    }

    /// With an address at which a child process finds the same store: the function given to
    /// [`Suite::children`](crate::Suite::children) is called with it there.
    #[must_use]
    pub fn reachable_at(self, address: impl AsRef<str>) -> Self {
        Self { address: Some(address.as_ref().into()), ..self }
    }

    /// With a way to connect to another URL, where the address is one: cases about passwords change what it says.
    #[must_use]
    pub fn dialled_by(
        self,
        dial: impl Fn(String) -> Later<Result<Arc<dyn Engine>>> + Send + Sync + 'static,
    ) -> Self {
        Self { dial: Some(Arc::new(dial)), ..self }
    }

    /// With a way to stop the store and start it again, with what it keeps. Cases that use it run alone.
    #[must_use]
    pub fn restarted_by(self, restart: impl Fn() -> Later<Result<()>> + Send + Sync + 'static) -> Self {
        Self { restart: Some(Arc::new(restart)), ..self }
    }

    /// A store where nothing outlives its process: it refuses to keep what nobody does.
    #[must_use]
    pub fn bound_to_processes(self) -> Self {
        Self { is_bound: true, ..self }
    }

    /// A store whose answers take longer, such as one whose members agree on each of them: short ttls are so many times as long.
    #[must_use]
    pub fn paced(self, pace: u32) -> Self {
        Self { pace, ..self }
    }

    /// A new client.
    ///
    /// # Errors
    /// What the engine says.
    pub async fn client(&self) -> Result<Arc<dyn Engine>> {
        (self.connect)().await
    }

    pub(crate) fn address(&self) -> Option<&Arc<str>> {
        self.address.as_ref()
    }

    /// The URL of the store, and how one is connected to.
    pub(crate) fn url(&self) -> Option<(&Arc<str>, &Dial)> {
        self.address.as_ref().zip(self.dial.as_ref())
    }

    pub(crate) fn pace(&self) -> u32 {
        self.pace
    }

    pub(crate) fn is_bound(&self) -> bool {
        self.is_bound
    }

    pub(crate) fn restart(&self) -> Option<&Restart> {
        self.restart.as_ref()
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may have a password in it.
        f.debug_struct("Target").finish_non_exhaustive()
    }
}
