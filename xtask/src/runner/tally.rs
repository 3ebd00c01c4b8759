//! What became of the tests so far.

use std::{
    fmt::{self, Display},
    io::{IsTerminal, Write, stdout},
    time::Duration,
};

use super::{Ended, SLOWEST};
use crate::report::Outcome;

/// The counts, and what is to be told at the end.
#[derive(Debug)]
pub(super) struct Tally {
    all: usize,
    counts: Counts,
    took: Vec<(String, Duration)>,
    failed: Vec<String>,
    slowest: Vec<(Duration, String)>,
    running: Vec<String>,
    is_terminal: bool,
}

/// What binaries say that they counted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    left_out: u64,
}

impl Tally {
    pub(super) fn new(all: usize) -> Self {
        Self {
            all,
            counts: Counts::default(),
            took: Vec::new(),
            failed: Vec::new(),
            slowest: Vec::new(),
            running: Vec::new(),
            is_terminal: stdout().is_terminal(),
        }
    }

    /// A binary begins.
    pub(super) fn begin(&mut self, name: &str) {
        self.running.push(name.to_owned());
        self.show_running();
    }

    /// On a terminal, the last line tells what is running.
    fn show_running(&self) {
        if self.is_terminal {
            print!("\r\x1b[K[{:3}/{}] running: {}", self.took.len(), self.all, self.running.join(", "));
            // Whoever closed the terminal does not read it.
            let _ = stdout().flush();
        }
    }

    /// Adds a binary, and shows a line of it; its whole output if it failed.
    pub(super) fn add(&mut self, name: &str, ended: &Ended) {
        self.took.push((name.to_owned(), ended.took));
        let counts = counts(&ended.output);
        self.counts.passed += counts.passed;
        self.counts.failed += counts.failed;
        self.counts.left_out += counts.left_out;
        self.slowest.push((ended.took, name.to_owned()));
        self.slowest.extend(times(&ended.output).map(|(took, test)| (took, format!("{name}: {test}"))));
        self.slowest.sort_by(|one, other| other.cmp(one));
        self.slowest.truncate(SLOWEST);
        self.running.retain(|running| running != name);
        if self.is_terminal {
            print!("\r\x1b[K");
        }
        let (done, all, seconds) = (self.took.len(), self.all, ended.took.as_secs_f64());
        match &ended.why {
            None => println!("[{done:3}/{all}] ok     {seconds:6.1} s  {name} ({} passed)", counts.passed),
            Some(why) => {
                println!("[{done:3}/{all}] FAILED {seconds:6.1} s  {name}: {why}\n{}", ended.output);
                println!("[{done:3}/{all}] end of the output of {name}, which FAILED: {why}");
                self.failed.push(name.to_owned());
            }
        }
        self.show_running();
    }

    pub(super) fn durations(&self) -> impl Iterator<Item = (String, f64)> {
        self.took.iter().map(|(name, took)| (name.clone(), took.as_secs_f64()))
    }

    pub(super) fn outcome(&self) -> Outcome {
        match self.failed.len() {
            0 => Outcome::Passed,
            _ => {
                Outcome::Failed(format!("{} tests, in {}", self.counts.failed.max(1), self.failed.join(", ")))
            }
        }
    }
}

impl Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the slowest:")?;
        for (took, test) in &self.slowest {
            writeln!(f, "{:8.1} s  {test}", took.as_secs_f64())?;
        }
        let (sum, Counts { passed, failed, left_out }) =
            (self.took.iter().map(|(_, took)| *took).sum::<Duration>(), self.counts);
        let binaries = self.took.len();
        writeln!(
            f,
            "{passed} tests passed, {failed} failed, {left_out} were left out, in {binaries} binaries"
        )?;
        writeln!(f, "{:.0} s if they had been run one after another", sum.as_secs_f64())
    }
}

/// The sum of the counts that a binary prints: libtest's, and those of suites.
fn counts(output: &str) -> Counts {
    let mut sum = Counts::default();
    for line in output.lines() {
        let words = line.strip_prefix("test result:").unwrap_or(line);
        let number = |word: &str| -> Option<u64> {
            let end = words.find(&format!(" {word}"))?;
            words[..end].rsplit([' ', ':', ',', ';']).next()?.parse().ok()
        };
        let (Some(passed), Some(failed)) = (number("passed"), number("failed")) else { continue };
        sum.passed += passed;
        sum.failed += failed;
        sum.left_out += number("ignored").or_else(|| number("skipped")).unwrap_or(0);
    }
    sum
}

/// The cases whose time a suite tells: `ok name (12 ms)`. Libtest tells none.
fn times(output: &str) -> impl Iterator<Item = (Duration, String)> {
    output.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("ok ")?.rsplit_once(" (")?;
        let ms = rest.strip_suffix(" ms)")?.parse().ok()?;
        Some((Duration::from_millis(ms), name.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIBTEST: &str = "\nrunning 2 tests\ntest a ... ok\ntest b::c ... ok\n\n\
        test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 2.51s\n";
    const SUITE: &str =
        "ok laws::one (12 ms)\nskipped laws::two: no order\nredis: 7 passed, 1 failed, 6 skipped\n";

    #[test]
    fn the_counts_of_both_kinds_are_read() {
        assert_eq!(counts(LIBTEST), Counts { passed: 2, failed: 0, left_out: 1 });
        assert_eq!(counts(SUITE), Counts { passed: 7, failed: 1, left_out: 6 });
        assert_eq!(counts("it passed, and nothing failed"), Counts::default());
    }

    #[test]
    fn the_times_of_cases_are_read() {
        let read = |output| times(output).collect::<Vec<_>>();
        assert_eq!(read(LIBTEST), []);
        assert_eq!(read(SUITE), [(Duration::from_millis(12), "laws::one".to_owned())]);
    }

    #[test]
    fn a_failure_names_the_binary_and_the_slowest_come_first() {
        let ended = |why: Option<&str>, output: &str| Ended {
            why: why.map(str::to_owned),
            took: Duration::from_secs(1),
            output: output.to_owned(),
        };
        let mut tally = Tally::new(2);
        tally.begin("one");
        tally.add("one", &ended(None, LIBTEST));
        assert_eq!(tally.outcome(), Outcome::Passed);
        tally.add("two", &ended(Some("exit status: 1"), SUITE));
        assert_eq!(tally.outcome(), Outcome::Failed("1 tests, in two".to_owned()));
        let shown = tally.to_string();
        let slowest = "the slowest:\n     1.0 s  two\n     1.0 s  one\n     0.0 s  two: laws::one\n";
        assert!(shown.starts_with(slowest), "{shown}");
        assert!(shown.contains("9 tests passed, 1 failed, 7 were left out, in 2 binaries"), "{shown}");
    }
}
