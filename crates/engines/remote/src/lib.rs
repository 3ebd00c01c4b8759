//! What engines share whose store is elsewhere, and whose driver needs a runtime.
//!
//! [`Office`] is the thread where their work is done, to its end, whoever stops waiting; [`Flights`] has a withdrawal arrive behind its
//! claim; [`Aging`] looks at what has lasted for a while; [`Shelf`] gives everybody in a process who names the same URL the same engine.

mod aging;
mod flights;
mod office;
mod shelf;

pub use aging::Aging;
pub use flights::{Flight, Flights};
pub use office::{Lent, Office};
pub use shelf::{Shelf, Shelved};
