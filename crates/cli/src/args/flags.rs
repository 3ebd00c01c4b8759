//! Flags that several verbs share.

use std::{str::FromStr, time::Duration};

use clap::{Args as Flags, ValueEnum};
use rustix::process::Signal;

use crate::span;

/// A command given as text.
#[derive(Debug, Flags)]
pub(crate) struct Shell {
    /// Run this text with `sh -c` instead of a command
    #[arg(short = 'c', long = "command", value_name = "STRING", conflicts_with = "command")]
    pub(crate) text: Option<String>,
}

/// What to do when somebody else has it.
#[derive(Debug, Flags)]
pub(crate) struct Busy {
    /// Do not wait: if it is busy, say who has it and exit with 75
    #[arg(short = 'n', long = "try", aliases = ["nonblock", "nonblocking", "nb"], conflicts_with = "wait")]
    pub(crate) try_only: bool,
    /// Wait for so long at the most (30s, 5m, 1h30m, 500ms, or seconds), for the store too if it is down; 0 is -n
    /// [default: $BRAMAH_WAIT, else the config file's, else as long as it takes]
    #[arg(short, long, alias = "timeout", value_name = "DUR", value_parser = span::read, allow_hyphen_values = true)]
    pub(crate) wait: Option<Duration>,
    /// Exit with this code when it is busy, and not with 75; with 0 nothing is said either
    #[arg(short = 'E', long, alias = "conflict-exit-code", value_name = "N", allow_negative_numbers = true)]
    pub(crate) busy_code: Option<u8>,
}

/// How it is held.
#[derive(Debug, Flags)]
pub(crate) struct Mode {
    /// Shared: beside other readers, never beside a writer
    #[arg(short, long, conflicts_with_all = ["exclusive", "slots"])]
    pub(crate) shared: bool,
    /// Exclusive, as the writer of a name that others take with -s (without it a lock is exclusive as well, and
    /// readers that come meanwhile hold it one at a time)
    #[arg(short = 'x', long, short_alias = 'e', alias = "write", conflicts_with = "slots")]
    pub(crate) exclusive: bool,
    /// One of N slots: so many may hold it at once; everybody has to say the same N
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) slots: Option<u32>,
    /// Taken and ignored, for flock's sake: a lock's descriptor is never passed on
    #[arg(short = 'o', long = "close", hide = true)]
    pub(crate) close: bool,
    #[command(flatten)]
    pub(crate) refused: Refused,
}

/// flock's flags that mean nothing here. They are known, so that whoever types one is told why it is refused.
#[derive(Debug, Flags)]
pub(crate) struct Refused {
    #[arg(short = 'F', long, hide = true)]
    no_fork: bool,
    #[arg(short = 'u', long, hide = true)]
    unlock: bool,
    #[arg(long, hide = true)]
    fcntl: bool,
}

impl Refused {
    /// Why a flag of these that was given is refused.
    pub(crate) fn why(&self) -> Option<&'static str> {
        let flags = [
            (
                self.no_fork,
                "-F (--no-fork) is refused: bramah has to stay beside the command, to renew the lock and to end the command \
                 when it is lost; leave it out",
            ),
            (
                self.unlock,
                "-u (--unlock) is refused: there is no descriptor to unlock; a lock of `bramah run` ends with its command, and \
                 one of `bramah lock` with `bramah unlock`",
            ),
            (
                self.fcntl,
                "--fcntl is refused: there is no file to lock in one way or the other; leave it out",
            ),
        ];
        flags.into_iter().find_map(|(given, why)| given.then_some(why))
    }
}

/// How long the store waits for a sign of life.
#[derive(Debug, Flags)]
pub(crate) struct Ttl {
    /// How long the store keeps the lock of a process that it does not hear of; on file:, where a living process
    /// keeps its locks, only how soon a break is noticed (a third of it)
    /// [default: $BRAMAH_TTL, else the config file's, else 30s]
    #[arg(long, value_name = "DUR", value_parser = span::read, allow_hyphen_values = true)]
    pub(crate) ttl: Option<Duration>,
}

/// How the command is watched over.
#[derive(Debug, Flags)]
pub(crate) struct Supervision {
    /// From SIGTERM to SIGKILL when the command has to end; less than half of the ttl
    /// [default: the config file's, else 5s, at most a sixth of the ttl]
    #[arg(long, value_name = "DUR", value_parser = span::read, allow_hyphen_values = true)]
    pub(crate) grace: Option<Duration>,
    /// When the lock runs out or is taken away: term (SIGTERM, then SIGKILL, in time), kill (SIGKILL), signal:HUP
    /// (that signal, then SIGKILL), or keep (say it, and let the command run: then only a fence protects you)
    /// [default: the config file's, else term]
    #[arg(long, value_name = "WHAT")]
    pub(crate) on_lost: Option<OnLost>,
    /// When somebody asks for the lock (`bramah revoke`, Curator's Revoker): tell (say it), or a signal that the command gets, such as
    /// term or signal:USR1; the lock is held until the command ends
    #[arg(long, value_name = "WHAT", default_value = "tell")]
    pub(crate) on_revoke: OnRevoke,
    /// End the command after so long: SIGTERM, after the grace SIGKILL, and exit with 124 [default: the config
    /// file's, else never]
    #[arg(long, value_name = "DUR", value_parser = span::read_some, allow_hyphen_values = true)]
    pub(crate) max_run: Option<Duration>,
}

/// Who we say we are.
#[derive(Debug, Flags)]
pub(crate) struct About {
    /// Who this is, for those who wait [default: user@host:pid]
    #[arg(long, value_name = "TEXT")]
    pub(crate) owner: Option<String>,
    /// One more fact, for those who wait; may be given several times. In a CI job `job` is set to its URL
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
}

/// What is told, where.
#[derive(Debug, Flags)]
pub(crate) struct Talk {
    /// At the end, write what happened as one line of JSON to stderr
    #[arg(long)]
    pub(crate) json: bool,
    /// At the end, write what happened as one line of JSON to this descriptor, such as 3; the command does not
    /// inherit it
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(1..=65_535))]
    pub(crate) status_fd: Option<i32>,
    /// Say when the lock is had and when it is released
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Do not say for whom we wait, or who has it when it is busy
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// What happens to the command when its lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnLost {
    /// This signal, then SIGKILL.
    Signal(Signal),
    /// SIGKILL.
    Kill,
    /// Nothing.
    Keep,
}

impl FromStr for OnLost {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "term" => Ok(Self::Signal(Signal::TERM)),
            "kill" => Ok(Self::Kill),
            "keep" => Ok(Self::Keep),
            _ => match text.strip_prefix("signal:").and_then(signal) {
                Some(Signal::KILL) => Ok(Self::Kill),
                Some(signal) => Ok(Self::Signal(signal)),
                None => Err("use term, kill, keep, or signal: and a name such as signal:HUP".into()),
            },
        }
    }
}

/// What happens to the command when somebody asks for its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnRevoke {
    /// Nothing but a line.
    Tell,
    /// And it gets this signal.
    Signal(Signal),
}

impl FromStr for OnRevoke {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tell" => Ok(Self::Tell),
            "term" => Ok(Self::Signal(Signal::TERM)),
            _ => match text.strip_prefix("signal:").and_then(signal).filter(|signal| *signal != Signal::KILL)
            {
                Some(signal) => Ok(Self::Signal(signal)),
                None => Err("use tell, term, or signal: and a name such as signal:USR1".into()),
            },
        }
    }
}

/// What to do without a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IfDown {
    Fail,
    Wait,
    Run,
}

/// Those that can be named.
const SIGNALS: [(&str, Signal); 10] = [
    ("TERM", Signal::TERM),
    ("INT", Signal::INT),
    ("HUP", Signal::HUP),
    ("QUIT", Signal::QUIT),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("KILL", Signal::KILL),
    ("ABRT", Signal::ABORT),
    ("ALRM", Signal::ALARM),
    ("WINCH", Signal::WINCH),
];

/// `HUP`, `SIGHUP` or `1`.
fn signal(text: &str) -> Option<Signal> {
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let named = SIGNALS.iter().find(|(known, signal)| *known == name || signal.as_raw().to_string() == name);
    named.map(|(_, signal)| *signal)
}

/// `SIGHUP`
pub(crate) fn signal_name(signal: Signal) -> String {
    let known = SIGNALS.iter().find(|(_, known)| *known == signal);
    known.map_or_else(|| format!("signal {}", signal.as_raw()), |(name, _)| format!("SIG{name}"))
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("use KEY=VALUE, such as job=8812".into()),
    }
}
