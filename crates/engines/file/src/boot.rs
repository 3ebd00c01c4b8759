//! Which boot of the machine this is, and what time it is on it.

use bramah_core::Clock;

use crate::{codec::sum, state::Stamp};

/// The boot and its clock. Moments on disk count from the boot, so that they mean the same to every process.
#[derive(Clone, Debug)]
pub(crate) struct Boot {
    clock: Clock,
    /// The kernel's id of this boot.
    pub(crate) id: String,
    /// The same in 64 bits.
    pub(crate) mark: u64,
}

impl Boot {
    /// This one. Where the system has no id for it, all boots look alike, and a detached claim may outlive one.
    pub(crate) fn current() -> Self {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let id: String = id.chars().filter(|c| c.is_ascii_hexdigit() || *c == '-').take(64).collect();
        let id = if id.is_empty() { "unknown".to_owned() } else { id };
        Self { clock: Clock::boot(), mark: sum(id.as_bytes()), id }
    }

    /// The clock that sleeps are taken on.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Nanoseconds since the boot.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now().ns()
    }

    /// The time of an operation that starts now.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { now_ns: self.now_ns(), wall_us: self.clock.wall_us() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_counts_from_the_boot() {
        let boot = Boot::current();
        let now = boot.now_ns();
        assert!(now > 0 && boot.now_ns() >= now);
        assert_eq!(boot.mark, Boot::current().mark);
        assert_ne!(boot.id, "");
    }
}
