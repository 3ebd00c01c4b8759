//! The command line of a conformance target.

use std::process::ExitCode;

use bramah_core::Result;

use crate::{Later, Suite, Target, cases, child, suite::say};

/// The environment variable that says how often to run the cases.
pub const REPEAT: &str = "BRAMAH_CONFORMANCE_REPEAT";

/// The whole `main` of a conformance target for a store inside this process.
pub fn main(name: &str, setup: impl Fn() -> Later<Result<Target>> + 'static) -> ExitCode {
    Suite::new(name, setup).main()
}

impl Suite {
    /// The whole `main` of a conformance target: runs what the command line asks for.
    pub fn main(self) -> ExitCode {
        if let Ok(address) = std::env::var(child::CHILD) {
            return child::serve(self.into_reconnect(), address);
        }
        let args = Args::read(std::env::args().skip(1));
        if args.list {
            cases::all()
                .iter()
                .map(|case| case.name())
                .filter(|name| args.chooses(name))
                .for_each(|name| say(format_args!("{name}: test")));
            return ExitCode::SUCCESS;
        }
        let repeat = std::env::var(REPEAT).ok().and_then(|times| times.parse().ok()).unwrap_or(1);
        match self.run(|name| args.chooses(name), repeat) {
            Ok(tally) => {
                say(format_args!("{tally}"));
                if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
            }
            Err(error) => {
                eprintln!("{self:?} cannot run: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

/// What cargo and people pass to a test target, as far as it means something here.
#[derive(Debug, Default, PartialEq, Eq)]
struct Args {
    list: bool,
    exact: bool,
    /// Only what is ignored is asked for, and nothing is.
    ignored: bool,
    parts: Vec<String>,
    without: Vec<String>,
}

impl Args {
    fn read(words: impl IntoIterator<Item = String>) -> Self {
        let mut args = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--list" => args.list = true,
                "--exact" => args.exact = true,
                "--ignored" => args.ignored = true,
                "--skip" => args.without.extend(words.next()),
                "--format" | "--color" | "--test-threads" | "--logfile" => drop(words.next()),
                flag if flag.starts_with('-') => {}
                part => args.parts.push(part.to_owned()),
            }
        }
        args
    }

    fn chooses(&self, name: &str) -> bool {
        let is = |part: &String| if self.exact { name == part } else { name.contains(part) };
        let asked = self.parts.is_empty() || self.parts.iter().any(is);
        !self.ignored && asked && !self.without.iter().any(is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Args {
        Args::read(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn what_cargo_passes_is_accepted() {
        let args = read("--nocapture -q --format terse --test-threads 1 fence::");
        assert!(args.chooses("fence::a") && !args.chooses("laws::a"));
        assert!(read("").chooses("laws::a"));
        assert!(!read("--ignored").chooses("laws::a"));
        assert!(!read("--exact laws").chooses("laws::a"));
        assert!(!read("--skip laws").chooses("laws::a"));
    }
}
