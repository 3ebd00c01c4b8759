//! A guardian as bramah sees it.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Child, Command},
    time::Duration,
};

use bramah::{Clock, Moment};
use rustix::process::{Pid, Signal, getpgrp, kill_current_process_group};

use super::{
    NAME,
    tree::{self, Brood, Strangers},
    wire::{self, Cause, News, Order, Start, Stopped, Wire},
};
use crate::{
    args::OnLost,
    check,
    exit::{Exit, Failure},
    inherited,
    terminal::{self, Group},
};

/// How much longer than the grace a guardian may take before we take over.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is to be run, and how it is to be watched over.
pub(crate) struct Orders<'a> {
    pub(crate) program: &'a OsString,
    pub(crate) arguments: &'a [OsString],
    /// What the command's environment has beside what we have: to set, or to take out.
    pub(crate) env: Vec<(&'static str, Option<String>)>,
    /// What the lock's life hangs from.
    pub(crate) lifelines: Vec<OwnedFd>,
    /// Until when the lock is certain.
    pub(crate) until: Moment,
    /// How long before that the last process has to be gone.
    pub(crate) margin: Duration,
    pub(crate) grace: Duration,
    pub(crate) max_run: Option<Duration>,
    pub(crate) on_lost: OnLost,
    /// Whether `bramah check` is answered.
    pub(crate) check: bool,
}

/// What a guardian has to tell.
#[derive(Debug)]
pub(crate) enum Event {
    /// The command could not be started: 127 if there is no such program, 126 if it cannot be executed.
    NotStarted(Failure),
    /// The command has ended, with all that was to end with it.
    Ended { exit: Exit, cause: Cause, how: Stopped },
    /// The command had to end and runs on, because this user may not signal it. What can be ended has ended.
    Outlives(Cause),
    /// The guardian itself is gone: [`take_over`](Ward::take_over).
    Gone,
}

/// A command that runs under a guardian, or is about to.
pub(crate) struct Ward {
    wire: Wire,
    guardian: Child,
    /// The command's own name, for messages.
    program: String,
    /// From when it is known to run.
    command: Option<Pid>,
    group: Group,
    clock: Clock,
    told: Moment,
    margin: Duration,
    /// Children that we had before, from whoever became us.
    strangers: Strangers,
    /// What we have taken over from a guardian that is gone.
    orphans: Option<Brood>,
    /// Whether the guardian waits for processes that cannot be ended.
    outlives: bool,
}

impl Ward {
    /// Starts the guardian, and has it start the command. What comes of that is news: whoever waits for it can look
    /// after other things as well.
    pub(crate) async fn start(orders: Orders<'_>) -> Result<Self, Failure> {
        let failed = |error: io::Error| {
            Failure::new(Exit::NotExecutable, format!("cannot start the guardian of the command: {error}"))
        };
        // Should the guardian be killed, the command is ours.
        tree::adopt_orphans();
        let strangers = Strangers::find();
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let socket = check::name().filter(|_| orders.check);
        let guardian = spawn(&orders, theirs.into(), socket.as_deref()).map_err(failed)?;
        let group = terminal::group();
        let (clock, told) = (Clock::boot(), orders.until);
        let start = Start {
            words: wire::bytes([orders.program].into_iter().chain(orders.arguments)),
            group: (group == Group::Ours).then(|| getpgrp().as_raw_nonzero().get()),
            deadline_ns: told.ns(),
            margin_ns: wire::ns(orders.margin),
            grace_ns: wire::ns(orders.grace),
            max_run_ns: orders.max_run.map(wire::ns),
            on_lost: orders.on_lost.into(),
            socket,
        };
        let mut wire = Wire::new(ours).map_err(failed)?;
        wire.send(&Order::Start(start)).await;
        let program = orders.program.display().to_string();
        let margin = orders.margin;
        Ok(Self {
            wire,
            guardian,
            program,
            command: None,
            group,
            clock,
            told,
            margin,
            strangers,
            orphans: None,
            outlives: false,
        })
    }

    /// Waits for news.
    ///
    /// # Cancel safety
    /// None is lost when this is dropped.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            match self.wire.next().await {
                Some(News::Started(pid)) => {
                    self.command = Pid::from_raw(pid);
                    self.bring_forward();
                }
                Some(News::NotStarted { found, why }) => {
                    return Event::NotStarted(self.not_started(found, &why));
                }
                Some(News::Stopped(signal)) => self.stopped(signal),
                Some(News::Ended { code, signal, cause, how }) => {
                    self.outlives = false;
                    self.take_back();
                    return Event::Ended { exit: wire::exit(code, signal), cause, how };
                }
                Some(News::Outlives(cause)) => {
                    self.outlives = true;
                    self.take_back();
                    return Event::Outlives(cause);
                }
                None => return Event::Gone,
            }
        }
    }

    fn not_started(&self, found: bool, why: &str) -> Failure {
        match found {
            true => Failure::new(Exit::NotExecutable, format!("cannot run {}: {why}", self.program)),
            false => Failure::new(Exit::NotFound, format!("cannot run {}: not found", self.program)),
        }
    }

    /// Passes a signal on to the command.
    pub(crate) fn signal(&self, signal: Signal) {
        // The terminal has sent these to the whole of our group already.
        if self.group == Group::Ours && matches!(signal, Signal::INT | Signal::QUIT) {
            return;
        }
        self.wire.post(&Order::Signal(signal.as_raw()));
    }

    /// Tells until when the lock is certain, if that is news.
    pub(crate) fn renewed(&mut self, until: Moment) {
        if until > self.told {
            self.told = until;
            self.wire.post(&Order::Deadline(until.ns()));
        }
    }

    /// Tells that the lock is lost and the command goes on all the same: who asks is told no.
    pub(crate) fn lost(&self) {
        self.wire.post(&Order::Deadline(0));
    }

    /// Has the command ended because the lock is lost. How it ended, if it has, and what it took.
    pub(crate) async fn stop(&mut self, grace: Duration) -> (Option<Exit>, Stopped) {
        self.wire.post(&Order::Stop(wire::ns(grace)));
        let (clock, give_up) = (self.clock.clone(), self.clock.now() + grace + PATIENCE);
        let event = tokio::select! {
            biased;
            event = self.next() => event,
            // It may be frozen.
            () = clock.sleep_until(give_up) => Event::Gone,
        };
        match event {
            Event::Ended { exit, how, .. } => (Some(exit), how),
            Event::NotStarted(failure) => (Some(failure.exit), Stopped::ByItself),
            Event::Outlives(_) => (None, Stopped::Failed),
            // The lock is somebody else's, and the grace is over.
            Event::Gone => match self.take_over(Duration::ZERO).await {
                failed @ (_, Stopped::Failed) => failed,
                (exit, _) => (exit, Stopped::Killed),
            },
        }
    }

    /// Ends what a guardian has left that is gone, or is to be: SIGTERM, and after `grace`, or in time before the lock
    /// runs out, SIGKILL. To be awaited to its end. How the command ended, if it has, and what it took.
    pub(crate) async fn take_over(&mut self, grace: Duration) -> (Option<Exit>, Stopped) {
        let _ = self.guardian.kill();
        let _ = self.guardian.wait();
        self.outlives = false;
        let group = self.command.filter(|_| self.group != Group::Ours);
        let mut brood = Brood::new(self.command, group).beside(std::mem::take(&mut self.strangers));
        let until = (self.clock.now() + grace).min(self.told - self.margin);
        let how = brood.end(&self.clock, Signal::TERM, until).await;
        self.take_back();
        let exit = brood.exit();
        self.orphans = Some(brood);
        (exit, how)
    }

    /// Waits until everything has ended that [`take_over`](Ward::take_over) could not end. How the command did.
    pub(crate) async fn outlast(&mut self) -> Option<Exit> {
        let brood = self.orphans.as_mut()?;
        brood.outlast(&self.clock).await;
        brood.exit()
    }

    /// Waits for the end of a guardian whose command has ended: an init may never collect it. One that waits for what
    /// cannot be ended is left alone.
    pub(crate) fn dismiss(self) {
        let Self { wire, mut guardian, outlives, .. } = self;
        drop(wire);
        if !outlives {
            let _ = guardian.wait();
        }
    }

    fn take_back(&self) {
        if let (Group::Foreground, Some(command)) = (self.group, self.command) {
            terminal::take_back(command);
        }
    }

    fn bring_forward(&self) {
        if let (Group::Foreground, Some(command)) = (self.group, self.command) {
            // Done from here, not by the new process before it becomes the command, which would take unsafe code: a
            // Ctrl-C in the moment before still goes to us, and is passed on.
            terminal::hand_to(command);
            // It may have been quicker, and stopped for reading from a terminal that was not its own yet.
            self.signal(Signal::CONT);
        }
    }

    /// Job control: a command that the terminal has stopped (Ctrl-Z, or reading in the background) takes us and our
    /// group with it, so that the shell sees it and `fg` works.
    fn stopped(&mut self, by: i32) {
        let Some(command) = self.command.filter(|_| self.group != Group::Ours) else { return };
        if by != Signal::TSTP.as_raw() && terminal::is_of(command) {
            // It was too quick, and the terminal is its own by now.
            return self.signal(Signal::CONT);
        }
        self.take_back();
        // Back from here only when we are continued; at once where nobody could continue us.
        let _ = kill_current_process_group(Signal::TSTP);
        self.group = if terminal::in_foreground() { Group::Foreground } else { Group::Own };
        self.bring_forward();
        // In the background it would only be stopped for reading again, and again.
        if self.group == Group::Foreground || by == Signal::TSTP.as_raw() {
            self.signal(Signal::CONT);
        }
    }
}

/// The same program again, under another name.
fn spawn(orders: &Orders<'_>, line: OwnedFd, socket: Option<&str>) -> io::Result<Child> {
    let itself = if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { std::env::current_exe()? };
    let mut command = Command::new(itself);
    command.arg0(NAME).process_group(0).env_remove("BRAMAH_SOCKET");
    for descriptor in [&line].into_iter().chain(&orders.lifelines) {
        inherited::pass(descriptor)?;
        command.arg(descriptor.as_raw_fd().to_string());
    }
    for (key, value) in &orders.env {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    if let Some(socket) = socket {
        command.env("BRAMAH_SOCKET", socket);
    }
    command.spawn()
}
