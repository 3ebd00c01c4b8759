//! Times to live.

use std::time::Duration;

use bramah_core::Result;

use super::Target;
use crate::text;

/// What Redis takes: the end must be a number of 64 bits, in milliseconds since 1970. Room is left for any clock.
const MOST_MS: u64 = i64::MAX as u64 - (1 << 48);

/// A ttl as Redis takes it. What is less than a millisecond becomes one.
///
/// # Errors
/// `Invalid` for nothing and for too much.
pub(super) fn millis(ttl: Duration, target: Target<'_>) -> Result<u64> {
    if ttl.is_zero() {
        return Err(target.invalid("a ttl of zero; give one above it, or delete the key"));
    }
    let ttl_ms = text::millis(ttl);
    if ttl_ms > MOST_MS {
        return Err(target.invalid("the ttl is longer than redis can keep count of; leave it out"));
    }
    Ok(ttl_ms)
}

#[cfg(test)]
mod tests {
    use bramah_core::ErrorKind;

    use super::{super::Noun, *};

    #[test]
    fn a_ttl_is_at_least_a_millisecond_and_no_more_than_redis_takes() {
        let target = Target { noun: Noun::Key, key: "k", part: None };
        for (ttl, ms) in [
            (Duration::from_nanos(1), 1),
            (Duration::from_micros(1500), 2),
            (Duration::from_secs(1), 1000),
            (Duration::from_millis(MOST_MS), MOST_MS),
        ] {
            assert_eq!(millis(ttl, target).unwrap(), ms);
        }
        for ttl in [
            Duration::ZERO,
            Duration::from_millis(MOST_MS) + Duration::from_nanos(1),
            Duration::from_millis(u64::MAX),
            Duration::MAX,
        ] {
            assert_eq!(millis(ttl, target).unwrap_err().kind(), ErrorKind::Invalid, "{ttl:?}");
        }
    }
}
