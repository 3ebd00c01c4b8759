//! What is the same on each database. `crate::on` is the one that it is run on.

mod cas;
mod fenced;
mod for_update;
mod optimistic;
mod with_row;
