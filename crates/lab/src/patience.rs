//! Waiting for a condition.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long anything of a server may take before a test gives up. A busy machine may be very slow.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Asks again and again until there is something.
///
/// # Errors
///
/// After `limit`, with what was waited for and the last reason that `ask` gave.
pub fn until<T>(
    what: &str,
    limit: Duration,
    mut ask: impl FnMut() -> Result<T, String>,
) -> Result<T, String> {
    let began = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        match ask() {
            Ok(found) => return Ok(found),
            Err(why) if began.elapsed() > limit => {
                return Err(format!("{what}: not within {} ms ({why})", limit.as_millis()));
            }
            Err(_) => thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_comes_true_is_seen() {
        let mut asked = 0;
        let third = until("three", PATIENCE, || {
            asked += 1;
            if asked == 3 { Ok(asked) } else { Err("too few".into()) }
        });
        assert_eq!(third, Ok(3));
    }

    #[test]
    fn a_condition_that_never_comes_true_is_told_with_its_last_reason() {
        let never: Result<(), _> = until("the sun", Duration::from_millis(5), || Err("night".into()));
        assert_eq!(never, Err("the sun: not within 5 ms (night)".into()));
    }
}
