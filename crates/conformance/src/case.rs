//! One behaviour that an engine owes.

use std::{fmt, panic::Location};

use bramah_core::{
    Asking, Capacities, Error, Fencing, Leasing, Liveness, Modes, Order, Profile, Seats, Strays, Waking, line,
};

use crate::{Later, Target, bench::Bench};

/// One behaviour, as a test that is handed a store.
#[derive(Clone, Copy)]
pub struct Case {
    name: &'static str,
    needs: &'static [Need],
    run: fn(Bench) -> Later<Outcome>,
}

/// What a case needs of a profile or of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Need {
    /// Readers beside each other.
    Shared,
    /// Weighted permits.
    Permits,
    /// Capacities that go with the claims.
    AnyCapacity,
    /// First come, first served.
    Fifo,
    /// Fences.
    Fences,
    /// Fences that survive a restart of the store.
    LastingFences,
    /// Several claims of one session on one name.
    ManySeats,
    /// The same of claims that share a lock.
    ManyShared,
    /// Claims that expire when the store does not hear of them.
    Expiry,
    /// Claims with a lease each.
    Leases,
    /// Claims that last as long as a connection or a process.
    Connection,
    /// Waiters that the store wakes.
    Pushed,
    /// Sessions whose claims can be listed.
    Strays,
    /// Fixed leases that the store ends.
    StoredLeases,
    /// Fixed leases that the process ends.
    KeptLeases,
    /// A store that a child process can reach.
    Children,
    /// A store that is found by a URL.
    Url,
    /// A store that can be restarted.
    Restart,
    /// Claims that outlive their process.
    Leaving,
    /// Holders that can be asked to let go.
    Asking,
    /// The same, by a wish that the store keeps until the claim ends.
    KeptWishes,
}

/// How a case went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The engine keeps its promise.
    Passed,
    /// It does not, and how.
    Failed(String),
    /// It promises no such thing, and what is missing.
    Skipped(&'static str),
}

impl Case {
    pub(crate) const fn new(
        name: &'static str,
        needs: &'static [Need],
        run: fn(Bench) -> Later<Outcome>,
    ) -> Self {
        Self { name, needs, run }
    }

    /// Group and behaviour: `exclusive::two_sessions_exclude_each_other`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Why it does not apply to this target, if it does not.
    pub fn missing(&self, profile: &Profile, target: &Target) -> Option<&'static str> {
        self.needs.iter().find_map(|need| need.missing(profile, target))
    }

    /// Whether nothing else may run beside it.
    pub(crate) fn is_alone(&self) -> bool {
        self.needs.contains(&Need::Restart)
    }

    pub(crate) fn run(&self, bench: Bench) -> Later<Outcome> {
        (self.run)(bench)
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Case").field(&self.name).finish()
    }
}

impl Need {
    fn missing(self, profile: &Profile, target: &Target) -> Option<&'static str> {
        let (there, why) = match self {
            Self::Shared => (profile.modes >= Modes::Shared, "the profile has no shared locks"),
            Self::Permits => (profile.modes >= Modes::Permits, "the profile has no permits"),
            Self::AnyCapacity => (
                profile.capacity == Capacities::Claimed,
                "the profile has capacities that stay with the store",
            ),
            Self::Fifo => (profile.order == Order::Fifo, "the profile has no order of service"),
            Self::Fences => (profile.fence != Fencing::None, "the profile has no fences"),
            Self::LastingFences => (
                matches!(profile.fence, Fencing::Durable | Fencing::Clocked),
                "the profile has no fences that survive a restart",
            ),
            Self::ManySeats => {
                (profile.seats == Seats::Many, "the profile has one seat for a session and name")
            }
            Self::ManyShared => (
                profile.seats.is_many(line::WHOLE),
                "the profile has one shared claim for a session and name",
            ),
            Self::Expiry => {
                (profile.liveness != Liveness::Connection, "the profile has no expiry of a living process")
            }
            Self::Leases => (profile.liveness == Liveness::Lease, "the profile has no lease for each claim"),
            Self::Connection => (
                profile.liveness == Liveness::Connection,
                "the profile has no claims that last with a process",
            ),
            Self::Pushed => (profile.wake == Waking::Pushed, "the profile has no pushed wakes"),
            Self::Strays => {
                (profile.strays == Strays::Listed, "the profile has no list of a session's claims")
            }
            Self::StoredLeases => {
                (profile.lease == Leasing::Stored, "the profile has no leases that the store ends")
            }
            Self::Asking => (profile.asking != Asking::Never, "the store passes no wishes on"),
            Self::KeptWishes => (profile.asking == Asking::Kept, "the store keeps no wishes"),
            Self::KeptLeases => {
                (profile.lease == Leasing::Kept, "the profile has leases that the store ends")
            }
            Self::Children => (target.address().is_some(), "the target has no address for a child process"),
            Self::Url => (target.url().is_some(), "the target has no url"),
            Self::Leaving => (!target.is_bound(), "the store keeps nothing without its process"),
            Self::Restart => (target.restart().is_some(), "the target has no way to restart its store"),
        };
        (!there).then_some(why)
    }
}

/// What a case ends with.
pub(crate) type Outcome<T = ()> = std::result::Result<T, Failure>;

/// Why a case failed, and where.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    at: &'static Location<'static>,
}

impl Failure {
    #[track_caller]
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), at: Location::caller() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}:{})", self.what, self.at.file(), self.at.line())
    }
}

impl From<Error> for Failure {
    #[track_caller]
    fn from(error: Error) -> Self {
        Self::new(format!("unexpected {:?} error: {error}", error.kind()))
    }
}

impl From<std::io::Error> for Failure {
    #[track_caller]
    fn from(error: std::io::Error) -> Self {
        Self::new(format!("the suite itself failed: {error}"))
    }
}

impl From<tokio::task::JoinError> for Failure {
    #[track_caller]
    fn from(error: tokio::task::JoinError) -> Self {
        Self::new(format!("a task of the case ended badly: {}", told(error)))
    }
}

/// What a task that panicked said.
pub(crate) fn told(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "it panicked".to_owned()),
        Err(error) => error.to_string(),
    }
}

/// Fails the case, with where and why, unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($why:tt)+) => {
        if !$condition {
            return Err($crate::case::Failure::new(format!($($why)+)));
        }
    };
}

/// Fails the case unless both are equal.
macro_rules! ensure_eq {
    ($left:expr, $right:expr, $($why:tt)+) => {
        match (&$left, &$right) {
            (left, right) => {
                if left != right {
                    let why = format!($($why)+);
                    return Err($crate::case::Failure::new(format!("{why}: {left:?} is not {right:?}")));
                }
            }
        }
    };
}

/// Waits until the condition, which may await, holds; fails the case when it does not within the time given.
macro_rules! wait_until {
    ($bench:expr, $within:expr, $condition:expr, $($what:tt)+) => {{
        let deadline = $bench.clock().now() + $within;
        while !$condition {
            if $bench.clock().now() >= deadline {
                let what = format!($($what)+);
                return Err($crate::case::Failure::new(format!("not within {:?}: {what}", $within)));
            }
            $bench.pass(std::time::Duration::from_millis(2)).await;
        }
    }};
}

/// Lists the cases of a group with what they need.
macro_rules! cases {
    ($group:literal: $($name:ident $([$($need:ident),+])?),+ $(,)?) => {
        pub(crate) fn cases() -> Vec<$crate::Case> {
            vec![$($crate::Case::new(
                concat!($group, "::", stringify!($name)),
                &[$($($crate::Need::$need),+)?],
                |bench| Box::pin($name(bench)),
            )),+]
        }
    };
}

pub(crate) use {cases, ensure, ensure_eq, wait_until};
