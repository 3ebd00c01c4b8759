//! What is the same on each database. `crate::on` is the one that it is run on.

mod bonus;
mod cas;
mod child;
mod fenced;
mod for_update;
mod optimistic;
mod queue;
mod with_row;
