//! The cases, by group.

mod asking;
mod cancellation;
mod dropping;
mod examples;
mod exclusive;
mod fence;
mod laws;
mod lease;
mod leaving;
mod liveness;
mod loss;
mod names;
mod order;
pub(crate) mod peers;
mod permits;
mod recovery;
mod reentrancy;
mod refusals;
mod secrets;
mod shared;
mod survey;
mod trying;
mod wake;

use crate::Case;

/// Every case, group by group.
pub fn all() -> Vec<Case> {
    let groups = [
        exclusive::cases(),
        shared::cases(),
        permits::cases(),
        order::cases(),
        fence::cases(),
        laws::cases(),
        liveness::cases(),
        leaving::cases(),
        loss::cases(),
        recovery::cases(),
        asking::cases(),
        cancellation::cases(),
        dropping::cases(),
        trying::cases(),
        wake::cases(),
        lease::cases(),
        reentrancy::cases(),
        names::cases(),
        survey::cases(),
        refusals::cases(),
        secrets::cases(),
        peers::cases(),
        examples::cases(),
    ];
    groups.into_iter().flatten().collect()
}
