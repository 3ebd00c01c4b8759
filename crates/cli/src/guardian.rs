//! The guardian: a small process between bramah and the command.
//!
//! It starts the command, is its parent, and ends with it. What it is for: when bramah is killed, it ends the command
//! and everything that the command has started *before* the lock can be handed on (it has inherited what the lock's
//! life hangs from, and closes it last); when bramah is frozen, it keeps the deadline of the lock, which bramah tells it
//! after every renewal. Nothing it does waits for the store.
//!
//! It has a process group of its own, so that nothing sent to bramah's group or to the command's reaches it, and a
//! name of its own, so that `pkill bramah` does not.

mod tree;
mod ward;
mod wire;

use std::{
    io,
    os::unix::{net::UnixStream, process::CommandExt},
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use bramah::{Clock, Moment};
use rustix::process::{Pid, Signal};
use tokio::signal::unix::{self, SignalKind};

pub(crate) use tree::is_above;
pub(crate) use ward::{Event, Orders, Ward};
pub(crate) use wire::{Cause, Stopped};

use crate::{check::Desk, descriptors, exit::Exit, inherited, signals::Signals};
use tree::Brood;
use wire::{Lost, News, Order, Start, Wire};

/// What it is called in a list of processes.
pub(crate) const NAME: &str = "lock-guardian";

/// The whole life of a guardian. Its first argument is the number of the descriptor that leads to bramah; the others are
/// those of the lifelines, which are only kept open.
pub(crate) fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse().unwrap_or(-1));
    let Some(Ok(line)) = numbers.next().map(inherited::take) else { return ExitCode::FAILURE };
    let lifelines: Vec<_> = numbers.map(inherited::take).collect();
    if let Err(failure) = descriptors::ensure(descriptors::FOR_A_RUNTIME) {
        failure.tell();
        return ExitCode::FAILURE;
    }
    let done = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|runtime| runtime.block_on(serve(UnixStream::from(line))));
    // Not before everything has ended.
    drop(lifelines);
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn serve(line: UnixStream) -> io::Result<()> {
    // Heard and not acted on: what ends a command goes through bramah, or is bramah's end.
    let _deaf = Signals::listen()?;
    tree::adopt_orphans();
    let mut wire = Wire::new(line)?;
    let Some(Order::Start(start)) = wire.next().await else { return Ok(()) };
    let desk = start.socket.as_deref().map(Desk::open).transpose().unwrap_or_default();
    let news = unix::signal(SignalKind::child())?;
    let mut command = command(&start);
    let child = match command.spawn() {
        Ok(child) => Pid::from_child(&child),
        Err(error) => {
            let found = error.kind() != io::ErrorKind::NotFound;
            wire.send(&News::NotStarted { found, why: error.to_string() }).await;
            return Ok(());
        }
    };
    wire.send(&News::Started(child.as_raw_nonzero().get())).await;
    let group = start.group.is_none().then_some(child);
    Watch::new(&start, Brood::new(Some(child), group), news, desk, wire).keep().await;
    Ok(())
}

fn command(start: &Start) -> Command {
    let mut words = wire::words(start.words.clone());
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).process_group(start.group.unwrap_or(0)).stdin(Stdio::inherit());
    command
}

/// A command that is watched over.
struct Watch {
    brood: Brood,
    news: unix::Signal,
    desk: Option<Desk>,
    wire: Wire,
    clock: Clock,
    deadline: Moment,
    margin: Duration,
    grace: Duration,
    over: Moment,
    on_lost: Lost,
}

/// Why it has to end: with what signal first, and until when.
struct Verdict {
    cause: Cause,
    first: Signal,
    until: Moment,
}

impl Watch {
    fn new(start: &Start, brood: Brood, news: unix::Signal, desk: Option<Desk>, wire: Wire) -> Self {
        let clock = Clock::boot();
        let over = start.max_run_ns.map_or(Moment::NEVER, |span| clock.now() + Duration::from_nanos(span));
        Self {
            brood,
            news,
            desk,
            wire,
            clock,
            deadline: Moment::from_ns(start.deadline_ns),
            margin: Duration::from_nanos(start.margin_ns),
            grace: Duration::from_nanos(start.grace_ns),
            over,
            on_lost: start.on_lost,
        }
    }

    /// Until the command has ended, or has been ended.
    async fn keep(mut self) {
        let verdict = loop {
            if let Some(exit) = self.brood.exit() {
                self.brood.reap();
                return tell(&mut self.wire, exit, Cause::Itself, Stopped::ByItself).await;
            }
            if let Some(signal) = self.brood.stopped_by_terminal() {
                self.wire.send(&News::Stopped(signal.as_raw())).await;
            }
            if let Some(verdict) = self.next().await {
                break verdict;
            }
        };
        let Self { mut brood, clock, mut wire, mut desk, .. } = self;
        let ending = brood.end(&clock, verdict.first, verdict.until);
        let how = answering_no(&mut desk, ending).await;
        if how == Stopped::Failed {
            wire.send(&News::Outlives(verdict.cause)).await;
            // What the lock's life hangs from stays open until the last of them has ended, whoever is gone.
            let rest = async {
                tokio::select! {
                    () = brood.outlast(&clock) => {}
                    () = ignore(&mut wire) => {}
                }
            };
            answering_no(&mut desk, rest).await;
        }
        let exit = brood.exit().unwrap_or(Exit::Command(255));
        tell(&mut wire, exit, verdict.cause, how).await;
    }

    /// Waits for whatever comes next, and deals with it.
    async fn next(&mut self) -> Option<Verdict> {
        let left = self.deadline.since(self.clock.now());
        let last_call = match self.on_lost {
            Lost::Signal(_) => self.deadline - self.margin - self.grace,
            Lost::Keep => Moment::NEVER,
        };
        tokio::select! {
            biased;
            order = self.wire.next() => match order {
                Some(Order::Deadline(ns)) => {
                    self.deadline = Moment::from_ns(ns);
                    None
                }
                Some(Order::Signal(number)) => {
                    if let Some(signal) = wire::signal(number) {
                        self.brood.forward(signal);
                    }
                    None
                }
                Some(Order::Stop(grace)) => Some(self.verdict(Cause::Lost, Duration::from_nanos(grace))),
                // There is one start; another is as good as no word.
                Some(Order::Start(_)) | None => Some(self.verdict(Cause::Orphaned, self.grace)),
            },
            () = self.clock.sleep_until(last_call) => Some(self.verdict(Cause::Lost, self.grace)),
            () = self.clock.sleep_until(self.over) => Some(self.verdict(Cause::OverTime, self.grace)),
            _ = self.news.recv() => {
                // The command itself, most of the time.
                if self.brood.exit().is_none() {
                    self.brood.collect_orphans();
                }
                None
            }
            () = Desk::answer(&mut self.desk, left) => None,
        }
    }

    /// The last moment is never after the lock's own.
    fn verdict(&self, cause: Cause, grace: Duration) -> Verdict {
        let first = match (cause, self.on_lost) {
            (Cause::Lost, Lost::Signal(number)) => wire::signal(number).unwrap_or(Signal::TERM),
            _ => Signal::TERM,
        };
        let last = match (cause, self.on_lost) {
            // Its lock may be lost already, and the grace is its own.
            (Cause::OverTime | Cause::Orphaned, Lost::Keep) => Moment::NEVER,
            _ => self.deadline - self.margin,
        };
        Verdict { cause, first, until: (self.clock.now() + grace).min(last) }
    }
}

/// Does `work`. Who asks meanwhile is told that the lock is not held.
async fn answering_no<T>(desk: &mut Option<Desk>, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = Desk::answer(desk, Duration::ZERO) => {}
        }
    }
}

/// Reads what comes, so that it does not pile up. Never ends.
async fn ignore(wire: &mut Wire) {
    while wire.next::<Order>().await.is_some() {}
    std::future::pending().await
}

async fn tell(wire: &mut Wire, exit: Exit, cause: Cause, how: Stopped) {
    let (code, signal) = match exit {
        Exit::Signal(signal) => (None, signal),
        exit => (Some(exit.code()), 0),
    };
    wire.send(&News::Ended { code, signal, cause, how }).await;
}
