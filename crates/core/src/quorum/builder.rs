//! What a quorum is made of.

use std::{
    sync::{Arc, Mutex, atomic::AtomicU64},
    time::Duration,
};

use super::{Flights, Inner, Member, Quorum, Share, Silence};
use crate::{
    Asking, Capacities, Clock, Error, ErrorKind, Fencing, Leasing, Liveness, Modes, Order, Profile, Result,
    Seats, Strays, Waking,
};

/// How a [`Quorum`] is made.
#[derive(Debug)]
pub struct Builder {
    members: Vec<Member>,
    share: Share,
    node_timeout: Duration,
    fenced: bool,
    clock: Clock,
}

impl Builder {
    pub(super) fn new(members: Vec<Member>) -> Self {
        Self {
            members,
            share: Share::Majority,
            node_timeout: Duration::from_millis(50),
            fenced: true,
            clock: Clock::boot(),
        }
    }

    /// How many members must agree; more than half if not said.
    #[must_use]
    pub fn share(mut self, share: Share) -> Self {
        self.share = share;
        self
    }

    /// How long one member may take to answer; 50 ms if not said, and never more than a tenth of the ttl.
    #[must_use]
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = timeout;
        self
    }

    /// Whether there are fences, at the price of a second round trip for each grant; yes if not said.
    #[must_use]
    pub fn fences(mut self, fenced: bool) -> Self {
        self.fenced = fenced;
        self
    }

    /// A clock of your own, for the time that members have; the machine's if not said.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The engine.
    ///
    /// # Errors
    /// `Invalid` without members, for two of one name, and for a time-out of nothing.
    pub fn build(self) -> Result<Quorum> {
        let Self { members, share, node_timeout, fenced, clock } = self;
        let wrong = |text: String| Err(Error::new(ErrorKind::Invalid, text));
        for (at, member) in members.iter().enumerate() {
            if members.iter().take(at).any(|other| other.name == member.name) {
                return wrong(format!(
                    "{} is a member twice; one store has one vote: name it once",
                    member.name
                ));
            }
        }
        if node_timeout.is_zero() {
            return wrong("node_timeout must be longer than 0".to_owned());
        }
        let Some(profile) = members.iter().map(|member| member.engine.profile()).reduce(weaker) else {
            return wrong("a quorum needs a member at least; name the stores that take part".to_owned());
        };
        let profile = Profile {
            // Of two readers no majority has to know: conflicts are of two. Of n permits any n + 1 claims conflict.
            modes: profile.modes.min(Modes::Shared),
            order: Order::Unordered,
            fence: if fenced { profile.fence } else { Fencing::None },
            strays: Strays::Unlisted,
            capacity: Capacities::Claimed,
            seats: Seats::Many,
            ..profile
        };
        let silent = Silence::of(members.len());
        let members = members.into();
        let (sessions, flights) = (Mutex::default(), Flights::new(&clock, silent.clone()));
        Ok(Quorum(Arc::new(Inner {
            members,
            share,
            node_timeout,
            fenced,
            profile,
            sessions,
            flights,
            silent,
            hints: AtomicU64::new(0),
            order: Mutex::new(()),
            clock,
        })))
    }
}

/// What two stores promise together.
fn weaker(one: Profile, other: Profile) -> Profile {
    let rank = |fence: Fencing| match fence {
        Fencing::Durable => 3,
        Fencing::Clocked => 2,
        Fencing::Volatile => 1,
        Fencing::None => 0,
    };
    Profile {
        modes: one.modes.min(other.modes),
        fence: if rank(one.fence) <= rank(other.fence) { one.fence } else { other.fence },
        liveness: if one.liveness == Liveness::Lease { other.liveness } else { one.liveness },
        wake: if one.wake == Waking::Pushed { other.wake } else { one.wake },
        lease: if one.lease == Leasing::Stored { other.lease } else { one.lease },
        asking: match (one.asking, other.asking) {
            (Asking::Never, _) | (_, Asking::Never) => Asking::Never,
            (Asking::Passed, _) | (_, Asking::Passed) => Asking::Passed,
            (Asking::Kept, Asking::Kept) => Asking::Kept,
        },
        ..one
    }
}
