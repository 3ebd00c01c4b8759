//! A profile in words.

use bramah_core::{Fencing, Leasing, Liveness, Modes, Order, Profile, Waking};

use super::{Kind, Span};

/// One thing that a store promises, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// What it is about: `excludes`, `order`, `modes`, `crash`, `freeze`, `fence`, `wakes`, `leases` or `detached`.
    pub topic: &'static str,
    /// Which of a few cases it is. Stable: for scripts.
    pub word: &'static str,
    /// The same for people.
    pub text: &'static str,
}

/// All of them, in the order in which they are told. `leaves` is whether the store took a session without a process.
pub(super) fn all(kind: &Kind, profile: &Profile, leaves: Option<bool>) -> Vec<Promise> {
    let promise = |topic, (word, text)| Promise { topic, word, text };
    let mut all = vec![
        kind.excludes,
        promise("order", order(profile.order)),
        promise("modes", modes(profile.modes)),
        promise("crash", crash(profile.liveness)),
        promise("freeze", freeze(profile.liveness)),
        promise("fence", fence(profile.fence)),
        promise("wakes", wakes(profile.wake)),
        promise("leases", leases(profile.lease)),
    ];
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

fn crash(liveness: Liveness) -> Words {
    match liveness {
        Liveness::Lease => (
            "after_ttl",
            "a lock is kept by a lease that its process renews: after a crash it is free when the ttl is over",
        ),
        Liveness::Session => (
            "after_ttl",
            "a lock is kept by a session that its process renews: after a crash it is free when the ttl is over",
        ),
        Liveness::Connection => (
            "when_seen",
            "a lock is kept by its living process: after a crash it is free as soon as the store sees it",
        ),
    }
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
            let all = all(&kind(span), &profile, leaves);
            all.iter().find(|promise| promise.topic == "detached").map(|promise| promise.word)
        };
        assert_eq!(word(Span::Engine, Some(true)), Some("no"));
        assert_eq!(word(Span::Own, Some(true)), Some("yes"));
        assert_eq!(word(Span::Own, Some(false)), Some("no"));
        assert_eq!(word(Span::Own, None), None);
    }
}
