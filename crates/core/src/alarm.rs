//! How an engine has a claim looked at before its time.

use std::{fmt, sync::Arc};

use crate::ClaimId;

/// A session's bell for bad news: an engine that hears that somebody has ended one of its claims rings it, and core asks
/// the store about that claim now, and not with the next renewal.
///
/// It is a hint and no more: what counts is what the store answers.
#[derive(Clone, Default)]
pub struct Alarm(Option<Arc<dyn Fn(ClaimId) + Send + Sync>>);

impl Alarm {
    /// One that nobody hears.
    pub fn none() -> Self {
        Self::default()
    }

    pub(crate) fn new(heard: impl Fn(ClaimId) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(heard)))
    }

    /// Has the claim looked at. Does not block.
    pub fn ring(&self, id: ClaimId) {
        if let Some(heard) = &self.0 {
            heard(id);
        }
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Alarm")
    }
}
