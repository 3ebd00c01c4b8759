//! What can be typed.

mod flags;
mod words;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{
    Args as Flags, CommandFactory, FromArgMatches, Parser, Subcommand, builder::NonEmptyStringValueParser,
};

pub(crate) use flags::{
    About, Busy, IfDown, Mode, OnLost, OnRevoke, Shell, Supervision, Talk, Ttl, signal_name,
};

use crate::{exit::Failure, span};

/// Hold a lock while a command runs, and see who holds what.
#[derive(Debug, Parser)]
#[command(name = "bramah", version, after_help = words::EXAMPLES, disable_help_subcommand = true)]
#[command(max_term_width = 100, subcommand_required = true, arg_required_else_help = false)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Which locks are meant.
#[derive(Clone, Debug, Default, Flags)]
#[command(next_help_heading = "Which store")]
pub(crate) struct Place {
    /// Where the locks live: file:///dir for the processes of one user on one machine; redis://host,
    /// redis+sentinel://host,host/service or redis+cluster://host,host for machines that share a Redis or Valkey,
    /// rediss with TLS; redlock://host,host,host for independent masters, redlocks with TLS;
    /// postgres://host/database or
    /// mysql://host/database for those who share a PostgreSQL, MySQL or MariaDB; etcd://host,host,host or
    /// zookeeper://host,host,host/chroot for those who share an etcd or a ZooKeeper, etcds and zookeepers with TLS;
    /// memory: for trying things out, as it ends with the process and excludes nobody else.
    /// [default: $BRAMAH_ENGINE, else the profile's, else file: with ~/.local/state/bramah]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) engine: Option<String>,
    /// A profile of the config file [default: $BRAMAH_PROFILE, else the file's own default]
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "engine")]
    pub(crate) profile: Option<String>,
    /// The config file [default: $BRAMAH_CONFIG, else ./bramah.toml, ~/.config/bramah/config.toml or
    /// /etc/bramah/config.toml, the first that is there]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Put before every name: with shop, deploy means shop/deploy [default: $BRAMAH_NAMESPACE, else the config
    /// file's]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Hold a lock while a command runs
    Run(Run),
    /// Run a command while elected; campaign again when the leadership is lost
    Elect(Elect),
    /// Take a lock that outlives this process, for a ttl; prints its handle
    Lock(Lock),
    /// Give a lock taken with `lock` another ttl
    Renew(Handled),
    /// Release a lock taken with `lock`
    Unlock(Handled),
    /// List the locks that are held or waited for
    Ls(Ls),
    /// Show one lock: its holders, the line behind them, its fence
    Show(Show),
    /// Wait until nobody holds a lock
    Wait(WaitFor),
    /// Print what happens to locks, a line each
    Watch(Watch),
    /// Ask those who hold a lock to let go
    Revoke(Revoke),
    /// End somebody else's hold, or put somebody out of the line
    Break(Break),
    /// Inside of a command run by bramah: is its lock still held, and for how long is that certain
    Check(Check),
    /// Try the store and say in words what it promises here
    Doctor(Doctor),
    /// Create the tables that locks in a database need, or bring them up to date
    Init(Init),
    /// Print completions for a shell
    Completions(Completions),
    /// Print the man page, or write all of them to a directory
    Man(Man),
    /// Print the version, and the stores of this build
    Version(Version),
}

#[derive(Debug, Flags)]
#[command(after_help = words::RUN, override_usage = "bramah run [OPTIONS] <NAME> -- <CMD>...\n       \
    bramah run [OPTIONS] <NAME> -c <STRING>\n       bramah run [OPTIONS] -l <NAME> -l <NAME>... -- <CMD>...")]
pub(crate) struct Run {
    /// The lock, such as deploy/prod
    #[arg(value_parser = NonEmptyStringValueParser::new(), required_unless_present = "locks")]
    pub(crate) name: Option<String>,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
    /// One of several locks, to be held all at once; taken in the order of their names, so that nobody waits for
    /// somebody who waits for them
    #[arg(short = 'l', long = "lock", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) locks: Vec<String>,
    #[command(flatten)]
    pub(crate) shell: Shell,
    #[command(flatten)]
    pub(crate) busy: Busy,
    #[command(flatten)]
    pub(crate) mode: Mode,
    #[command(flatten)]
    pub(crate) ttl: Ttl,
    #[command(flatten)]
    pub(crate) supervision: Supervision,
    /// Hold the lock for at least so long from its grant on, also when the command ends sooner: against clocks
    /// that start the same job at different times. SIGTERM, SIGINT or SIGQUIT releases it sooner
    /// [default: the config file's, else 0]
    #[arg(long, value_name = "DUR", value_parser = span::read, allow_hyphen_values = true)]
    pub(crate) min_hold: Option<Duration>,
    /// Why, for those who wait
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) about: About,
    /// When the store cannot be reached until the wait is over: fail (exit 69; so does wait), or run without the lock. Without -w,
    /// wait has no end, and fail and run follow after 10s without an answer; with -n at once
    #[arg(long, value_name = "WHAT", default_value = "wait")]
    pub(crate) if_down: IfDown,
    #[command(flatten)]
    pub(crate) talk: Talk,
}

#[derive(Debug, Flags)]
#[command(after_help = words::ELECT, override_usage = "bramah elect [OPTIONS] <NAME> -- <CMD>...\n       \
    bramah elect [OPTIONS] <NAME> -c <STRING>")]
pub(crate) struct Elect {
    /// The election, such as worker/billing
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) shell: Shell,
    #[command(flatten)]
    pub(crate) ttl: Ttl,
    #[command(flatten)]
    pub(crate) supervision: Supervision,
    /// What the leader says of itself, such as an address; `bramah show` has it as its reason [default: the owner]
    #[arg(long, value_name = "TEXT")]
    pub(crate) value: Option<String>,
    #[command(flatten)]
    pub(crate) about: About,
    /// When the store cannot be reached: wait until it can; or after 10s fail (exit 69), or run without being elected
    #[arg(long, value_name = "WHAT", default_value = "wait")]
    pub(crate) if_down: IfDown,
    #[command(flatten)]
    pub(crate) talk: Talk,
}

#[derive(Debug, Flags)]
#[command(after_help = words::LOCK)]
pub(crate) struct Lock {
    /// The lock, such as deploy/prod
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) busy: Busy,
    #[command(flatten)]
    pub(crate) mode: Mode,
    /// How long it is held unless it is renewed [default: $BRAMAH_TTL, else the config file's, else 30s]
    #[arg(long, value_name = "DUR", value_parser = span::read, allow_hyphen_values = true)]
    pub(crate) ttl: Option<Duration>,
    /// Why, for those who wait
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) about: About,
    /// One JSON object instead of the bare handle
    #[arg(long)]
    pub(crate) json: bool,
    /// Do not say for whom we wait, or who has it when it is busy
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Flags)]
#[command(after_help = words::HANDLED)]
pub(crate) struct Handled {
    /// The lock, such as deploy/prod
    pub(crate) name: String,
    /// What `bramah lock` printed; - reads it from stdin [default: $BRAMAH_HANDLE]
    #[arg(long, value_name = "HANDLE")]
    pub(crate) handle: Option<String>,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
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
#[command(after_help = "Exit code 1 if nobody holds it or waits for it.")]
pub(crate) struct Show {
    /// The lock, such as deploy/prod
    pub(crate) name: String,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Flags)]
#[command(after_help = words::WAIT)]
pub(crate) struct WaitFor {
    /// The lock, such as deploy/prod
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) busy: Busy,
    /// Do not say for whom we wait
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Flags)]
#[command(after_help = words::WATCH)]
pub(crate) struct Watch {
    /// Only this lock and those below it
    pub(crate) prefix: Option<String>,
    /// One JSON object a line, also on a terminal
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Flags)]
#[command(after_help = words::REVOKE)]
pub(crate) struct Revoke {
    /// The lock, such as deploy/prod
    pub(crate) name: String,
    /// Which hold, as listed by show [default: everyone who holds it]
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Flags)]
#[command(after_help = words::BREAK)]
pub(crate) struct Break {
    /// The lock, such as deploy/prod
    pub(crate) name: String,
    /// Which hold or place in line, as listed by show: so a newer one cannot be hit by mistake
    #[arg(long, value_name = "ID")]
    pub(crate) id: String,
    /// Why: it is kept with the lock
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Who breaks it [default: user@host:pid]
    #[arg(long, value_name = "TEXT")]
    pub(crate) owner: Option<String>,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Flags)]
#[command(after_help = words::CHECK)]
pub(crate) struct Check {
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Say nothing: the exit code is the answer
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) quiet: bool,
}

#[derive(Debug, Flags)]
#[command(
    after_help = "Exit code 1 if something is wrong with the store, as found; if it could not be examined, 64, 65, 69 or 77."
)]
pub(crate) struct Doctor {
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Flags)]
#[command(after_help = words::INIT)]
pub(crate) struct Init {
    /// Print what would be run, and connect to nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Flags)]
#[command(
    after_help = "Example:\n  bramah completions bash > ~/.local/share/bash-completion/completions/bramah"
)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Flags)]
#[command(after_help = "Examples:\n  bramah man | man -l -\n  bramah man ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// Where to write bramah.1, bramah-run.1 and so on [default: bramah.1 to stdout]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Flags)]
pub(crate) struct Version {
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

impl Args {
    /// Reads the command line.
    pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let words: Vec<OsString> = words.into_iter().collect();
        let args = Self::command()
            .try_get_matches_from(&words)
            .and_then(|matches| Self::from_arg_matches(&matches))?;
        let refused = match &args.verb {
            Verb::Run(run) => run.mode.refused.why(),
            Verb::Lock(lock) => lock.mode.refused.why(),
            _ => None,
        };
        if let Some(why) = refused {
            return Err(Self::command().error(clap::error::ErrorKind::ArgumentConflict, why));
        }
        match args.verb {
            Verb::Run(run) if !run.locks.is_empty() => {
                let verb = Verb::Run(run.without_name(&words)?);
                Ok(Self { verb, ..args })
            }
            _ => Ok(args),
        }
    }
}

impl Run {
    /// With -l there is no NAME: what was taken for it is the first word of the command. That has to stand after the
    /// two dashes, so that a name can never be run by mistake.
    fn without_name(mut self, words: &[OsString]) -> Result<Self, clap::Error> {
        let refuse = |why: &str| Err(Args::command().error(clap::error::ErrorKind::ArgumentConflict, why));
        let Some(name) = self.name.take() else { return Ok(self) };
        let behind = words.iter().position(|word| word == "--").map(|at| words.len() - at - 1);
        match behind {
            None => refuse("with -l the command stands after two dashes: bramah run -l a -l b -- CMD"),
            Some(behind) if behind != self.command.len() + 1 => refuse(&format!(
                "\"{name}\" is neither behind -l nor behind the two dashes; with -l every name is given by -l"
            )),
            Some(_) => {
                self.command.insert(0, name.into());
                Ok(self)
            }
        }
    }
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
    let what = what.strip_prefix("error: ").unwrap_or(what).replace("\n\n  tip:", ";");
    let words: Vec<String> = what.split_whitespace().map(scrub).collect();
    Err(Failure::usage(format!("{}; see --help", words.join(" "))))
}

/// A word of the command line, repeated in a message, may be a URL in the wrong place.
fn scrub(word: &str) -> String {
    match word.split_once("//") {
        Some((scheme, rest)) if rest.contains('@') => {
            format!("{scheme}//…{}", if scheme.starts_with('\'') { "'" } else { "" })
        }
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests;
