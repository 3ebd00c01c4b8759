//! A profile in words.

use std::{borrow::Cow, time::Duration};

use bramah_core::{Fencing, Leasing, Liveness, Modes, Order, Profile, Waking};

use super::{Kind, Span};

/// One thing that a store promises, or does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// What it is about: `excludes`, `order`, `modes`, `crash`, `freeze`, `fence`, `wakes`, `leases` or `detached`.
    pub topic: &'static str,
    /// Which of a few cases it is. Stable: for scripts.
    pub word: &'static str,
    /// The same for people.
    pub text: Cow<'static, str>,
    /// Of `crash`: when the next in line has the lock, at the latest.
    pub latest: Option<Latest>,
}

impl Promise {
    pub(super) const fn new(topic: &'static str, word: &'static str, text: &'static str) -> Self {
        Self { topic, word, text: Cow::Borrowed(text), latest: None }
    }
}

/// A bound that depends on the ttl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latest {
    /// So much of the ttl, in percent.
    pub ttl_percent: u32,
    /// And so much more.
    pub more: Duration,
}

impl Latest {
    /// How long it takes with this ttl, at the latest.
    pub fn with(self, ttl: Duration) -> Duration {
        (ttl.saturating_mul(self.ttl_percent) / 100).saturating_add(self.more)
    }
}

/// What the crash of a holder's process means.
pub(super) struct Crash {
    pub(super) word: &'static str,
    pub(super) text: String,
    pub(super) latest: Latest,
}

/// How long a store that expires claims on time, or sees a process die, and the next in line may take to notice.
pub(super) const NOTICE: Duration = Duration::from_secs(2);

/// All of them, in the order in which they are told. `crash` is what the store's kind says of that, `leaves` is whether the
/// store took a session without a process.
pub(super) fn all(
    kind: &Kind,
    profile: &Profile,
    crash: Option<Crash>,
    leaves: Option<bool>,
) -> Vec<Promise> {
    let promise = |topic, (word, text)| Promise::new(topic, word, text);
    let mut all = vec![
        kind.excludes.clone(),
        promise("order", order(profile.order)),
        promise("modes", modes(profile.modes)),
    ];
    let crash = crash.or_else(|| crash_by(profile.liveness));
    all.extend(crash.map(|Crash { word, text, latest }| Promise {
        topic: "crash",
        word,
        text: text.into(),
        latest: Some(latest),
    }));
    all.extend([
        promise("freeze", freeze(profile.liveness)),
        promise("fence", fence(profile.fence)),
        promise("wakes", wakes(profile.wake)),
        promise("leases", leases(profile.lease)),
    ]);
    let detached = match (kind.span, leaves) {
        (Span::Engine, _) => Some(("no", "no: nothing here outlives the process")),
        (_, Some(true)) => {
            Some(("yes", "yes: a lock can be left held for its ttl, with no process behind it"))
        }
        (_, Some(false)) => Some(("no", "no: every lock ends with its process")),
        (_, None) => None,
    };
    all.extend(detached.map(|detached| promise("detached", detached)));
    all
}

type Words = (&'static str, &'static str);

fn order(order: Order) -> Words {
    match order {
        Order::Fifo => ("fifo", "first come, first served"),
        Order::Unordered => ("unordered", "whoever asks at the right moment: nobody is sure to get a turn"),
    }
}

fn modes(modes: Modes) -> Words {
    match modes {
        Modes::Exclusive => ("exclusive", "mutex; neither readers beside each other nor permits"),
        Modes::Shared => ("shared", "mutex and read-write; no permits"),
        Modes::Permits => ("permits", "mutex, read-write, and permits of any number"),
    }
}

/// Where the profile tells all. How long a session outlives its process depends on the store.
fn crash_by(liveness: Liveness) -> Option<Crash> {
    let (word, ttl_percent, text) = match liveness {
        Liveness::Lease => (
            "after_ttl",
            100,
            "a lock is kept by a lease that its process renews: after a crash it is free when the ttl is over",
        ),
        Liveness::Connection => (
            "when_seen",
            0,
            "a lock is kept by its living process: after a crash it is free as soon as the store sees it",
        ),
        Liveness::Session => return None,
    };
    let latest = Latest { ttl_percent, more: NOTICE };
    Some(Crash { word, text: text.to_owned(), latest })
}

/// Locks that hang from a connection to a database, which ends a silent one when its ttl is over.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) fn connection() -> Crash {
    let text = "a lock is kept by a connection to the server: after a crash it is free as soon as the server sees that \
                connection end, and when the machine or the network is gone, when the ttl is over";
    Crash { word: "when_seen", text: text.to_owned(), latest: Latest { ttl_percent: 0, more: NOTICE } }
}

fn freeze(liveness: Liveness) -> Words {
    match liveness {
        Liveness::Lease | Liveness::Session => (
            "expires",
            "the locks of a process that stands still go on after the ttl; what it still writes a fence must stop",
        ),
        Liveness::Connection => {
            ("keeps", "a process that stands still keeps its locks until it goes on, ends, or is broken")
        }
    }
}

fn fence(fence: Fencing) -> Words {
    match fence {
        Fencing::Durable => {
            ("durable", "each is larger than the one before, for as long as the store keeps its data")
        }
        Fencing::Clocked => (
            "clocked",
            "each is larger than the one before, also after the store has lost its data, while the wall clock is right",
        ),
        Fencing::Volatile => {
            ("volatile", "each is larger than the one before, until the store loses its data")
        }
        Fencing::None => ("none", "none: nothing can stop a holder that was too slow"),
    }
}

fn wakes(wake: Waking) -> Words {
    match wake {
        Waking::Pushed => ("pushed", "a waiter is told by the store; a timer stands behind that"),
        Waking::Polled => ("polled", "a waiter asks from time to time"),
    }
}

fn leases(lease: Leasing) -> Words {
    match lease {
        Leasing::Stored => {
            ("stored", "a fixed lease is ended by the store, also when its process stands still")
        }
        Leasing::Kept => {
            ("kept", "a fixed lease is ended by its own process; one that stands still keeps it")
        }
    }
}

#[cfg(test)]
mod tests {
    use bramah_core::{Engine, Memory};

    use super::*;

    #[test]
    fn what_was_not_found_out_is_not_said() {
        let kind = |span| Kind { span, ..super::super::memory::KIND };
        let profile = Memory::new().profile();
        let word = |span, leaves| {
            let all = all(&kind(span), &profile, None, leaves);
            all.iter().find(|promise| promise.topic == "detached").map(|promise| promise.word)
        };
        assert_eq!(word(Span::Engine, Some(true)), Some("no"));
        assert_eq!(word(Span::Own, Some(true)), Some("yes"));
        assert_eq!(word(Span::Own, Some(false)), Some("no"));
        assert_eq!(word(Span::Own, None), None);
        let topics = |profile: &Profile, crash| {
            let all = all(&kind(Span::Own), profile, crash, None);
            all.iter().any(|promise| promise.topic == "crash")
        };
        let session = Profile { liveness: Liveness::Session, ..profile };
        assert!(topics(&profile, None) && !topics(&session, None));
    }

    #[test]
    fn a_bound_is_a_part_of_the_ttl_and_more() {
        let latest = Latest { ttl_percent: 150, more: Duration::from_secs(2) };
        assert_eq!(latest.with(Duration::from_secs(4)), Duration::from_secs(8));
    }
}
