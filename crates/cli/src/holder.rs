//! Words about who holds a lock.

use std::time::Duration;

use bramah::{Health, LineView, PlaceView, SessionId, line::WHOLE};

use crate::{say::clean, span};

/// `held 12m04s by ana@ci-7:812 ("hotfix 1.4.2")`, of those who hold `line` the one that has it longest. How long is left out
/// where the store does not know.
pub(crate) fn holder(line: &LineView) -> Option<String> {
    let first = line.holders().next()?;
    let others = match line.holders().count() - 1 {
        0 => String::new(),
        1 => " and 1 other".to_owned(),
        n => format!(" and {n} others"),
    };
    let held = first.held_for().map_or_else(String::new, |held| format!(" {}", span::write(held)));
    Some(format!("held{held} by {}{}{others}", owner(first), why(first)))
}

/// ` (job 8812: "hotfix 1.4.2")`, as far as that is known.
pub(crate) fn why(place: &PlaceView) -> String {
    let labels = place.about.iter().flat_map(|about| &about.labels);
    let job = labels.filter(|(key, _)| &**key == "job").map(|(_, job)| format!("job {}", clean(job))).next();
    match (job, &*place.claim.note) {
        (None, "") => String::new(),
        (Some(job), "") => format!(" ({job})"),
        (None, reason) => format!(" (\"{}\")", clean(reason)),
        (Some(job), reason) => format!(" ({job}: \"{}\")", clean(reason)),
    }
}

/// What is to be said of a holder that cannot go on.
pub(crate) fn trouble(line: &LineView) -> Option<&'static str> {
    line.holders()
        .any(|holder| holder.health == Health::Stopped)
        .then_some("who is stopped (SIGSTOP): the lock stays with it until it continues or ends")
}

/// `is busy: held 12m04s by …, 2 waiting`; `us` does not count.
pub(crate) fn busy(line: Option<&LineView>, us: SessionId) -> String {
    let Some((line, holder)) = line.and_then(|line| Some((line, holder(line)?))) else {
        return "was busy, and is free now".to_owned();
    };
    if line.holders().all(|place| place.claim.id.session == us) {
        // Nobody else has it: our own claim was granted while the wait ended, and is being withdrawn.
        return "was granted too late: the wait was over before the store's answer was here".to_owned();
    }
    let mut words = format!("is busy: {holder}");
    if let Some(trouble) = trouble(line) {
        words.push_str(&format!(", {trouble}"));
    }
    match line.waiters().filter(|place| place.claim.id.session != us).count() {
        0 => {}
        n => words.push_str(&format!(", {n} waiting")),
    }
    words
}

/// `held 12m04s by …, you are 2nd in line`, for whoever waits as `us`.
pub(crate) fn ahead(line: &LineView, us: SessionId) -> Option<String> {
    let mut words = holder(line)?;
    let trouble = trouble(line);
    if let Some(trouble) = trouble {
        words.push_str(&format!(", {trouble}"));
    }
    if let Some(place) = place(line, us) {
        let mark = if trouble.is_some() { ';' } else { ',' };
        words.push_str(&format!("{mark} you are {} in line", ordinal(place)));
    }
    Some(words)
}

/// Which place `us` has among those who wait, counted from 1; none on stores without a line.
pub(crate) fn place(line: &LineView, us: SessionId) -> Option<usize> {
    line.waiters().position(|place| place.claim.id.session == us).map(|index| index + 1)
}

/// The owner, if the store knows.
pub(crate) fn owner(place: &PlaceView) -> String {
    place.about.as_ref().map_or_else(|| "somebody unknown".to_owned(), |about| clean(&about.owner))
}

/// Whether a holder was last renewed longer ago than it should be. One that is well renews every third of its ttl, so after two
/// thirds at least one renewal is missing.
pub(crate) fn is_late(place: &PlaceView) -> bool {
    place.is_held() && place.renewed.is_some_and(|renewed| renewed > place.claim.ttl / 3 * 2)
}

/// `21.4s ago`
pub(crate) fn ago(time: Duration) -> String {
    format!("{} ago", span::write(time))
}

/// How a place takes its lock.
pub(crate) fn mode(capacity: u32, place: &PlaceView) -> &'static str {
    match (capacity, place.claim.weight) {
        (1, _) => "mutex",
        (WHOLE, WHOLE) => "write",
        (WHOLE, _) => "read",
        _ => "permits",
    }
}

pub(crate) fn health(place: &PlaceView) -> &'static str {
    match place.health {
        Health::Running => "running",
        Health::Stopped => "stopped",
        Health::Unknown => "unknown",
    }
}

fn ordinal(n: usize) -> String {
    let ending = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{line, place};
    use bramah::{PlaceState, line::WHOLE};

    #[test]
    fn a_busy_lock_says_who_has_it_since_when_why_and_who_waits() {
        let line = line(1, [place(1, 1).held(724).note("hotfix 1.4.2"), place(2, 1), place(3, 1)]);
        let us = SessionId::from_bits(9);
        let said = busy(Some(&line), us);
        assert_eq!(said, "is busy: held 12m04s by ana@ci-7:1 (job 8812: \"hotfix 1.4.2\"), 2 waiting");
        assert_eq!(busy(None, us), "was busy, and is free now");
    }

    #[test]
    fn our_own_claim_is_not_somebody_who_has_it() {
        let line = line(1, [place(1, 1).held(1), place(2, 1)]);
        assert!(busy(Some(&line), SessionId::from_bits(1)).starts_with("was granted too late"));
        assert!(busy(Some(&line), SessionId::from_bits(2)).starts_with("is busy: held 1.0s by ana@ci-7:1"));
    }

    #[test]
    fn a_waiter_is_told_its_place_and_when_the_holder_is_stopped() {
        let us = SessionId::from_bits(3);
        let mut places = [place(1, 1).held(3), place(2, 1), place(3, 1)];
        let words = ahead(&line(1, places.clone()), us).unwrap();
        assert_eq!(words, "held 3.0s by ana@ci-7:1 (job 8812), you are 2nd in line");
        places[0].0.health = Health::Stopped;
        let words = ahead(&line(1, places), us).unwrap();
        assert_eq!(
            words,
            "held 3.0s by ana@ci-7:1 (job 8812), who is stopped (SIGSTOP): the lock stays with it until it continues \
             or ends; you are 2nd in line"
        );
    }

    #[test]
    fn a_hold_of_unknown_length_is_held_all_the_same() {
        let mut place = place(1, 1).held(3);
        place.0.state = PlaceState::Held { fence: None, since: None };
        assert_eq!(holder(&line(1, [place])).unwrap(), "held by ana@ci-7:1 (job 8812)");
    }

    #[test]
    fn who_was_not_renewed_for_two_thirds_of_its_ttl_is_late() {
        let held = || place(1, 1).held(60);
        assert!(!is_late(&held().silent(20).0) && is_late(&held().silent(21).0));
        assert!(!is_late(&place(1, 1).silent(21).0), "it waits");
        let mut unknown = held();
        unknown.0.renewed = None;
        assert!(!is_late(&unknown.0));
    }

    #[test]
    fn several_holders_are_counted_and_text_from_the_store_is_cleaned() {
        let line =
            line(WHOLE, [place(1, 1).held(1).note("a\u{1b}[2J"), place(2, 1).held(1), place(3, WHOLE)]);
        assert_eq!(holder(&line).unwrap(), "held 1.0s by ana@ci-7:1 (job 8812: \"a\\u{1b}[2J\") and 1 other");
        assert_eq!(mode(line.capacity, &line.places[0]), "read");
        assert_eq!(mode(line.capacity, &line.places[2]), "write");
    }

    #[test]
    fn ordinals() {
        let said: Vec<_> = [1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111].map(ordinal).into();
        assert_eq!(said.join(" "), "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 101st 111th");
    }
}
