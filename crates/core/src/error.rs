//! What went wrong, and what it means for the lock.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use crate::Name;

/// The result of nearly everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One error type for every engine and face: a [kind](ErrorKind) to act on and one line for a person.
///
/// After an error from a locking call you do not hold the lock, and whatever the call may have left in the store
/// is being withdrawn.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: Arc<str>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
    after: Option<Duration>,
    no_effect: bool,
    in_use: Option<(Name, u32)>,
}

/// What an [`Error`] means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The lock was not had in the time given. Try again when you like.
    Timeout,
    /// It was yours, or a place in line was, and is not any more.
    Lost,
    /// The store could not be reached or did not answer. Try again.
    Unavailable,
    /// This store does not offer what was asked. Trying again will not help.
    Unsupported,
    /// The name is in use with another capacity (a mutex here, a semaphore there).
    Conflict,
    /// The request itself is wrong.
    Invalid,
    /// The store knows us and does not allow it.
    Denied,
    /// What the store holds is damaged, foreign, or of a newer format.
    Corrupt,
}

impl ErrorKind {
    /// Whether the same request may well succeed later.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Timeout | Self::Lost | Self::Unavailable)
    }
}

impl Error {
    /// An error of `kind` with one lower-case line: what, which, why, what next.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into().into(),
            source: None,
            after: None,
            no_effect: false,
            in_use: None,
        }
    }

    /// The same, with what caused it.
    pub fn caused(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl StdError + Send + Sync + 'static,
    ) -> Self {
        Self {
            kind,
            message: message.into().into(),
            source: Some(Arc::new(source)),
            after: None,
            no_effect: false,
            in_use: None,
        }
    }

    /// The same, of a store that said when it will take part. Nothing was written, and who can wait asks again then.
    #[must_use]
    pub fn until_after(self, after: Duration) -> Self {
        Self { after: Some(after), ..self }
    }

    /// After how long the store will take part, if it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        self.after
    }

    /// The same, of a call that has added nothing to the store and never will: its engine has made sure of that. Whether a
    /// claim is there is what it was before the call.
    #[must_use]
    pub fn with_no_effect(self) -> Self {
        Self { no_effect: true, ..self }
    }

    /// Whether the call is known to have added nothing to the store.
    pub fn had_no_effect(&self) -> bool {
        self.no_effect
    }

    /// The same, of a name that is in use with this capacity.
    pub(crate) fn for_use(self, name: Name, capacity: u32) -> Self {
        Self { in_use: Some((name, capacity)), ..self }
    }

    /// Of a [`Conflict`](ErrorKind::Conflict): the name, and the capacity that it is in use with, if the store told. With
    /// that capacity it can be had; it may be free, or in use in yet another way, when it is asked for again.
    pub fn in_use(&self) -> Option<(&Name, u32)> {
        self.in_use.as_ref().map(|(name, capacity)| (name, *capacity))
    }

    /// What it means.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// So that a [`Name`](crate::Name) is taken wherever text is.
impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
