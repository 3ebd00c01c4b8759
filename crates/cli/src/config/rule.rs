//! What the config file says of locks, by the patterns of their names.

use std::time::Duration;

use bramah::Name;

use crate::args::OnLost;

/// What the config file says of one lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Defaults {
    pub(crate) ttl: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) grace: Option<Duration>,
    pub(crate) max_run: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
    pub(crate) on_lost: Option<OnLost>,
    pub(crate) slots: Option<u32>,
    pub(crate) require_reason: bool,
}

/// One line of a `[lock]` or `[profile]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    Ttl(Duration),
    Wait(Duration),
    Grace(Duration),
    MaxRun(Duration),
    MinHold(Duration),
    OnLost(OnLost),
    Slots(u32),
    RequireReason(bool),
}

impl Setting {
    pub(super) fn apply(self, to: &mut Defaults) {
        match self {
            Self::Ttl(span) => to.ttl = Some(span),
            Self::Wait(span) => to.wait = Some(span),
            Self::Grace(span) => to.grace = Some(span),
            Self::MaxRun(span) => to.max_run = Some(span),
            Self::MinHold(span) => to.min_hold = Some(span),
            Self::OnLost(what) => to.on_lost = Some(what),
            Self::Slots(slots) => to.slots = Some(slots),
            Self::RequireReason(required) => to.require_reason = required,
        }
    }
}

/// All of the `[lock]`s.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules(pub(super) Vec<(Pattern, Vec<Setting>)>);

impl Rules {
    /// Puts what is said of this lock over `base`; the most specific pattern has the last word on each key.
    ///
    /// A pattern is compared with the whole name and with what follows the namespace, so that a file reads the same
    /// with and without one.
    pub(crate) fn over(&self, base: Defaults, name: &Name, namespace: Option<&Name>) -> Defaults {
        let mut fitting: Vec<_> = self
            .0
            .iter()
            .filter_map(|(pattern, settings)| Some((pattern.fit(name, namespace)?, settings)))
            .collect();
        fitting.sort_by_key(|(fit, _)| *fit);
        let mut defaults = base;
        for setting in fitting.into_iter().flat_map(|(_, settings)| settings) {
            setting.apply(&mut defaults);
        }
        defaults
    }
}

/// Which names are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// `*`
    All,
    /// `deploy/*`: what is below, at any depth.
    Below(Name),
    /// `deploy`
    Exactly(Name),
}

/// How specific a pattern is for a name that it fits: the greater, the more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fit {
    exact: bool,
    /// How many bytes of the whole name it settles.
    settled: usize,
    /// Whether the namespace was written as well.
    in_full: bool,
}

impl Pattern {
    /// A star stands for everything below, at the end only: `None` for others, and for what is no name.
    pub(super) fn new(text: &str) -> Option<Self> {
        let name = |text: &str| Name::new(text).ok().filter(|_| !text.contains('*'));
        match text.strip_suffix("/*") {
            _ if text == "*" => Some(Self::All),
            Some(prefix) => name(prefix).map(Self::Below),
            None => name(text).map(Self::Exactly),
        }
    }

    fn fit(&self, name: &Name, namespace: Option<&Name>) -> Option<Fit> {
        let whole = self.fit_text(name.as_str(), 0, true);
        let bare = namespace.and_then(|space| {
            let bare = name.as_str().strip_prefix(space.as_str())?.strip_prefix('/')?;
            self.fit_text(bare, space.as_str().len() + 1, false)
        });
        whole.max(bare)
    }

    fn fit_text(&self, text: &str, before: usize, in_full: bool) -> Option<Fit> {
        let fit = |exact, settled| Fit { exact, settled, in_full };
        match self {
            Self::All => Some(fit(false, 0)),
            Self::Below(prefix) => {
                let prefix = prefix.as_str();
                let below = text.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
                below.then(|| fit(false, before + prefix.len()))
            }
            Self::Exactly(name) => (text == name.as_str()).then(|| fit(true, before + text.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(patterns: &[&str]) -> Rules {
        let number = |at: usize| u32::try_from(at).unwrap();
        let rule =
            |(at, text): (usize, &&str)| (Pattern::new(text).unwrap(), vec![Setting::Slots(number(at))]);
        Rules(patterns.iter().enumerate().map(rule).collect())
    }

    /// The pattern that wins.
    fn winner(patterns: &[&'static str], name: &str, namespace: Option<&str>) -> Option<&'static str> {
        let namespace = namespace.map(|space| Name::new(space).unwrap());
        let found = rules(patterns).over(Defaults::default(), &Name::new(name).unwrap(), namespace.as_ref());
        found.slots.map(|at| patterns[at as usize])
    }

    #[test]
    fn the_most_specific_pattern_wins_wherever_it_stands() {
        let mut patterns = ["deploy/prod", "deploy/*", "*", "deploy/prod/*", "deploy"];
        for _ in 0..patterns.len() {
            patterns.rotate_left(1);
            for (name, wins) in [
                ("deploy/prod", "deploy/prod"),
                ("deploy/test", "deploy/*"),
                ("deploy/test/eu", "deploy/*"),
                ("deploy/prod/eu", "deploy/prod/*"),
                ("deploy", "deploy"),
                ("deployment", "*"),
                ("x/deploy/prod", "*"),
            ] {
                assert_eq!(winner(&patterns, name, None), Some(wins), "{name}");
            }
        }
        assert_eq!(winner(&["deploy/*"], "deploy", None), None);
    }

    #[test]
    fn patterns_fit_the_whole_name_and_the_name_in_its_namespace() {
        for (patterns, wins) in [
            (&["deploy/*"][..], Some("deploy/*")),
            (&["shop/deploy/*"], Some("shop/deploy/*")),
            (&["deploy/*", "shop/*", "*"], Some("deploy/*")),
            (&["*", "shop/*"], Some("shop/*")),
            (&["shop/deploy/*", "deploy/prod"], Some("deploy/prod")),
            (&["deploy/prod", "shop/deploy/prod"], Some("shop/deploy/prod")),
            (&["prod", "shop/prod"], None),
        ] {
            let mut turned = patterns.to_vec();
            turned.reverse();
            assert_eq!(winner(patterns, "shop/deploy/prod", Some("shop")), wins);
            assert_eq!(winner(&turned, "shop/deploy/prod", Some("shop")), wins);
        }
        assert_eq!(winner(&["deploy/*"], "shop/deploy/prod", None), None);
        assert_eq!(winner(&["deploy/*"], "shopping/deploy/prod", Some("shop")), None);
    }

    #[test]
    fn keys_are_won_one_by_one() {
        let minute = Duration::from_secs(60);
        let rules = Rules(vec![
            (Pattern::new("a").unwrap(), vec![Setting::RequireReason(false)]),
            (
                Pattern::new("*").unwrap(),
                vec![Setting::RequireReason(true), Setting::Wait(minute), Setting::Slots(3)],
            ),
        ]);
        let base = Defaults { ttl: Some(minute), wait: Some(Duration::ZERO), ..Defaults::default() };
        let of = |name: &str| rules.over(base.clone(), &Name::new(name).unwrap(), None);
        assert!(!of("a").require_reason && of("b").require_reason);
        assert_eq!((of("a").ttl, of("a").wait, of("a").slots), (Some(minute), Some(minute), Some(3)));
    }

    #[test]
    fn a_star_elsewhere_than_at_the_end_is_no_pattern() {
        for text in ["", "deploy*", "*/prod", "a/*/b", "a/**", "a//*", "/*", "/a", "**", "a\n/*"] {
            assert_eq!(Pattern::new(text), None, "{text}");
        }
    }
}
