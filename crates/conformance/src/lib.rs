//! What an engine promises, run against it.
//!
//! One suite for every engine: its cases are chosen by the engine's [`Profile`](bramah_core::Profile), and those
//! that do not apply are listed by name with the reason. A test target of a few lines runs it:
//!
//! ```no_run
//! use bramah_conformance::Target;
//! use bramah_core::Memory;
//!
//! fn main() -> std::process::ExitCode {
//!     bramah_conformance::main("memory", || Box::pin(async { Ok(Target::shared(Memory::new())) }))
//! }
//! ```
//!
//! with `harness = false` in the manifest. A store that other processes can reach is described by its address, and
//! then the cases that kill and stop processes run too: [`Suite::children`].
//!
//! Cases run side by side on one store, each on names of its own. The target takes `--list`, a part of a name to
//! choose cases by, and `BRAMAH_CONFORMANCE_REPEAT=n`. [`TRAPS`] tells which bugs of other locks are covered where.

mod args;
mod bench;
mod case;
mod cases;
mod child;
mod count;
mod crowd;
pub mod faulty;
mod history;
mod puppet;
mod suite;
mod target;
mod trace;
pub mod twist;
pub mod world;

pub use args::{REPEAT, main};
pub use case::{Case, Need, Verdict};
pub use cases::{
    all as cases,
    peers::{TRAPS, Trap},
};
pub use child::CHILD;
pub use count::{counts_under, persist};
pub use crowd::Crowd;
pub use puppet::Puppet;
pub use suite::{Suite, Tally, run_case};
pub use target::Target;

/// A boxed future.
pub type Later<T> = std::pin::Pin<Box<dyn Future<Output = T> + Send>>;
