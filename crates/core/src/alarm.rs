//! How an engine tells core of a claim before its time.

use std::{fmt, sync::Arc};

use crate::ClaimId;

/// A session's bell: an engine that hears that somebody has ended one of its claims rings it, and core asks the store about that
/// claim now, and not with the next renewal. It is a hint and no more: what counts is what the store answers.
///
/// It is also how a holder learns that it is asked to let go.
#[derive(Clone, Default)]
pub struct Alarm(Option<Arc<dyn Fn(ClaimId, News) + Send + Sync>>);

/// What is told of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It may be gone.
    Look,
    /// Somebody asks for it.
    Asked,
}

impl Alarm {
    /// One that nobody hears.
    pub fn none() -> Self {
        Self::default()
    }

    pub(crate) fn new(heard: impl Fn(ClaimId, News) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(heard)))
    }

    /// Has the claim looked at. Does not block.
    pub fn ring(&self, id: ClaimId) {
        if let Some(heard) = &self.0 {
            heard(id, News::Look);
        }
    }

    /// Tells the claim's holder that somebody asks it to let go. Does not block.
    pub fn ask(&self, id: ClaimId) {
        if let Some(heard) = &self.0 {
            heard(id, News::Asked);
        }
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Alarm")
    }
}
