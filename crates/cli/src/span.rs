//! Lengths of time, as people write and read them.

use std::time::Duration;

/// Reads `30s`, `5m`, `1h30m`, `500ms`, `1.5h`; a bare number is seconds, as in flock.
pub(crate) fn read(text: &str) -> Result<Duration, String> {
    const HOW: &str = "write 30s, 5m, 1h30m, 500ms or a number of seconds";
    let mut rest = text.trim();
    let mut sum = Duration::ZERO;
    if rest.is_empty() {
        return Err(format!("it is empty; {HOW}"));
    }
    if rest.starts_with('-') {
        return Err(format!("it is less than nothing; {HOW}"));
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            "" if number.len() == text.trim().len() => 1.0,
            _ => return Err(format!("no such unit of time; {HOW}")),
        };
        let number: f64 = number.parse().map_err(|_| format!("not a number; {HOW}"))?;
        sum = Duration::try_from_secs_f64(number * seconds)
            .ok()
            .and_then(|part| sum.checked_add(part))
            .ok_or_else(|| "it is longer than time itself".to_owned())?;
        rest = tail;
    }
    Ok(sum)
}

/// The same for a time that has to be one.
pub(crate) fn read_some(text: &str) -> Result<Duration, String> {
    match read(text)? {
        Duration::ZERO => Err("it is no time at all".to_owned()),
        span => Ok(span),
    }
}

/// Writes `850ms`, `3.2s`, `12m04s`, `1h05m`, `3d04h`.
pub(crate) fn write(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 => format!("{}ms", span.as_millis()),
        1..60 => format!("{seconds}.{}s", span.subsec_millis() / 100),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Whole milliseconds, for JSON and the environment.
pub(crate) fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_people_write_them() {
        for (text, ms) in [
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("500ms", 500),
            ("2", 2_000),
            ("0", 0),
            ("0.5", 500),
            (".5s", 500),
            ("1.5h", 5_400_000),
            ("1d2h", 93_600_000),
            (" 3s ", 3_000),
        ] {
            assert_eq!(read(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn what_is_no_span_is_refused_with_how_to_write_one() {
        for text in ["", "s", "5x", "1h30", "-5", "1..5s", "five", "1e9", "99999999999999999999d", "5 m"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read("soon").unwrap_err().contains("30s"));
    }

    #[test]
    fn spans_are_written_short() {
        for (ms, text) in [
            (0, "0ms"),
            (850, "850ms"),
            (3_290, "3.2s"),
            (59_999, "59.9s"),
            (724_000, "12m04s"),
            (3_900_000, "1h05m"),
            (273_600_000, "3d04h"),
        ] {
            assert_eq!(write(Duration::from_millis(ms)), text);
        }
    }
}
