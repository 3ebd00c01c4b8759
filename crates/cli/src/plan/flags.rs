//! What single flags mean, with what the environment and the config file have to say.

use std::{ffi::OsString, time::Duration};

use bramah::{Name, Session};

use super::{Form, Handle, Mode, Patience, Talk};
use crate::{
    args::{self, OnLost},
    env::Env,
    exit::Failure,
    settings::{Defaults, Settings},
    span,
};

/// The grace that a command gets unless --grace says another.
const GRACE: Duration = Duration::from_secs(5);

/// What happens to a command whose lock is lost, unless --on-lost says another.
pub(super) const ON_LOST: OnLost = OnLost::Signal(rustix::process::Signal::TERM);

/// The names in order, each once.
pub(super) fn names(
    name: Option<String>,
    locks: Vec<String>,
    settings: &Settings,
) -> Result<Vec<Name>, Failure> {
    let all = name.into_iter().chain(locks);
    let mut names = all.map(|name| settings.name(&name)).collect::<Result<Vec<_>, _>>()?;
    names.sort();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Failure::usage(format!("{} is asked for twice; name it once", pair[0]))),
        None if names.is_empty() => Err(Failure::usage("no lock was named; see --help")),
        None if names.len() > 1 && names.iter().any(|name| name.as_str().contains(',')) => {
            Err(Failure::usage("a comma parts the names of several locks, so none of them may have one"))
        }
        None => Ok(names),
    }
}

pub(super) fn ttl(
    flag: Option<Duration>,
    settings: &Settings,
    defaults: &Defaults,
) -> Result<Duration, Failure> {
    let ttl = flag.or(settings.env_ttl).or(defaults.ttl).unwrap_or(Session::DEFAULT_TTL);
    let range = Session::MIN_TTL..=Session::MAX_TTL;
    if range.contains(&ttl) {
        return Ok(ttl);
    }
    let (least, most) = (span::write(*range.start()), span::write(*range.end()));
    Err(Failure::usage(format!("a ttl of {} is out of range; use {least} to {most}", span::write(ttl))))
}

/// A lock whose renewals fail is certain for a ttl, and the grace is the end of that: renewals need the rest.
pub(super) fn grace(asked: Option<Duration>, ttl: Duration) -> Result<Duration, Failure> {
    match asked {
        Some(grace) if grace >= ttl / 2 => Err(Failure::usage(format!(
            "a grace of {} is not less than half of the ttl, {}; shorten it or raise the ttl",
            span::write(grace),
            span::write(ttl)
        ))),
        Some(grace) => Ok(grace),
        None => Ok(GRACE.min(ttl / 6)),
    }
}

pub(super) fn patience(busy: &args::Busy, settings: &Settings, defaults: &Defaults) -> Patience {
    match busy.wait.or(settings.env_wait).or(defaults.wait) {
        _ if busy.try_only => Patience::None,
        Some(Duration::ZERO) => Patience::None,
        Some(wait) => Patience::For(wait),
        None => Patience::Forever,
    }
}

pub(super) fn mode(flags: &args::Mode, defaults: &Defaults) -> Mode {
    match (flags.shared, flags.exclusive, flags.slots) {
        (true, ..) => Mode::Read,
        (_, true, _) => Mode::Write,
        (_, _, Some(slots)) => Mode::Slots(slots),
        _ => defaults.slots.map_or(Mode::Mutex, Mode::Slots),
    }
}

pub(super) fn reason(given: Option<String>, names: &[Name], settings: &Settings) -> Result<String, Failure> {
    let reason = given.unwrap_or_default();
    let strict = names.iter().find(|name| settings.defaults(name).require_reason);
    match strict {
        Some(name) if reason.trim().is_empty() => Err(Failure::usage(format!(
            "{name} is not to be taken without a reason, says the config file; give --reason"
        ))),
        _ => Ok(reason),
    }
}

/// Those given, and the CI job if there is one.
pub(super) fn labels(mut given: Vec<(String, String)>, env: &Env) -> Vec<(String, String)> {
    if let Some(job) = env.job.clone().filter(|_| given.iter().all(|(key, _)| key != "job")) {
        given.push(("job".into(), job));
    }
    given
}

pub(super) fn command(
    verb: &str,
    words: Vec<OsString>,
    text: Option<String>,
) -> Result<(OsString, Vec<OsString>), Failure> {
    let mut words = match text {
        Some(text) => vec!["sh".into(), "-c".into(), text.into()],
        None => words,
    }
    .into_iter();
    let program = words.next().ok_or_else(|| {
        Failure::usage(format!(
            "no command to run: give it after two dashes, bramah {verb} NAME -- CMD; see --help"
        ))
    })?;
    Ok((program, words.collect()))
}

pub(super) fn handle(flag: Option<String>, env: &Env) -> Result<Handle, Failure> {
    let text = flag.or_else(|| env.handle.clone()).ok_or_else(|| {
        Failure::usage("no handle: give what `bramah lock` printed with --handle, or in BRAMAH_HANDLE")
    })?;
    match text.trim() {
        "-" => Ok(Handle::Stdin),
        text => Ok(Handle::Given(text.parse().map_err(|_| bad_handle())?)),
    }
}

/// A handle is a key: what was given instead of one is not repeated.
pub(crate) fn bad_handle() -> Failure {
    Failure::usage("that is not a handle; give what `bramah lock` printed")
}

pub(super) fn form(json: bool) -> Form {
    if json { Form::Json } else { Form::Human }
}

pub(super) fn loudness(quiet: bool, verbose: bool) -> Talk {
    match (quiet, verbose) {
        (true, _) => Talk::Little,
        (_, true) => Talk::Much,
        _ => Talk::Usual,
    }
}
