//! Real failures, on real servers, through the public API.
//!
//! Every test starts servers of its own and asks the same four things: nobody holds beside another, a loss is told before
//! the next grant, the same session locks again afterwards, and no key is left over.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod rig;

mod apart;
mod cluster;
mod connections;
mod dropped;
mod endless;
mod fences;
mod frozen;
mod half_way;
mod lost_replies;
mod paused;
mod places;
mod refusals;
mod replicas;
mod restart;
mod rollback;
mod scripts;
mod sentinel;
mod turned_away;
