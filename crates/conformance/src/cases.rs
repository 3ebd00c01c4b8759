//! The cases, by group.

mod asking;
mod cancellation;
mod examples;
mod exclusive;
mod fence;
mod laws;
mod lease;
mod liveness;
mod loss;
mod names;
mod order;
pub(crate) mod peers;
mod permits;
mod reentrancy;
mod refusals;
mod shared;
mod survey;
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
        loss::cases(),
        asking::cases(),
        cancellation::cases(),
        wake::cases(),
        lease::cases(),
        reentrancy::cases(),
        names::cases(),
        survey::cases(),
        refusals::cases(),
        peers::cases(),
        examples::cases(),
    ];
    groups.into_iter().flatten().collect()
}
