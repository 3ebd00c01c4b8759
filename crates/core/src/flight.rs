//! What is under way when a claim is given up, and how a hold ended.

use crate::{Reply, Standing};

/// What a claim still has on its way when it is given up.
#[derive(Debug)]
pub(crate) enum Flight {
    /// Nothing.
    Landed,
    Claim(Reply<Standing>),
    /// Its withdrawal, and whether the claim was refused: then this may be, too.
    Withdraw(Reply<()>, Refusal),
    /// Nothing: the claim was refused, and may have been written all the same.
    Refused,
}

/// Whether a claim that is on its way out was refused half-way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    None,
    HalfWay,
}

impl Refusal {
    pub(crate) fn of(flight: &Flight) -> Self {
        match flight {
            Flight::Refused | Flight::Withdraw(_, Self::HalfWay) => Self::HalfWay,
            Flight::Landed | Flight::Claim(_) | Flight::Withdraw(_, Self::None) => Self::None,
        }
    }
}

/// How a hold ended that was not released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its time is up here. The store keeps it for as long as clocks may differ by.
    RanOut,
    /// The store has it, and not as held.
    NotHeld,
}
