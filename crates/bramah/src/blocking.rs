//! The faces for code without async, and stores by their URLs.
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

use crate::{Engine, Result};

/// As [`connect`](crate::connect()).
///
/// # Errors
/// As there.
pub fn connect(url: &str) -> Result<Session> {
    let engine = engine(url)?;
    Session::build(crate::Session::builder(engine).store(crate::redacted(url)))
}

/// As [`engine`](crate::engine()).
///
/// # Errors
/// As there.
pub fn engine(url: &str) -> Result<Arc<dyn Engine>> {
    crate::engine_at(url)
}
