//! Real failures of Redlock, on real masters, through the public API.
//!
//! Every test starts masters of its own. Where a guard keeps something from happening, the same scene without the guard
//! shows that it would have happened.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../faults/rig.rs"]
#[allow(dead_code, reason = "it is the rig of other tests, too")]
mod rig;
mod stage;

mod amnesia;
mod clocks;
mod frozen;
mod late;
mod left_behind;
mod lost_keys;
mod outage;
mod refusals;
mod young;
