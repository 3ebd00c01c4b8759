//! The one source of time.

use std::{
    fmt,
    ops::{Add, Sub},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A point on a [`Clock`], in nanoseconds. [`Moment::NEVER`] lies after every other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// No moment comes after this one.
    pub const NEVER: Moment = Moment(u64::MAX);

    /// The moment `ns` nanoseconds after the clock's start: for engines that read one back.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the clock's start; on [`Clock::boot`] that is the machine's, the same to every process.
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// How long it is from `earlier` to this moment; zero if it is not earlier.
    #[must_use]
    pub fn since(self, earlier: Moment) -> Duration {
        if self == Self::NEVER {
            return Duration::MAX;
        }
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Saturates: adding `Duration::MAX` gives [`Moment::NEVER`].
impl Add<Duration> for Moment {
    type Output = Moment;
    fn add(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Moment;
    fn sub(self, span: Duration) -> Moment {
        if self == Self::NEVER {
            return self;
        }
        Moment(self.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NEVER => f.write_str("never"),
            Moment(ns) => write!(f, "{:?}", Duration::from_nanos(ns)),
        }
    }
}

/// A clock that keeps running while the machine is suspended, or a test's own.
///
/// `std::time::Instant` stops in suspend on Linux while the store's clock goes on: a laptop that slept for an hour
/// would still believe in its lock. Deadlines are therefore kept on `CLOCK_BOOTTIME`.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Boot,
    Runtime { start: tokio::time::Instant, suspended_ns: Arc<AtomicU64> },
}

/// Timers count on a clock that stops in suspend, so no single sleep is longer than this: after a resume a deadline
/// is noticed at most this much late.
const STEP: Duration = Duration::from_secs(1);

/// Where the runtime's clock starts, so that ages and differences never reach below zero.
const EPOCH: Duration = Duration::from_secs(1_000_000);

impl Clock {
    /// The machine's clock.
    pub const fn boot() -> Self {
        Self(Source::Boot)
    }

    /// The time of the current tokio runtime, which a test can pause; [`Clock::suspend`] works on it.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn runtime() -> Self {
        Self(Source::Runtime { start: tokio::time::Instant::now(), suspended_ns: Arc::default() })
    }

    /// Whether it is the machine's, and no test's.
    pub(crate) fn is_boot(&self) -> bool {
        matches!(self.0, Source::Boot)
    }

    /// Now.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn now(&self) -> Moment {
        match &self.0 {
            Source::Boot => boot_now(),
            Source::Runtime { start, suspended_ns } => {
                let asleep = Duration::from_nanos(suspended_ns.load(Ordering::Relaxed));
                Moment(0) + EPOCH + tokio::time::Instant::now().duration_since(*start) + asleep
            }
        }
    }

    /// The wall clock in microseconds, for minting fences and nothing else: it jumps.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn wall_us(&self) -> u64 {
        match &self.0 {
            Source::Boot => std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX)),
            Source::Runtime { .. } => self.now().0 / 1_000,
        }
    }

    /// Pretends that the machine slept for `span`: the clock jumps, timers do not. A test's clock only; the
    /// machine's own is left alone.
    pub fn suspend(&self, span: Duration) {
        if let Source::Runtime { suspended_ns, .. } = &self.0 {
            suspended_ns.fetch_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// Sleeps for `span` of running time: after a suspend it may end late. Right for pauses, wrong for deadlines.
    ///
    /// # Cancel safety
    /// Nothing is lost when it is dropped.
    pub async fn nap(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    /// Sleeps until `at`.
    ///
    /// # Cancel safety
    /// Nothing is lost when it is dropped.
    pub async fn sleep_until(&self, at: Moment) {
        if at == Moment::NEVER {
            return std::future::pending().await;
        }
        loop {
            let left = at.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(STEP)).await;
        }
    }
}

#[cfg(target_os = "linux")]
fn boot_now() -> Moment {
    moment_of(rustix::time::clock_gettime(rustix::time::ClockId::Boottime))
}

#[cfg(not(target_os = "linux"))]
fn boot_now() -> Moment {
    moment_of(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic))
}

fn moment_of(time: rustix::time::Timespec) -> Moment {
    let (seconds, nanos) =
        (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    Moment(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_saturate() {
        assert_eq!(Moment(5) + Duration::MAX, Moment::NEVER);
        assert_eq!(Moment::NEVER - Duration::from_secs(1), Moment::NEVER);
        assert_eq!(Moment::NEVER.since(Moment(1)), Duration::MAX);
        assert_eq!(Moment(1).since(Moment(5)), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_suspended_machine_notices_its_deadline_a_step_after_it_wakes() {
        let clock = Clock::runtime();
        let start = clock.now();
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move {
                clock.sleep_until(start + Duration::from_secs(3600)).await;
                clock.now()
            }
        });
        tokio::task::yield_now().await;
        clock.suspend(Duration::from_secs(4000));
        let noticed = sleeper.await.unwrap();
        assert!(noticed.since(start) <= Duration::from_secs(4001), "{noticed:?}");
    }
}
