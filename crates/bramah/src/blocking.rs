//! The same for code without async: the core crate's blocking types, opened by a URL.
//!
//! ```
//! # fn main() -> bramah::Result<()> {
//! let session = bramah::blocking::connect("memory:")?;
//! let guard = session.mutex("orders/42")?.lock()?;
//! assert!(guard.is_held());
//! guard.release();
//! # Ok(()) }
//! ```

use std::sync::Arc;

pub use bramah_core::blocking::*;
use bramah_core::{Engine, Result};

use crate::{engine_of, redacted};

/// As [`crate::connect`].
///
/// # Errors
/// As there.
pub fn connect(url: &str) -> Result<Session> {
    Session::build(bramah_core::Session::builder(engine(url)?).store(redacted(url)))
}

/// As [`crate::engine()`]: for a session of your own settings, by [`Session::build`].
///
/// ```
/// # fn main() -> bramah::Result<()> {
/// use std::time::Duration;
/// let engine = bramah::blocking::engine("memory:")?;
/// let settings = bramah::Session::builder(engine).ttl(Duration::from_secs(5));
/// let session = bramah::blocking::Session::build(settings)?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// As there.
pub fn engine(url: &str) -> Result<Arc<dyn Engine>> {
    engine_of(url)
}
