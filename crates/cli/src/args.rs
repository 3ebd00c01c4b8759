//! What can be typed.

use std::{ffi::OsString, time::Duration};

use clap::{Args as Flags, Parser, Subcommand, builder::NonEmptyStringValueParser};

use crate::{exit::Failure, span};

const EXAMPLES: &str = "\
Examples:
  bramah run deploy/prod -- ./deploy.sh         wait for the lock, run, release
  bramah run cron/mail -n -- ./mail.sh          skip if it is busy: exit code 75
  bramah run migrate -w 10m --reason \"rev 42\" -- ./migrate up
  bramah ls                                     who holds what
  bramah show deploy/prod                       who holds it, who waits, since when and why

Environment:
  BRAMAH_ENGINE    the store's URL, if --engine is not given; the place for passwords
  BRAMAH_LOG       error, warn, info, debug or trace: the library's log on stderr

Exit codes:
  64 usage, unsupported or conflicting   65 corrupt store   69 store unreachable   74 cannot write
  75 busy   77 denied   79 lost   126 cannot execute   127 not found   128+n ended by signal n
  run: else the command's own.   show: 1 if nobody holds it or waits.";

const RUN_EXAMPLES: &str = "\
The command runs without a shell, in a process group of its own (in ours at the head of a pipeline on a terminal).
stdin is passed on; SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are forwarded. Its environment has
  BRAMAH_LOCK    the name             BRAMAH_ID      this hold, as listed by show
  BRAMAH_FENCE   the fencing token: give it to what you write to, and let it refuse a smaller one than it has seen
  BRAMAH_STORE   the store's URL without secrets
  BRAMAH_TTL_MS  how long the store keeps the lock of a process that it does not hear of

If the lock is lost while the command runs, its group gets SIGTERM, then SIGKILL, and bramah exits with 79.

Examples:
  bramah run deploy/prod --reason \"hotfix 1.4.2\" -- ./deploy.sh
  bramah run cron/mail -n -- ./mail.sh || [ $? = 75 ]
  bramah run backup -w 1h30m -- sh -c 'pg_dump shop > shop.sql'";

/// Hold a lock while a command runs, and see who holds what.
#[derive(Debug, Parser)]
#[command(name = "bramah", version, after_help = EXAMPLES, disable_help_subcommand = true, max_term_width = 100)]
#[command(arg_required_else_help = false, subcommand_required = true)]
pub(crate) struct Args {
    /// Where the locks live: file:///dir for the processes of one machine, memory: for trying things out.
    /// [default: $BRAMAH_ENGINE, else files in your state directory]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) engine: Option<String>,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Hold a lock while a command runs
    Run(Run),
    /// List the locks that are held or waited for
    Ls(Ls),
    /// Show one lock: its holders, the line behind them, its fence
    Show(Show),
}

#[derive(Debug, Flags)]
#[command(after_help = RUN_EXAMPLES, override_usage = "bramah run [OPTIONS] <NAME> -- <CMD>...")]
pub(crate) struct Run {
    /// The lock, such as deploy/prod
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
    /// Do not wait: if it is busy, say who has it and exit with 75
    #[arg(short = 'n', long = "try", conflicts_with = "wait")]
    pub(crate) try_only: bool,
    /// Wait for so long at the most (30s, 5m, 1h30m, 500ms, or seconds); 0 is -n [default: as long as it takes]
    #[arg(short, long, value_name = "DUR", value_parser = span::read)]
    pub(crate) wait: Option<Duration>,
    /// How long the store keeps the lock of a process that it does not hear of; renewed every third of it
    #[arg(long, value_name = "DUR", value_parser = span::read, default_value = "30s")]
    pub(crate) ttl: Duration,
    /// Why, for those who wait
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
    /// At the end, write what happened as one line of JSON to stderr
    #[arg(long)]
    pub(crate) json: bool,
    /// Say when the lock is had and when it is released
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Do not say for whom we wait, or who has it when it is busy
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Flags)]
pub(crate) struct Ls {
    /// Only this lock and those below it: deploy lists deploy and deploy/prod, not deployment
    pub(crate) prefix: Option<String>,
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Flags)]
pub(crate) struct Show {
    /// The lock, such as deploy/prod
    pub(crate) name: String,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What clap has to say: text that was asked for, or a refusal in one line.
pub(crate) fn refusal(error: &clap::Error) -> Result<String, Failure> {
    let text = error.render().to_string();
    if !error.use_stderr() {
        return Ok(text);
    }
    // What follows is the usage and where to read more: too much for a log.
    let what = text.split("\n\nUsage:").next().unwrap_or(&text);
    let what = what.split("\n\nFor more information").next().unwrap_or(what);
    let what = what.strip_prefix("error: ").unwrap_or(what);
    let words: Vec<String> = what.split_whitespace().map(scrub).collect();
    Err(Failure::usage(format!("{}; see --help", words.join(" "))))
}

/// A word of the command line, repeated in a message, may be a URL in the wrong place.
fn scrub(word: &str) -> String {
    match word.split_once("//") {
        Some((scheme, rest)) if rest.contains('@') => format!("{scheme}//…"),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(line.split(' '))
    }

    #[test]
    fn the_definition_holds_together() {
        Args::command().debug_assert();
    }

    #[test]
    fn flags_before_the_command_are_ours_and_those_after_it_are_its_own() {
        for line in ["bramah run a -n -- ls -n --json", "bramah run -n a ls -n --json"] {
            let Verb::Run(run) = parse(line).unwrap().verb else { panic!("not run") };
            assert!(run.try_only && !run.json);
            assert_eq!(run.command, ["ls", "-n", "--json"]);
        }
        let args = parse("bramah run a --engine memory: -- b").unwrap();
        assert_eq!(args.engine.as_deref(), Some("memory:"));
    }

    #[test]
    fn refusals_are_one_line_without_secrets() {
        for line in [
            "bramah",
            "bramah run",
            "bramah run a",
            "bramah rum a",
            "bramah run a -w soon -- b",
            "bramah run a -n -w 3 -- b",
            "bramah run a --frob -- b",
            "bramah redis://u:hush@h",
            "bramah ls a redis://u:hush@h",
        ] {
            let failure = refusal(&parse(line).unwrap_err()).unwrap_err();
            let said = format!("{failure:?}");
            assert_eq!(failure.exit.code(), 64);
            assert!(!said.contains("\\n") && !said.contains("hush"), "{said}");
        }
        assert!(refusal(&parse("bramah run --help").unwrap_err()).unwrap().contains("BRAMAH_FENCE"));
    }
}
