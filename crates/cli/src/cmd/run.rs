//! `bramah run`: hold a lock while a command runs.

use std::{process::Command, time::Duration};

use bramah::{Clock, Guards, Keep, Moment, Release, Session};
use rustix::process::Signal;

use crate::{
    child::{Child, Stopped},
    cmd,
    exit::{Exit, Failure},
    json,
    plan::{Run, Talk},
    say::{report, say},
    signals::Signals,
    span,
    store::Store,
    take,
};

/// The longest time between SIGTERM and SIGKILL when the lock is lost. Somebody else may hold it already.
const GRACE: Duration = Duration::from_secs(5);

pub(crate) async fn run(plan: &Run, store: &Store) -> Exit {
    let mut course = Course::new(plan);
    let exit = course.take(store).await.unwrap_or_else(Failure::tell);
    if plan.report {
        report(&json::to_line(&course.outcome(exit)));
    }
    exit
}

pub(crate) async fn elect(plan: &Run, store: &Store) -> Exit {
    run(plan, store).await
}

/// One run on its way, with what there will be to report of it.
struct Course<'a> {
    plan: &'a Run,
    clock: Clock,
    started: Moment,
    granted: Option<Moment>,
    ended: Option<Moment>,
    fence: Option<u64>,
    child: Option<Exit>,
}

impl<'a> Course<'a> {
    fn new(plan: &'a Run) -> Self {
        let clock = Clock::boot();
        let started = clock.now();
        Self { plan, clock, started, granted: None, ended: None, fence: None, child: None }
    }

    /// From the first word to the store to the last.
    async fn take(&mut self, store: &Store) -> Result<Exit, Failure> {
        let mut signals = Signals::listen().map_err(|error| {
            Failure::new(Exit::Unreachable, format!("cannot listen for signals: {error}"))
        })?;
        let opening = async { take::open(store, &self.plan.want, Keep::Process).await };
        let session = unless_told(&mut signals, opening).await?;
        let exit = self.hold(&session, &mut signals).await;
        // A place in line, or a lock that could not be released before, goes with the session.
        cmd::close(&session).await;
        exit
    }

    async fn hold(&mut self, session: &Session, signals: &mut Signals) -> Result<Exit, Failure> {
        let Some(guard) = unless_told(signals, self.acquire(session)).await? else {
            return Ok(self.busy(session).await);
        };
        self.granted = Some(self.clock.now());
        self.fence = guard.iter().find_map(|guard| guard.fence()).map(bramah::Fence::get);
        if self.plan.talk == Talk::Much {
            let fence = self.fence.map(|fence| format!(", fence {fence}")).unwrap_or_default();
            say(&format!("{} is ours after {}{fence}", self.plan.title(), span::write(self.waited())));
        }
        let exit = self.supervise(session, &guard, signals).await;
        self.release(guard, exit?).await
    }

    async fn acquire(&self, session: &Session) -> Result<Option<Guards>, Failure> {
        take::refuse_own(session, &self.plan.want.names, &self.plan.inside).await?;
        take::take(session, &self.plan.want, self.plan.patience, self.plan.talk).await
    }

    async fn busy(&self, session: &Session) -> Exit {
        if self.plan.talk > Talk::Little {
            take::tell_busy(session, &self.plan.want).await;
        }
        Exit::Busy
    }

    /// Runs the command until it ends, or the lock does.
    async fn supervise(
        &mut self,
        session: &Session,
        guard: &Guards,
        signals: &mut Signals,
    ) -> Result<Exit, Failure> {
        let mut child = Child::spawn(&mut self.command(session, guard))?;
        loop {
            tokio::select! {
                biased;
                () = guard.lost() => {
                    let (exit, how) = child.stop(GRACE.min(ttl(self.plan, session) / 10)).await;
                    self.child = Some(exit);
                    self.tell_loss(how);
                    return Ok(Exit::Lost);
                }
                exit = child.ended() => {
                    child.reap();
                    self.child = Some(exit);
                    return Ok(exit);
                }
                signal = signals.next() => child.signal(signal),
            }
        }
    }

    async fn release(&mut self, guard: Guards, exit: Exit) -> Result<Exit, Failure> {
        self.ended = Some(self.clock.now());
        match guard.release().await[0] {
            // It ran out behind our back, and the command ended before we looked: it was not protected to its end.
            Release::AlreadyLost if exit != Exit::Lost => {
                self.tell_loss(Stopped::ByItself);
                return Ok(Exit::Lost);
            }
            Release::Unknown => {
                say(&format!(
                    "{}: the release was not confirmed; it is free after its ttl",
                    self.plan.title()
                ));
            }
            Release::Released if self.plan.talk == Talk::Much => {
                say(&format!("{} is released after {}", self.plan.title(), span::write(self.held())));
            }
            _ => {}
        }
        Ok(exit)
    }

    fn tell_loss(&self, how: Stopped) {
        let what = match how {
            Stopped::ByItself => "the command had just ended by itself",
            Stopped::Asked => "the command was ended with SIGTERM",
            Stopped::Killed => "the command was ended with SIGKILL",
        };
        let held = span::write(self.held());
        say(&format!("{} was lost after {held}: {what}; somebody else may hold it now", self.plan.title()));
    }

    /// No shell, and what we add comes after what was inherited: a run inside a run sees its own.
    fn command(&self, session: &Session, guard: &Guards) -> Command {
        let mut command = Command::new(&self.plan.program);
        command
            .args(&self.plan.arguments)
            .env("BRAMAH_LOCK", self.plan.want.names[0].as_str())
            .env("BRAMAH_ID", guard.iter().map(|g| g.tag().to_string()).collect::<Vec<_>>().join(","))
            .env("BRAMAH_STORE", session.store())
            .env("BRAMAH_TTL_MS", span::ms(ttl(self.plan, session)).to_string());
        match guard.iter().find_map(|guard| guard.fence()) {
            Some(fence) => command.env("BRAMAH_FENCE", fence.to_string()),
            None => command.env_remove("BRAMAH_FENCE"),
        };
        command
    }

    fn waited(&self) -> Duration {
        self.granted.unwrap_or_else(|| self.clock.now()).since(self.started)
    }

    fn held(&self) -> Duration {
        let until = self.ended.unwrap_or_else(|| self.clock.now());
        until.since(self.granted.unwrap_or(until))
    }

    fn outcome(&self, exit: Exit) -> json::Outcome<'_> {
        json::Outcome {
            v: 1,
            name: self.plan.want.names[0].as_str(),
            outcome: if self.child == Some(exit) { "ran" } else { exit.word() },
            exit: exit.code(),
            fence: self.fence,
            waited_ms: span::ms(self.waited()),
            held_ms: self.granted.map(|_| span::ms(self.held())),
            child_code: self.child.map(Exit::code),
        }
    }
}

/// Does `work` unless a signal comes first: that ends us, and what was begun is given up.
async fn unless_told<T>(
    signals: &mut Signals,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let stop = |signal: Signal| Failure::silent(Exit::Signal(signal.as_raw()));
    tokio::select! {
        biased;
        signal = signals.next() => Err(stop(signal)),
        done = work => done,
    }
}

/// The ttl granted, or the one asked for where the store needs none.
fn ttl(plan: &Run, session: &Session) -> Duration {
    session.ttl().min(plan.want.ttl)
}
