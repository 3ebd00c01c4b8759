//! What the words mean: arguments, environment, config file and defaults, resolved to plain data.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use bramah::{ClaimId, Name, Scope, Session, Tag};

use crate::{
    args::{self, Args, IfDown, OnLost, Verb},
    env::Env,
    exit::{Exit, Failure},
    say::Status,
    settings::{Defaults, Settings},
    span,
    store::Store,
};

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Plan {
    /// On a store.
    On(Store, Box<Task>),
    /// Here.
    Here(Errand),
}

#[derive(Debug)]
pub(crate) enum Task {
    Run(Run),
    Elect(Run),
    Lock(Lock),
    Renew { name: Name, handle: Handle, form: Form },
    Unlock { name: Name, handle: Handle, form: Form },
    Ls { scope: Scope, form: Form },
    Show { name: Name, form: Form },
    Wait { name: Name, patience: Patience, busy_code: u8, talk: Talk },
    Watch { scope: Scope },
    Break { name: Name, tag: Tag, reason: String, owner: Option<String>, form: Form },
    Doctor { form: Form },
}

#[derive(Debug)]
pub(crate) enum Errand {
    Check { form: Form, talk: Talk },
    Completions(clap_complete::Shell),
    Man(Option<PathBuf>),
    Version(Form),
}

/// Locks to hold and a command to run meanwhile.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) want: Want,
    pub(crate) patience: Patience,
    /// The exit code when it is busy.
    pub(crate) busy_code: u8,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) grace: Duration,
    pub(crate) on_lost: OnLost,
    pub(crate) max_run: Option<Duration>,
    pub(crate) min_hold: Duration,
    pub(crate) if_down: IfDown,
    /// Whether to report on stderr.
    pub(crate) report: bool,
    /// Where to report as well.
    pub(crate) status: Option<Status>,
    pub(crate) talk: Talk,
    /// The holds of the runs that we are inside of.
    pub(crate) inside: Vec<Tag>,
}

/// What is to be taken, and what is said of it.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    /// One or more, no two the same.
    pub(crate) names: Vec<Name>,
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) reason: String,
    pub(crate) owner: Option<String>,
    pub(crate) labels: Vec<(String, String)>,
}

#[derive(Debug)]
pub(crate) struct Lock {
    pub(crate) want: Want,
    pub(crate) patience: Patience,
    pub(crate) busy_code: u8,
    pub(crate) form: Form,
    pub(crate) talk: Talk,
    /// The holds of the runs that we are inside of.
    pub(crate) inside: Vec<Tag>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Exclusive, however others use the name.
    Mutex,
    Read,
    Write,
    Slots(u32),
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

/// Where the handle of a detached lock comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handle {
    Given(ClaimId),
    Stdin,
}

/// The grace that a command gets unless --grace says another.
const GRACE: Duration = Duration::from_secs(5);

impl Plan {
    pub(crate) fn new(args: Args, env: &Env) -> Result<Self, Failure> {
        match args.verb {
            Verb::Check(check) => {
                Ok(Self::Here(Errand::Check { form: form(check.json), talk: talk(check.quiet, false) }))
            }
            Verb::Completions(completions) => Ok(Self::Here(Errand::Completions(completions.shell))),
            Verb::Man(man) => Ok(Self::Here(Errand::Man(man.dir))),
            Verb::Version(version) => Ok(Self::Here(Errand::Version(form(version.json)))),
            verb => {
                let settings = Settings::resolve(&args.place, env)?;
                let task = Task::new(verb, &settings, env)?;
                Ok(Self::On(settings.store, Box::new(task)))
            }
        }
    }
}

impl Task {
    fn new(verb: Verb, settings: &Settings, env: &Env) -> Result<Self, Failure> {
        Ok(match verb {
            Verb::Run(run) => Self::Run(Run::new(run, settings, env)?),
            Verb::Elect(elect) => Self::Elect(Run::elect(elect, settings, env)?),
            Verb::Lock(lock) => Self::Lock(Lock::new(lock, settings, env)?),
            Verb::Renew(args) => {
                let handle = handle(args.handle, env)?;
                Self::Renew { name: settings.name(&args.name)?, handle, form: form(args.json) }
            }
            Verb::Unlock(args) => {
                let handle = handle(args.handle, env)?;
                Self::Unlock { name: settings.name(&args.name)?, handle, form: form(args.json) }
            }
            Verb::Ls(ls) => Self::Ls { scope: settings.scope(ls.prefix.as_deref())?, form: form(ls.json) },
            Verb::Show(show) => Self::Show { name: settings.name(&show.name)?, form: form(show.json) },
            Verb::Wait(wait) => {
                let name = settings.name(&wait.name)?;
                let patience = patience(&wait.busy, settings, &settings.defaults(&name));
                let busy_code = wait.busy.busy_code.unwrap_or(Exit::BUSY);
                Self::Wait { name, patience, busy_code, talk: talk(wait.quiet, false) }
            }
            Verb::Watch(watch) => Self::Watch { scope: settings.scope(watch.prefix.as_deref())? },
            Verb::Break(args) => Self::Break {
                name: settings.name(&args.name)?,
                tag: args.id.parse()?,
                reason: args.reason,
                owner: args.owner,
                form: form(args.json),
            },
            Verb::Doctor(doctor) => Self::Doctor { form: form(doctor.json) },
            Verb::Check(_) | Verb::Completions(_) | Verb::Man(_) | Verb::Version(_) => {
                return Err(Failure::usage("this needs no store"));
            }
        })
    }
}

impl Run {
    fn new(args: args::Run, settings: &Settings, env: &Env) -> Result<Self, Failure> {
        let names = names(args.name, args.locks, settings)?;
        let defaults = settings.defaults(&names[0]);
        let ttl = ttl(&args.ttl, settings, &defaults)?;
        let grace = grace(args.supervision.grace.or(defaults.grace), ttl)?;
        let (program, arguments) = command("run", args.command, args.shell.text)?;
        Ok(Self {
            patience: patience(&args.busy, settings, &defaults),
            busy_code: args.busy.busy_code.unwrap_or(Exit::BUSY),
            program,
            arguments,
            grace,
            on_lost: args.supervision.on_lost.or(defaults.on_lost).unwrap_or(ON_LOST),
            max_run: args.supervision.max_run.or(defaults.max_run),
            min_hold: args.min_hold.or(defaults.min_hold).unwrap_or_default(),
            if_down: args.if_down,
            report: args.talk.json,
            status: args.talk.status_fd.map(Status::open).transpose()?,
            talk: talk(args.talk.quiet, args.talk.verbose),
            inside: env.inside.clone(),
            want: Want {
                mode: mode(&args.mode, &defaults),
                ttl,
                reason: reason(args.reason, &names, settings)?,
                names,
                owner: args.about.owner,
                labels: labels(args.about.labels, env),
            },
        })
    }

    fn elect(args: args::Elect, settings: &Settings, env: &Env) -> Result<Self, Failure> {
        let name = settings.name(&args.name)?;
        let defaults = settings.defaults(&name);
        let ttl = ttl(&args.ttl, settings, &defaults)?;
        let grace = grace(args.supervision.grace.or(defaults.grace), ttl)?;
        let (program, arguments) = command("elect", args.command, args.shell.text)?;
        Ok(Self {
            patience: Patience::Forever,
            busy_code: Exit::BUSY,
            program,
            arguments,
            grace,
            on_lost: args.supervision.on_lost.or(defaults.on_lost).unwrap_or(ON_LOST),
            max_run: args.supervision.max_run.or(defaults.max_run),
            min_hold: Duration::ZERO,
            if_down: args.if_down,
            report: args.talk.json,
            status: args.talk.status_fd.map(Status::open).transpose()?,
            talk: talk(args.talk.quiet, args.talk.verbose),
            inside: env.inside.clone(),
            want: Want {
                names: vec![name],
                mode: Mode::Mutex,
                ttl,
                reason: args.value.or_else(|| args.about.owner.clone()).unwrap_or_default(),
                owner: args.about.owner,
                labels: labels(args.about.labels, env),
            },
        })
    }

    /// What they are called, for messages.
    pub(crate) fn title(&self) -> String {
        self.want.title()
    }
}

impl Want {
    /// What they are called, for messages.
    pub(crate) fn title(&self) -> String {
        let names: Vec<&str> = self.names.iter().map(Name::as_str).collect();
        names.join(" + ")
    }
}

impl Lock {
    fn new(args: args::Lock, settings: &Settings, env: &Env) -> Result<Self, Failure> {
        let name = settings.name(&args.name)?;
        let defaults = settings.defaults(&name);
        Ok(Self {
            patience: patience(&args.busy, settings, &defaults),
            busy_code: args.busy.busy_code.unwrap_or(Exit::BUSY),
            form: form(args.json),
            talk: talk(args.quiet, false),
            inside: env.inside.clone(),
            want: Want {
                mode: mode(&args.mode, &defaults),
                ttl: ttl(&args.ttl, settings, &defaults)?,
                reason: reason(args.reason, std::slice::from_ref(&name), settings)?,
                names: vec![name],
                owner: args.about.owner,
                labels: labels(args.about.labels, env),
            },
        })
    }
}

const ON_LOST: OnLost = OnLost::Signal(rustix::process::Signal::TERM);

/// The names in order, each once.
fn names(name: Option<String>, locks: Vec<String>, settings: &Settings) -> Result<Vec<Name>, Failure> {
    let all = name.into_iter().chain(locks);
    let mut names = all.map(|name| settings.name(&name)).collect::<Result<Vec<_>, _>>()?;
    names.sort();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Failure::usage(format!("{} is asked for twice; name it once", pair[0]))),
        None if names.is_empty() => Err(Failure::usage("no lock was named; see --help")),
        None => Ok(names),
    }
}

fn ttl(flag: &args::Ttl, settings: &Settings, defaults: &Defaults) -> Result<Duration, Failure> {
    let ttl = flag.ttl.or(settings.env_ttl).or(defaults.ttl).unwrap_or(Session::DEFAULT_TTL);
    let range = Session::MIN_TTL..=Session::MAX_TTL;
    if range.contains(&ttl) {
        return Ok(ttl);
    }
    let (least, most) = (span::write(*range.start()), span::write(*range.end()));
    Err(Failure::usage(format!("a ttl of {} is out of range; use {least} to {most}", span::write(ttl))))
}

/// A lock whose renewals fail is certain for a ttl, and the grace is the end of that: renewals need the rest.
fn grace(asked: Option<Duration>, ttl: Duration) -> Result<Duration, Failure> {
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

fn patience(busy: &args::Busy, settings: &Settings, defaults: &Defaults) -> Patience {
    match busy.wait.or(settings.env_wait).or(defaults.wait) {
        _ if busy.try_only => Patience::None,
        Some(Duration::ZERO) => Patience::None,
        Some(wait) => Patience::For(wait),
        None => Patience::Forever,
    }
}

fn mode(flags: &args::Mode, defaults: &Defaults) -> Mode {
    match (flags.shared, flags.exclusive, flags.slots) {
        (true, ..) => Mode::Read,
        (_, true, _) => Mode::Write,
        (_, _, Some(slots)) => Mode::Slots(slots),
        _ => defaults.slots.map_or(Mode::Mutex, Mode::Slots),
    }
}

fn reason(given: Option<String>, names: &[Name], settings: &Settings) -> Result<String, Failure> {
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
fn labels(mut given: Vec<(String, String)>, env: &Env) -> Vec<(String, String)> {
    if let Some(job) = env.job.clone().filter(|_| given.iter().all(|(key, _)| key != "job")) {
        given.push(("job".into(), job));
    }
    given
}

fn command(
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

fn handle(flag: Option<String>, env: &Env) -> Result<Handle, Failure> {
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

fn form(json: bool) -> Form {
    if json { Form::Json } else { Form::Human }
}

fn talk(quiet: bool, verbose: bool) -> Talk {
    match (quiet, verbose) {
        (true, _) => Talk::Little,
        (_, true) => Talk::Much,
        _ => Talk::Usual,
    }
}
