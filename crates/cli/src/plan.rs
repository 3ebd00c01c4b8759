//! What the words mean: arguments, environment, config file and defaults, resolved to plain data.

mod flags;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use bramah::{About, ClaimId, Name, Scope, Tag};

use crate::{
    args::{self, Args, IfDown, OnLost, OnRevoke, Verb},
    env::Env,
    exit::{Exit, Failure},
    say::Status,
    settings::{Defaults, Settings},
    store::Store,
};
pub(crate) use flags::bad_handle;
use flags::{ON_LOST, command, form, grace, handle, labels, loudness, mode, names, patience, reason, ttl};

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
    Wait { name: Name, patience: Patience, busy_code: u8, talk: Talk, inside: Vec<Tag> },
    Watch { scope: Scope, form: Form },
    Revoke { name: Name, tag: Option<Tag>, form: Form },
    Break { name: Name, tag: Tag, reason: String, owner: Option<String>, form: Form },
    Doctor { form: Form },
    Init { dry_run: bool },
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
    pub(crate) on_revoke: OnRevoke,
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

impl Plan {
    pub(crate) fn new(args: Args, env: &Env) -> Result<Self, Failure> {
        match args.verb {
            Verb::Check(check) => {
                Ok(Self::Here(Errand::Check { form: form(check.json), talk: loudness(check.quiet, false) }))
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
                let (talk, inside) = (loudness(wait.quiet, false), env.inside.clone());
                Self::Wait { name, patience, busy_code, talk, inside }
            }
            Verb::Watch(watch) => {
                Self::Watch { scope: settings.scope(watch.prefix.as_deref())?, form: form(watch.json) }
            }
            Verb::Revoke(args) => Self::Revoke {
                name: settings.name(&args.name)?,
                tag: args.id.map(|id| id.parse()).transpose()?,
                form: form(args.json),
            },
            Verb::Break(args) => Self::Break {
                name: settings.name(&args.name)?,
                tag: args.id.parse()?,
                reason: args.reason,
                owner: args.owner,
                form: form(args.json),
            },
            Verb::Doctor(doctor) => Self::Doctor { form: form(doctor.json) },
            Verb::Init(init) => Self::Init { dry_run: init.dry_run },
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
        let want = Want {
            mode: mode(&args.mode, &defaults),
            ttl: ttl(args.ttl.ttl, settings, &defaults)?,
            reason: reason(args.reason, &names, settings)?,
            names,
            owner: args.about.owner,
            labels: labels(args.about.labels, env),
        };
        let command = command("run", args.command, args.shell.text)?;
        let run = Self::of(want, command, &args.supervision, &args.talk, &defaults, env)?;
        Ok(Self {
            patience: patience(&args.busy, settings, &defaults),
            busy_code: args.busy.busy_code.unwrap_or(Exit::BUSY),
            min_hold: args.min_hold.or(defaults.min_hold).unwrap_or_default(),
            if_down: args.if_down,
            ..run
        })
    }

    fn elect(args: args::Elect, settings: &Settings, env: &Env) -> Result<Self, Failure> {
        let name = settings.name(&args.name)?;
        let defaults = settings.defaults(&name);
        let want = Want {
            names: vec![name],
            mode: Mode::Mutex,
            ttl: ttl(args.ttl.ttl, settings, &defaults)?,
            reason: args
                .value
                .or_else(|| args.about.owner.clone())
                .unwrap_or_else(|| About::this_process().owner.to_string()),
            owner: args.about.owner,
            labels: labels(args.about.labels, env),
        };
        let command = command("elect", args.command, args.shell.text)?;
        let run = Self::of(want, command, &args.supervision, &args.talk, &defaults, env)?;
        Ok(Self { if_down: args.if_down, ..run })
    }

    /// Waits for as long as it takes, and fails without a store.
    fn of(
        want: Want,
        (program, arguments): (OsString, Vec<OsString>),
        supervision: &args::Supervision,
        talk: &args::Talk,
        defaults: &Defaults,
        env: &Env,
    ) -> Result<Self, Failure> {
        Ok(Self {
            patience: Patience::Forever,
            busy_code: Exit::BUSY,
            program,
            arguments,
            grace: grace(supervision.grace.or(defaults.grace), want.ttl)?,
            on_lost: supervision.on_lost.or(defaults.on_lost).unwrap_or(ON_LOST),
            on_revoke: supervision.on_revoke,
            max_run: supervision.max_run.or(defaults.max_run),
            min_hold: Duration::ZERO,
            if_down: IfDown::Fail,
            report: talk.json,
            status: talk.status_fd.map(Status::open).transpose()?,
            talk: loudness(talk.quiet, talk.verbose),
            inside: env.inside.clone(),
            want,
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
        if args.busy.busy_code == Some(0) {
            return Err(Failure::usage("-E 0 would take a busy lock for one that was had; use another code"));
        }
        let name = settings.name(&args.name)?;
        let defaults = settings.defaults(&name);
        Ok(Self {
            patience: patience(&args.busy, settings, &defaults),
            busy_code: args.busy.busy_code.unwrap_or(Exit::BUSY),
            form: form(args.json),
            talk: loudness(args.quiet, false),
            inside: env.inside.clone(),
            want: Want {
                mode: mode(&args.mode, &defaults),
                ttl: ttl(args.ttl, settings, &defaults)?,
                reason: reason(args.reason, std::slice::from_ref(&name), settings)?,
                names: vec![name],
                owner: args.about.owner,
                labels: labels(args.about.labels, env),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env() -> Env {
        Env { engine: Some("memory:".into()), ..Env::default() }
    }

    fn task_in(env: &Env, line: &str) -> Result<Task, Failure> {
        let args = Args::read(line.split(' ').map(Into::into)).unwrap();
        match Plan::new(args, env)? {
            Plan::On(_, task) => Ok(*task),
            other => panic!("{other:?}"),
        }
    }

    fn run_in(env: &Env, line: &str) -> Run {
        match task_in(env, line).unwrap() {
            Task::Run(run) | Task::Elect(run) => run,
            other => panic!("{other:?}"),
        }
    }

    fn run(line: &str) -> Run {
        run_in(&env(), line)
    }

    #[test]
    fn the_defaults_wait_for_ever_with_half_a_minute_of_ttl() {
        let run = run("bramah run a -- b c");
        assert_eq!((run.patience, run.want.ttl), (Patience::Forever, Duration::from_secs(30)));
        assert_eq!((run.grace, run.on_lost, run.max_run), (Duration::from_secs(5), ON_LOST, None));
        assert_eq!((run.busy_code, run.min_hold, run.if_down), (75, Duration::ZERO, IfDown::Wait));
        assert_eq!((run.talk, run.report, run.want.mode), (Talk::Usual, false, Mode::Mutex));
        assert_eq!((run.program, run.arguments), ("b".into(), vec!["c".into()]));
    }

    #[test]
    fn the_grace_leaves_time_for_renewals() {
        let second = Duration::from_secs(1);
        assert_eq!(run("bramah run a --ttl 6s -- b").grace, second);
        assert_eq!(run("bramah run a --ttl 6s --grace 2s -- b").grace, 2 * second);
        assert_eq!(task_in(&env(), "bramah run a --ttl 6s --grace 3s -- b").unwrap_err().exit.code(), 64);
    }

    #[test]
    fn not_waiting_can_be_said_in_several_ways_and_a_flag_wins_over_the_environment() {
        let waits = Env { wait: Some(Duration::from_secs(9)), ttl: Some(Duration::from_secs(8)), ..env() };
        for flags in ["-n", "--try", "-w 0", "--wait 0s"] {
            assert_eq!(run_in(&waits, &format!("bramah run a {flags} -- b")).patience, Patience::None);
        }
        let minute_and_a_half = Patience::For(Duration::from_secs(90));
        assert_eq!(run_in(&waits, "bramah run a -w 1m30s -- b").patience, minute_and_a_half);
        let run = run_in(&waits, "bramah run a -- b");
        assert_eq!(
            (run.patience, run.want.ttl),
            (Patience::For(Duration::from_secs(9)), Duration::from_secs(8))
        );
        assert_eq!(run_in(&waits, "bramah run a --ttl 7s -- b").want.ttl, Duration::from_secs(7));
        assert_eq!(run_in(&waits, "bramah elect a -- b").patience, Patience::Forever);
    }

    #[test]
    fn several_locks_are_named_in_order_and_a_shell_is_a_command() {
        let run = run("bramah run -l b -l a -- c");
        assert_eq!((run.title().as_str(), run.program), ("a + b", "c".into()));
        let shell = self::run("bramah run a -c exit");
        assert_eq!((shell.program, shell.arguments), ("sh".into(), vec!["-c".into(), "exit".into()]));
    }

    #[test]
    fn the_job_is_a_label_unless_one_was_given() {
        let ci = Env { job: Some("url".into()), ..env() };
        let label = |value: &str| vec![("job".to_owned(), value.to_owned())];
        assert_eq!(run_in(&ci, "bramah run a -- b").want.labels, label("url"));
        assert_eq!(run_in(&ci, "bramah run a --label job=7 -- b").want.labels, label("7"));
    }
}
