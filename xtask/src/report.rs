//! Steps, one after the other, and what became of each.

use std::{
    fmt::{self, Display},
    time::{Duration, Instant},
};

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed(String),
    NotRun(String),
}

impl From<Result<(), String>> for Outcome {
    fn from(done: Result<(), String>) -> Self {
        match done {
            Ok(()) => Self::Passed,
            Err(what) => Self::Failed(what),
        }
    }
}

#[derive(Debug)]
struct Entry {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
}

/// What became of the steps so far. It is displayed as the summary.
#[derive(Debug, Default)]
pub(crate) struct Report {
    entries: Vec<Entry>,
    remarks: Vec<String>,
}

impl Report {
    /// Runs a step under a heading that shows `what` it does.
    pub(crate) fn step(&mut self, name: &'static str, what: &str, work: impl FnOnce() -> Outcome) {
        println!("\n== {name}: {what}");
        let began = Instant::now();
        let outcome = work();
        let took = began.elapsed();
        match &outcome {
            Outcome::Passed => println!("== {name}: passed in {}", Seconds(took)),
            Outcome::Failed(why) => println!("== {name}: FAILED in {} ({why})", Seconds(took)),
            Outcome::NotRun(why) => println!("== {name}: not run ({why})"),
        }
        self.entries.push(Entry { name, outcome, took });
    }

    /// Notes a step that was left out.
    pub(crate) fn skip(&mut self, name: &'static str, why: &str) {
        self.entries.push(Entry { name, outcome: Outcome::NotRun(why.to_owned()), took: Duration::ZERO });
    }

    /// Notes a step that could not be taken and had to be.
    pub(crate) fn fail(&mut self, name: &'static str, why: &str) {
        self.entries.push(Entry { name, outcome: Outcome::Failed(why.to_owned()), took: Duration::ZERO });
    }

    /// Adds a line to the summary, before the count.
    pub(crate) fn remark(&mut self, line: String) {
        self.remarks.push(line);
    }

    pub(crate) fn failed(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.outcome, Outcome::Failed(_))).count()
    }

    fn passed(&self) -> usize {
        self.entries.iter().filter(|entry| entry.outcome == Outcome::Passed).count()
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry { name, outcome, took } in &self.entries {
            match outcome {
                Outcome::Passed => writeln!(f, "passed: {name}: {}", Seconds(*took))?,
                Outcome::Failed(why) => writeln!(f, "FAILED: {name}: {} ({why})", Seconds(*took))?,
                Outcome::NotRun(_) => {}
            }
        }
        for Entry { name, outcome, .. } in &self.entries {
            if let Outcome::NotRun(why) = outcome {
                writeln!(f, "not run: {name}: {why}")?;
            }
        }
        for line in &self.remarks {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "{} passed, {} failed", self.passed(), self.failed())
    }
}

struct Seconds(Duration);

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.0.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_tells_what_was_not_run_and_ends_with_the_count() {
        let mut report = Report::default();
        report.step("one", "x", || Outcome::Passed);
        report.step("two", "x", || Outcome::Failed("exit status: 1".into()));
        report.step("three", "x", || Outcome::NotRun("no network".into()));
        report.skip("four", "--quick");
        report.remark("a remark".into());
        let summary = report.to_string();
        let lines: Vec<&str> = summary.lines().collect();
        assert_eq!(lines.len(), 6, "{summary}");
        assert!(lines[1].starts_with("FAILED: two:"), "{summary}");
        assert_eq!(
            lines[2..],
            ["not run: three: no network", "not run: four: --quick", "a remark", "1 passed, 1 failed"]
        );
        assert_eq!(report.failed(), 1);
    }
}
