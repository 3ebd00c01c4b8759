//! Engines that are in use.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use bramah_core::Result;

/// The engines of one kind of this process that are in use, by their URLs: whoever names the same one shares its connections.
pub struct Shelf<E: Shelved>(Mutex<Vec<(String, Weak<E::Inner>)>>);

/// An engine that is a handle of what its clones share.
pub trait Shelved: Sized {
    /// What they share.
    type Inner;

    /// What it is a handle of.
    fn inner(&self) -> &Arc<Self::Inner>;

    /// A handle.
    fn of(inner: Arc<Self::Inner>) -> Self;
}

impl<E: Shelved> fmt::Debug for Shelf<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // URLs have passwords in them.
        f.debug_struct("Shelf").finish_non_exhaustive()
    }
}

impl<E: Shelved> Shelf<E> {
    /// An empty one, for a static.
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// The engine for `url`, made by `make` if nobody uses it.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn get(&self, url: &str, make: impl FnOnce() -> Result<E>) -> Result<E> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, engine)| engine.strong_count() > 0);
        let same = known.iter().find(|(other, _)| other == url);
        if let Some(engine) = same.and_then(|(_, engine)| engine.upgrade()) {
            return Ok(E::of(engine));
        }
        let engine = make()?;
        known.push((url.to_owned(), Arc::downgrade(engine.inner())));
        Ok(engine)
    }
}

impl<E: Shelved> Default for Shelf<E> {
    fn default() -> Self {
        Self::new()
    }
}
