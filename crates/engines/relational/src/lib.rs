//! What the engines on databases share.
//!
//! A lock in a database is a line of rows: [`Table`] is the engine over any [`Base`] that can keep one. The rules of the line
//! are the database's own, in functions that `bramah init` writes there: one call is one transaction and one round trip, and
//! every client, in whatever language, would have to go through the same ones. What is left for this side is who waits for what
//! ([`Wakes`]), in which order things are sent, and where they run ([`Office`]).

mod answer;
mod base;
mod desk;
mod lanes;
mod options;
mod pinned;
mod poll;
mod pool;
mod progress;
mod reader;
mod script;
mod survey;
mod table;
mod trouble;
mod wakes;

pub use answer::{Answer, Break, Found, Renewed, Seen};
pub use base::{Base, Footing, Head};
pub use bramah_remote::{Office, Shelf, Shelved};
pub use desk::Desk;
pub use options::{Mode, Terms, whole_millis};
pub use pinned::{Badge, Dialect, Pinned, Rolled, RowOf, Taken, foreign};
pub use pool::{Manners, Pool, Prelude, rows};
pub use reader::Reader;
pub use script::created;
pub use table::Table;
pub use trouble::{Meaning, Trouble};
pub use wakes::Wakes;
