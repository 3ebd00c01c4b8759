//! What the words mean: arguments, environment and defaults, resolved to plain data. Pure.

use std::{ffi::OsString, time::Duration};

use bramah::{Name, Scope, Session};

use crate::{
    args::{self, Args, Verb},
    exit::Failure,
    span,
    store::{Env, Store},
};

/// What is to be done, and where.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) store: Store,
    pub(crate) task: Task,
}

#[derive(Debug)]
pub(crate) enum Task {
    Run(Run),
    Ls { scope: Scope, form: Form },
    Show { name: Name, form: Form },
}

/// A lock to hold and a command to run meanwhile.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) name: Name,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) patience: Patience,
    pub(crate) ttl: Duration,
    pub(crate) reason: String,
    pub(crate) report: bool,
    pub(crate) talk: Talk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    None,
    For(Duration),
    Forever,
}

/// How much is said on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Talk {
    /// Errors and losses.
    Little,
    /// And whom we wait for.
    Usual,
    /// And what goes well.
    Much,
}

/// What data looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Human,
    Json,
}

impl Plan {
    pub(crate) fn new(args: Args, env: &Env) -> Result<Self, Failure> {
        let task = match args.verb {
            Verb::Run(run) => Task::Run(Run::new(run)?),
            Verb::Ls(ls) => Task::Ls { scope: scope(ls.prefix)?, form: form(ls.json) },
            Verb::Show(show) => Task::Show { name: Name::new(show.name)?, form: form(show.json) },
        };
        Ok(Self { store: Store::choose(args.engine, env)?, task })
    }
}

impl Run {
    fn new(args: args::Run) -> Result<Self, Failure> {
        let range = Session::MIN_TTL..=Session::MAX_TTL;
        if !range.contains(&args.ttl) {
            let (least, most) = (span::write(*range.start()), span::write(*range.end()));
            return Err(Failure::usage(format!(
                "--ttl {} is out of range; use {least} to {most}",
                span::write(args.ttl)
            )));
        }
        let patience = match args.wait {
            _ if args.try_only => Patience::None,
            Some(Duration::ZERO) => Patience::None,
            Some(wait) => Patience::For(wait),
            None => Patience::Forever,
        };
        let talk = match (args.quiet, args.verbose) {
            (true, _) => Talk::Little,
            (_, true) => Talk::Much,
            _ => Talk::Usual,
        };
        let mut words = args.command.into_iter();
        let program = words.next().ok_or_else(|| Failure::usage("no command to run; see --help"))?;
        Ok(Self {
            name: Name::new(args.name)?,
            program,
            arguments: words.collect(),
            patience,
            ttl: args.ttl,
            reason: args.reason,
            report: args.json,
            talk,
        })
    }
}

/// `deploy` and `deploy/` mean the same.
fn scope(prefix: Option<String>) -> Result<Scope, Failure> {
    Ok(match prefix {
        Some(prefix) => Scope::Under(Name::new(prefix.strip_suffix('/').unwrap_or(&prefix))?),
        None => Scope::All,
    })
}

fn form(json: bool) -> Form {
    if json { Form::Json } else { Form::Human }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn plan(line: &str) -> Result<Plan, Failure> {
        let env = Env { engine: Some("memory:".into()), ..Env::default() };
        Plan::new(Args::try_parse_from(line.split(' ')).unwrap(), &env)
    }

    fn run(line: &str) -> Run {
        match plan(line).unwrap().task {
            Task::Run(run) => run,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_defaults_wait_for_ever_with_half_a_minute_of_ttl() {
        let run = run("bramah run a -- b c");
        assert_eq!((run.patience, run.ttl), (Patience::Forever, Duration::from_secs(30)));
        assert_eq!((run.talk, run.report, &*run.reason), (Talk::Usual, false, ""));
        assert_eq!((run.program, run.arguments), ("b".into(), vec!["c".into()]));
    }

    #[test]
    fn not_waiting_can_be_said_in_two_ways() {
        for flags in ["-n", "--try", "-w 0", "--wait 0s"] {
            assert_eq!(run(&format!("bramah run a {flags} -- b")).patience, Patience::None);
        }
        let patience = run("bramah run a -w 1m30s -- b").patience;
        assert_eq!(patience, Patience::For(Duration::from_secs(90)));
    }

    #[test]
    fn a_prefix_may_end_in_a_slash() {
        for line in ["bramah ls a/b", "bramah ls a/b/"] {
            let Task::Ls { scope, form } = plan(line).unwrap().task else { panic!("not ls") };
            assert_eq!((scope, form), (Scope::Under(Name::new("a/b").unwrap()), Form::Human));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_is_opened() {
        for line in ["bramah run a//b -- c", "bramah show /", "bramah ls a//", "bramah run a --ttl 1ms -- c"]
        {
            assert_eq!(plan(line).unwrap_err().exit.code(), 64, "{line}");
        }
    }
}
