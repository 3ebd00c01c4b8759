//! The time of day, for logs that are read beside others.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Now, as `2026-11-15T18:40:00.123Z`.
#[expect(clippy::disallowed_methods, reason = "a stamp tells the time of day; nothing is decided by it")]
pub(crate) fn now() -> String {
    write(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// `18:40:00Z` of such a text.
pub(crate) fn time_of_day(stamp: &str) -> String {
    format!("{}Z", stamp.get(11..19).unwrap_or(stamp))
}

/// RFC 3339 with milliseconds, in UTC.
fn write(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let ms = since_1970.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Year, month and day. Years begin in March here, so that the odd day of a leap year is their last (after Howard
/// Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days_since_1970: u64) -> (u64, u64, u64) {
    const CYCLE: u64 = 146_097;
    let days = days_since_1970 + 719_468;
    let (cycle, day) = (days / CYCLE, days % CYCLE);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_rfc_3339() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800_007, "2024-02-29T00:00:00.007Z"),
            (1_735_689_599_000, "2024-12-31T23:59:59.000Z"),
            (1_794_768_000_123, "2026-11-15T18:40:00.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(write(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn days_follow_each_other_for_eight_hundred_years() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..292_194 {
            assert_eq!(civil(days), (year, month, day));
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = match month {
                2 => 28 + u64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > last {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }
}
