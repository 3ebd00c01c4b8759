//! What was measured, round by round, and the table of goals at the end.

use std::{fmt::Write, process::ExitCode};

use crate::drive::Result;

/// One figure over several rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds(Vec<f64>);

impl Rounds {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// What is measured once.
    pub(crate) fn of(value: f64) -> Self {
        Self(vec![value])
    }

    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Each round against the same round of another: what slows both down does not show.
    pub(crate) fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, other)| one / other).collect())
    }

    /// Round by round, together.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, other)| one + other).collect())
    }

    pub(crate) fn median(&self) -> f64 {
        crate::report::median(self.0.clone())
    }

    pub(crate) fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn most(&self) -> f64 {
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
pub(crate) enum Goal {
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
pub(crate) struct Scores {
    table: String,
    missed: Vec<String>,
    overlaps: u64,
    regressions: u64,
    checked: u64,
}

impl Scores {
    pub(crate) fn new() -> Self {
        Self { table: String::new(), missed: Vec::new(), overlaps: 0, regressions: 0, checked: 0 }
    }

    pub(crate) fn heading(&self, text: &str) {
        println!("\n{text}");
    }

    pub(crate) fn figure(&self, what: &str, rounds: &Rounds, unit: &str) {
        println!("  {what:<52} {} {unit}", rounds.show());
    }

    pub(crate) fn goal(&mut self, id: &str, what: &str, rounds: &Rounds, goal: Goal) {
        let met = goal.met(rounds.median());
        let verdict = if met { "reached" } else { "MISSED" };
        // Writing to a string cannot fail.
        let _ = writeln!(self.table, "{id:<7} {what:<58} {:<30} {:<8} {verdict}", rounds.show(), goal.show());
        if !met {
            self.missed.push(format!("{id} {what}"));
        }
    }

    /// G10: so many acquisitions were looked at, and so many of them were wrong.
    pub(crate) fn check(&mut self, checked: u64, overlaps: u64, regressions: u64) {
        self.checked += checked;
        self.overlaps += overlaps;
        self.regressions += regressions;
    }

    pub(crate) fn wrong(&self) -> u64 {
        self.overlaps + self.regressions
    }

    pub(crate) fn print(&self) {
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

/// Measures, prints the figures, and says how it went.
pub(crate) fn report(measure: impl FnOnce(&mut Scores) -> Result<()>) -> ExitCode {
    let mut scores = Scores::new();
    if let Err(why) = measure(&mut scores) {
        // The figures so far have been told; a table of some of the goals would look like all of them.
        return exit(Err(why));
    }
    scores.print();
    // A missed goal is for people to judge, on a machine that they know to be idle. A wrong result is wrong anywhere.
    if scores.wrong() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How often everybody takes turns.
pub(crate) fn rounds() -> Result<usize> {
    match std::env::var("BRAMAH_BENCH_ROUNDS") {
        Err(_) => Ok(5),
        Ok(text) => match text.parse() {
            Ok(0) | Err(_) => Err(format!("BRAMAH_BENCH_ROUNDS={text}: must be a whole number from 1 on")),
            Ok(rounds) => Ok(rounds),
        },
    }
}

pub(crate) fn exit(outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bench: {why}");
            ExitCode::FAILURE
        }
    }
}
