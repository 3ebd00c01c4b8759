//! The servers that tests run.

use bramah_lab::servers::{Flavor, get};

use crate::{Verdict, cargo::ci, report::Outcome};

/// Gets all of them and tells where each is, or why not.
pub(crate) fn run() -> Verdict {
    if missing().is_empty() { Verdict::Passed } else { Verdict::Failed }
}

/// The same as a step of the tests.
pub(crate) fn step() -> Outcome {
    judge(&missing(), ci())
}

fn missing() -> Vec<(Flavor, String)> {
    let mut missing = Vec::new();
    for flavor in Flavor::ALL {
        match get(flavor) {
            Ok(got) => println!("{flavor} {}: {}", got.version, got.server.path().display()),
            Err(why) => {
                println!("{flavor}: not to be had: {why}");
                missing.push((flavor, why));
            }
        }
    }
    missing
}

/// Most tests want Redis 7, and fail without. The others can be done without where nothing is merged.
fn judge(missing: &[(Flavor, String)], ci: bool) -> Outcome {
    let whys: Vec<String> = missing.iter().map(|(flavor, why)| format!("{flavor}: {why}")).collect();
    let needed = ci || missing.iter().any(|(flavor, _)| *flavor == Flavor::Redis7);
    match (whys.is_empty(), needed) {
        (true, _) => Outcome::Passed,
        (false, true) => Outcome::Failed(whys.join("; ")),
        (false, false) => Outcome::NotRun(whys.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_7_must_be_there_and_in_ci_every_server() {
        let without = |flavor| vec![(flavor, "no network".to_owned())];
        assert_eq!(judge(&[], true), Outcome::Passed);
        assert_eq!(judge(&without(Flavor::Valkey8), false), Outcome::NotRun("valkey8: no network".into()));
        assert_eq!(judge(&without(Flavor::Valkey8), true), Outcome::Failed("valkey8: no network".into()));
        assert_eq!(judge(&without(Flavor::Redis7), false), Outcome::Failed("redis7: no network".into()));
        assert_eq!(judge(&without(Flavor::Postgres), false), Outcome::NotRun("postgres: no network".into()));
        assert_eq!(judge(&without(Flavor::Postgres), true), Outcome::Failed("postgres: no network".into()));
    }
}
