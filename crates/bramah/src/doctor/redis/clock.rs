//! How a server's clock differs from ours.

use std::time::Duration;

use bramah_core::Session;
use bramah_redis::{
    Layout,
    checkup::{Facts, Server},
};

use super::{Finding, Severity, short};
use crate::doctor::wall_clock;

/// Fences are minted by the server's clock, and Redisson compares it with those of its hosts.
pub(super) fn judge(facts: &Facts, server: &Server) -> Option<Finding> {
    const CODE: &str = "redis.clock";
    const FAR_US: u64 = 1_000_000;
    /// With clocks further apart than a ttl, a lock that is lost in a failover may get a lower fence even if nobody takes it
    /// before its ttl is over.
    const TOO_FAR: Duration = Session::DEFAULT_TTL;
    let clock = server.clock?;
    let judged = wall_clock(clock.server_us);
    if judged.severity > Severity::Ok {
        return Some(Finding { code: CODE, ..judged });
    }
    let apart_us = clock.ahead_us.unsigned_abs();
    let side = if clock.ahead_us < 0 { "behind" } else { "ahead of" };
    let apart = Duration::from_micros(apart_us);
    let is_apart_by = |limit_us: u64| apart_us > limit_us.saturating_add(clock.within_us);
    if !is_apart_by(FAR_US) {
        let within = short(Duration::from_micros(apart_us.max(clock.within_us)));
        return Some(Finding::new(
            Severity::Ok,
            CODE,
            format!("its clock is within {within} of this machine's"),
        ));
    }
    let means = match facts.layout {
        Layout::Redisson => {
            "fair queues and permits compare it with the clocks of their clients, so that claims end early or late"
        }
        _ => {
            "leases do not mind, but fences rise by it, and fall back after a failover to a server whose clock is behind, or \
             after a loss of data once the clock is set: resources then refuse new holders, and may take writes of old ones"
        }
    };
    let text = format!("its clock is {} {side} this machine's: {means}", long(apart));
    let too_far_us = u64::try_from(TOO_FAR.as_micros()).unwrap_or(u64::MAX);
    Some(match is_apart_by(too_far_us) {
        true => Finding::new(
            Severity::Problem,
            CODE,
            format!(
                "{text}; one of the two is wrong by more than the usual ttl of {TOO_FAR:?}: set it, and keep it set (NTP)"
            ),
        ),
        false => Finding::new(Severity::Note, CODE, format!("{text}; keep the clocks in step (NTP)")),
    })
}

/// Whole seconds of what is long.
fn long(time: Duration) -> String {
    match time.as_secs() {
        0..120 => short(time),
        seconds => format!("{}h{:02}m{:02}s", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}
