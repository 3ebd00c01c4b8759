//! How often a grant is written down with its fence.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bramah_core::Moment;

/// How often one of a process's grants is stamped, and for how long that spares the others on the same connection.
const STAMP: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// When a grant was last written down with its fence, and the mark compared with the server's clock: once in a while, and
/// not for each; one call less is a tenth of what a lock costs the server.
///
/// It counts for the connection that it was answered on. Behind another there may be a server that has gone back in time,
/// and there the mark alone would give fences a second time.
#[derive(Debug, Default)]
pub(super) struct Stamp {
    asked_ns: AtomicU64,
    answered_ns: AtomicU64,
    wire: AtomicU64,
}

impl Stamp {
    /// The connection over which no stamp is needed now, if so. When one is due, whoever comes first takes it upon itself.
    pub(super) fn spares(&self, now: Moment) -> Option<u64> {
        let asked = self.asked_ns.load(Ordering::Acquire);
        if now.since(Moment::from_ns(asked)) >= STAMP.0 {
            let taken = self.asked_ns.compare_exchange(asked, now.ns(), Ordering::AcqRel, Ordering::Acquire);
            if taken.is_ok() {
                return None;
            }
        }
        // Read in the other order than they are written: a connection that is newer than its time does no harm.
        let answered = Moment::from_ns(self.answered_ns.load(Ordering::Acquire));
        (now.since(answered) < STAMP.1).then(|| self.wire.load(Ordering::Acquire)).filter(|wire| *wire != 0)
    }

    /// A grant was stamped, and answered at `answered` over this connection.
    pub(super) fn set(&self, answered: Moment, wire: u64) {
        self.wire.store(wire, Ordering::Release);
        self.answered_ns.store(answered.ns(), Ordering::Release);
    }

    /// What was asked for at `asked` was no grant: the next one is due.
    pub(super) fn unset(&self, asked: Moment) {
        // Somebody else may have asked since.
        let _ = self.asked_ns.compare_exchange(asked.ns(), 0, Ordering::AcqRel, Ordering::Acquire);
    }
}
