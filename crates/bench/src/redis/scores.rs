//! What was measured, round by round, and the table of goals at the end.

use std::fmt::Write;

/// One figure over several rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds(Vec<f64>);

impl Rounds {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// What is measured once.
    pub(super) fn of(value: f64) -> Self {
        Self(vec![value])
    }

    pub(super) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Each round against the same round of another: what slows both down does not show.
    pub(super) fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, other)| one / other).collect())
    }

    pub(super) fn median(&self) -> f64 {
        crate::report::median(self.0.clone())
    }

    pub(super) fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(super) fn most(&self) -> f64 {
        self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    fn show(&self) -> String {
        let digits = match self.median().abs() {
            value if value >= 100.0 => 0,
            value if value >= 10.0 => 1,
            _ => 3,
        };
        format!("{:>9.digits$} ({:.digits$}..{:.digits$})", self.median(), self.least(), self.most())
    }
}

/// What a median has to be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    Above(f64),
}

impl Goal {
    fn met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::Above(bound) => value > bound,
        }
    }

    fn show(self) -> String {
        match self {
            Self::AtLeast(least) => format!(">= {least}"),
            Self::AtMost(most) => format!("<= {most}"),
            Self::Above(bound) => format!("> {bound}"),
        }
    }
}

/// Prints figures as they come, and remembers goals for the end.
pub(super) struct Scores {
    table: String,
    missed: Vec<String>,
    overlaps: u64,
    regressions: u64,
    checked: u64,
}

impl Scores {
    pub(super) fn new() -> Self {
        Self { table: String::new(), missed: Vec::new(), overlaps: 0, regressions: 0, checked: 0 }
    }

    pub(super) fn heading(&self, text: &str) {
        println!("\n{text}");
    }

    pub(super) fn figure(&self, what: &str, rounds: &Rounds, unit: &str) {
        println!("  {what:<52} {} {unit}", rounds.show());
    }

    pub(super) fn goal(&mut self, id: &str, what: &str, rounds: &Rounds, goal: Goal) {
        let met = goal.met(rounds.median());
        let verdict = if met { "reached" } else { "MISSED" };
        // Writing to a string cannot fail.
        let _ = writeln!(self.table, "{id:<7} {what:<58} {:<30} {:<8} {verdict}", rounds.show(), goal.show());
        if !met {
            self.missed.push(format!("{id} {what}"));
        }
    }

    /// G10: so many acquisitions were looked at, and so many of them were wrong.
    pub(super) fn check(&mut self, checked: u64, overlaps: u64, regressions: u64) {
        self.checked += checked;
        self.overlaps += overlaps;
        self.regressions += regressions;
    }

    pub(super) fn wrong(&self) -> u64 {
        self.overlaps + self.regressions
    }

    pub(super) fn print(&self) {
        println!("\n{:<7} {:<58} {:<30} {:<8}", "", "median of the rounds (least..most)", "", "goal");
        print!("{}", self.table);
        let verdict = if self.wrong() == 0 { "reached" } else { "VIOLATED" };
        let found = format!("{} and {} in {}", self.overlaps, self.regressions, self.checked);
        let what = "overlapping holders and fences that went back";
        println!("{:<7} {what:<58} {found:<30} {:<8} {verdict}", "G10", "0 and 0");
        match self.missed.as_slice() {
            [] => println!("\nall goals reached"),
            missed => println!("\nmissed: {}", missed.join("; ")),
        }
    }
}
