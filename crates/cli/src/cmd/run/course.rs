//! A command on its way under a lock.

use std::time::Duration;

use bramah::{Clock, Fence, Guards, Moment, Release, Session};
use rustix::process::Signal;

use super::{
    Grant,
    loss::{RUNS_ON, after_loss, asked, broken, lost, words},
};
use crate::{
    args::{self, OnLost, OnRevoke},
    cmd,
    exit::{Exit, Failure},
    guardian::{Cause, Event, Orders, Stopped, Ward},
    json,
    plan::{Run, Talk},
    say::{clean, report, say},
    signals::Signals,
    span,
    store::Store,
};

/// The shortest time before the end of a lease at which everything of the command has to be gone.
const LEAST_MARGIN: Duration = Duration::from_millis(10);

/// How long a question may take that only has us say more, or is asked when the command has ended.
const ANSWER: Duration = Duration::from_millis(500);
/// How long the end of a run waits until the lock is released and the session is closed: of a store that answers, of one
/// that does not, and when the lock is lost anyway.
const PARTING: [Duration; 3] = [Duration::from_secs(2), ANSWER, Duration::from_millis(100)];

/// One run, with what there will be to report of it.
pub(crate) struct Course<'a> {
    pub(crate) plan: &'a Run,
    clock: Clock,
    started: Moment,
    granted: Option<Moment>,
    ended: Option<Moment>,
    fences: Vec<Option<u64>>,
    ids: Vec<String>,
    child: Option<Exit>,
    unlocked: bool,
    unguarded: bool,
    lost: bool,
    asked: bool,
    /// It had to end and could not be ended.
    outlives: bool,
    /// The store did not answer when the command had ended.
    silent: bool,
    /// A signal asked the whole run to end.
    told_to_end: bool,
}

impl<'a> Course<'a> {
    pub(crate) fn new(plan: &'a Run) -> Self {
        let clock = Clock::boot();
        let started = clock.now();
        Self {
            plan,
            clock,
            started,
            granted: None,
            ended: None,
            fences: Vec::new(),
            ids: Vec::new(),
            child: None,
            unlocked: false,
            unguarded: false,
            lost: false,
            asked: false,
            outlives: false,
            silent: false,
            told_to_end: false,
        }
    }

    /// Runs the command to its end, or to that of the lock.
    pub(crate) async fn follow(
        &mut self,
        grant: Grant,
        store: &Store,
        signals: &mut Signals,
    ) -> Result<Exit, Failure> {
        self.granted = Some(self.clock.now());
        let (session, guards) = match grant {
            Grant::Held(session, guards) => (session, guards),
            Grant::Unlocked => {
                self.unlocked = true;
                let mut ward = Ward::start(self.orders(None, store)).await?;
                let exit = self.supervise(&mut ward, None, signals).await;
                ward.dismiss();
                return exit;
            }
        };
        if store.is_memory() && self.plan.talk > Talk::Little {
            say(&format!(
                "{}: memory: is a store of this process alone and excludes nobody else; name another with --engine",
                self.plan.title()
            ));
        }
        self.fences = guards.iter().map(|guard| guard.fence().map(Fence::get)).collect();
        self.ids = guards.iter().map(|guard| guard.tag().to_string()).collect();
        if self.plan.talk == Talk::Much {
            let fence = self.fence().map(|fence| format!(", fence {fence}")).unwrap_or_default();
            say(&format!("{} is ours after {}{fence}", self.plan.title(), span::write(self.waited())));
        }
        let held = Some((&session, &guards));
        let exit = match Ward::start(self.orders(held, store)).await {
            Ok(mut ward) => {
                let exit = match self.supervise(&mut ward, held, signals).await {
                    Ok(exit) => Ok(self.release(&session, guards, exit, signals).await),
                    Err(failure) => {
                        drop(guards);
                        Err(failure)
                    }
                };
                // Not before the release: those who wait need not wait for this.
                ward.dismiss();
                exit
            }
            Err(failure) => {
                drop(guards);
                Err(failure)
            }
        };
        // A lock that could not be released before goes with the session. One that is lost is not waited for.
        let until = self.ended.unwrap_or_else(|| self.clock.now()) + self.parting();
        cmd::close_by(session, until.max(self.clock.now() + PARTING[2])).await;
        exit
    }

    /// Runs the command until it ends, or the lock does.
    async fn supervise(
        &mut self,
        ward: &mut Ward,
        held: Option<(&Session, &Guards)>,
        signals: &mut Signals,
    ) -> Result<Exit, Failure> {
        let left = || held.map_or(Duration::MAX, |(_, guards)| guards.remaining());
        // Often enough that what the guardian knows is never older than a part of the ttl.
        let beat = if left() == Duration::MAX { Duration::MAX } else { self.ttl(held) / 12 };
        let mut next_beat = self.clock.now() + beat;
        loop {
            tokio::select! {
                biased;
                () = lost(held), if !self.lost => {
                    self.lost = true;
                    if self.plan.on_lost == OnLost::Keep {
                        ward.lost();
                        self.tell_loss("the command runs on, as --on-lost keep says", held).await;
                        continue;
                    }
                    let how = if self.outlives {
                        Stopped::Failed
                    } else {
                        let (exit, how) = ward.stop(self.grace_after_loss(held)).await;
                        self.child = exit;
                        how
                    };
                    self.tell_loss(&words(how, self.plan.on_lost), held).await;
                    return Ok(after_loss(how));
                }
                () = asked(held), if !self.asked => {
                    self.asked = true;
                    let then = match self.plan.on_revoke {
                        OnRevoke::Tell => "the command runs on".to_owned(),
                        OnRevoke::Signal(signal) => {
                            ward.signal(signal);
                            format!("the command gets {}", args::signal_name(signal))
                        }
                    };
                    say(&format!("{}: somebody asks for it; {then}", self.plan.title()));
                }
                event = ward.next() => match event {
                    Event::NotStarted(failure) => return Err(failure),
                    Event::Ended { exit, cause, how } => return Ok(self.ended(exit, cause, how, held).await),
                    Event::Outlives(cause) => {
                        self.outlives = true;
                        if let Some(exit) = self.outlived(cause, held).await {
                            return Ok(exit);
                        }
                    }
                    Event::Gone => break,
                },
                signal = signals.next() => {
                    self.told_to_end |= [Signal::TERM, Signal::INT, Signal::QUIT].contains(&signal);
                    ward.signal(signal);
                }
                () = self.clock.sleep_until(next_beat) => {
                    // In this order: time that passes in between makes it earlier, not later.
                    let now = self.clock.now();
                    ward.renewed(now + left());
                    next_beat = now + beat;
                }
            }
        }
        // Nothing comes between: it is ended once, in the time that it has.
        let (exit, how) = ward.take_over(self.plan.grace).await;
        self.child = exit;
        self.unguarded = true;
        if how != Stopped::Failed {
            say("the guardian of the command was killed, so the command was ended");
            return Ok(exit.unwrap_or(Exit::Command(255)));
        }
        say(&format!("the guardian of the command was killed: {}", self.runs_on(held)));
        if held.is_some() && !self.lost {
            tokio::select! {
                biased;
                exit = ward.outlast() => self.child = exit,
                () = lost(held) => {
                    self.lost = true;
                    self.tell_loss(RUNS_ON, held).await;
                }
            }
        }
        Ok(Exit::Outlived)
    }

    /// It had to end and runs on. The exit, unless the lock is ours to keep for as long as that lasts.
    async fn outlived(&mut self, cause: Cause, held: Option<(&Session, &Guards)>) -> Option<Exit> {
        match cause {
            Cause::OverTime => {
                let most = self.plan.max_run.map(span::write).unwrap_or_default();
                let then = self.runs_on(held);
                say(&format!("{} ran for {most}, which is the most: {then}", self.command_name()));
                (held.is_none() || self.lost).then_some(Exit::Outlived)
            }
            Cause::Itself | Cause::Lost | Cause::Orphaned => {
                self.lost = true;
                self.tell_loss(RUNS_ON, held).await;
                Some(Exit::Outlived)
            }
        }
    }

    /// That the command cannot be ended, and what that means for a lock that is ours.
    fn runs_on(&self, held: Option<(&Session, &Guards)>) -> String {
        match held {
            Some(_) if !self.lost => {
                format!("the command cannot be ended, and {} is held until it ends", self.plan.title())
            }
            _ => RUNS_ON.to_owned(),
        }
    }

    async fn ended(
        &mut self,
        exit: Exit,
        cause: Cause,
        how: Stopped,
        held: Option<(&Session, &Guards)>,
    ) -> Exit {
        self.child = Some(exit);
        match cause {
            Cause::Itself => exit,
            // That was told when it was found out.
            Cause::OverTime if how == Stopped::Failed => Exit::Outlived,
            Cause::OverTime => {
                let most = self.plan.max_run.map(span::write).unwrap_or_default();
                let how = words(how, OnLost::Signal(Signal::TERM));
                say(&format!("{} ran for {most}, which is the most: {how}", self.command_name()));
                Exit::OverTime
            }
            Cause::Lost | Cause::Orphaned => {
                self.lost = true;
                self.tell_loss(&words(how, self.plan.on_lost), held).await;
                after_loss(how)
            }
        }
    }

    /// Somebody else may hold it already.
    fn grace_after_loss(&self, held: Option<(&Session, &Guards)>) -> Duration {
        self.plan.grace.min(self.ttl(held) / 10)
    }

    /// As granted, or as asked for where the store needs none.
    fn ttl(&self, held: Option<(&Session, &Guards)>) -> Duration {
        held.map_or(self.plan.want.ttl, |(session, _)| session.ttl().min(self.plan.want.ttl))
    }

    /// No shell, and what we add comes over what was inherited: a run inside of a run sees its own.
    fn orders(&self, held: Option<(&Session, &Guards)>, store: &Store) -> Orders<'a> {
        // Before anything is asked: what takes its time makes the deadline earlier, not later.
        let now = self.clock.now();
        let (env, lifelines, until) = match held {
            Some((session, guards)) => {
                (self.env(session, guards, store), session.lifelines(), now + guards.remaining())
            }
            None => (unlocked_env(store), Vec::new(), Moment::NEVER),
        };
        let timed = until != Moment::NEVER;
        Orders {
            program: &self.plan.program,
            arguments: &self.plan.arguments,
            env,
            lifelines,
            until,
            margin: if timed { (self.ttl(held) / 20).max(LEAST_MARGIN) } else { Duration::ZERO },
            grace: self.plan.grace,
            max_run: self.plan.max_run,
            on_lost: self.plan.on_lost,
            check: held.is_some(),
        }
    }

    fn env(&self, session: &Session, guards: &Guards, store: &Store) -> Vec<(&'static str, Option<String>)> {
        let join = |words: Vec<String>| words.join(",");
        let fences: Option<Vec<String>> =
            guards.iter().map(|guard| Some(guard.fence()?.to_string())).collect();
        let ttl = self.ttl(Some((session, guards)));
        let inside = self.plan.inside.iter().map(ToString::to_string);
        let mut env = vec![
            ("BRAMAH_LOCK", Some(join(guards.iter().map(|guard| guard.name().to_string()).collect()))),
            ("BRAMAH_ID", Some(join(self.ids.clone()))),
            ("BRAMAH_FENCE", fences.map(join)),
            ("BRAMAH_OWNER", Some(session.about().owner.to_string())),
            ("BRAMAH_STORE", Some(session.store().to_owned())),
            ("BRAMAH_TTL_MS", Some(span::ms(ttl).to_string())),
            ("BRAMAH_HELD", Some(join(inside.chain(self.ids.clone()).collect()))),
        ];
        env.extend(store.pass_on());
        env
    }

    /// Holds it for as long as it has to be held at least, and releases it.
    async fn release(
        &mut self,
        session: &Session,
        guards: Guards,
        exit: Exit,
        signals: &mut Signals,
    ) -> Exit {
        let mut exit = exit;
        if !self.lost && !self.was_ours_to_the_end(&guards).await {
            // It ended behind our back, and the command did before we looked: it was not protected to its end.
            self.lost = true;
            self.tell_loss("the command had just ended by itself", Some((session, &guards))).await;
            if self.plan.on_lost != OnLost::Keep {
                exit = Exit::Lost;
            }
        }
        if !self.lost && !self.told_to_end {
            let until = self.granted.unwrap_or(self.started) + self.plan.min_hold;
            tokio::select! {
                biased;
                () = guards.lost() => {}
                _ = signals.next_end() => {}
                () = self.clock.sleep_until(until) => {}
            }
        }
        self.ended = Some(self.clock.now());
        let unknown = match self.by(self.clock.now() + self.parting(), guards.release()).await {
            Some(outcomes) => outcomes.contains(&Release::Unknown),
            // It goes on while the session is closed.
            None => true,
        };
        if unknown && !self.lost {
            say(&format!(
                "{}: the store did not confirm the release; the lock is free after its ttl, if not now",
                self.plan.title()
            ));
        } else if self.plan.talk == Talk::Much && !self.lost {
            say(&format!("{} is released after {}", self.plan.title(), span::write(self.held())));
        }
        exit
    }

    /// Whether the store has it as ours to this moment: it may have been broken since the last renewal. A store that
    /// does not answer is no answer; then our own deadline counts.
    async fn was_ours_to_the_end(&mut self, guards: &Guards) -> bool {
        let confirmed = async {
            for guard in guards.iter() {
                if !guard.confirm().await? {
                    return Ok(false);
                }
            }
            Ok::<_, bramah::Error>(true)
        };
        let answer = self.by(self.clock.now() + ANSWER, confirmed).await;
        self.silent = !matches!(answer, Some(Ok(_)));
        answer.and_then(Result::ok).unwrap_or_else(|| guards.is_held())
    }

    /// How long the store may take to release the lock and to close the session.
    fn parting(&self) -> Duration {
        let [usual, silent, lost] = PARTING;
        match (self.lost, self.silent) {
            (true, _) => lost,
            (false, true) => silent,
            (false, false) => usual,
        }
    }

    /// What comes of `work` by `until`.
    async fn by<T>(&self, until: Moment, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.clock.sleep_until(until) => None,
        }
    }

    /// Says that it is lost, and by whom it was broken if that is on record.
    async fn tell_loss(&self, what: &str, held: Option<(&Session, &Guards)>) {
        let (title, span) = (self.plan.title(), span::write(self.held()));
        // A store that does not answer does not keep us from saying it.
        let how = match self.by(self.clock.now() + ANSWER, broken(held)).await.flatten() {
            Some(cause) => format!("broken by {} (\"{}\")", clean(&cause.by), clean(&cause.reason)),
            None => "lost".to_owned(),
        };
        say(&format!("{title} was {how} after {span}: {what}; somebody else may hold it now"));
    }

    fn command_name(&self) -> String {
        self.plan.program.display().to_string()
    }

    fn waited(&self) -> Duration {
        self.granted.unwrap_or_else(|| self.clock.now()).since(self.started)
    }

    fn held(&self) -> Duration {
        let until = self.ended.unwrap_or_else(|| self.clock.now());
        until.since(self.granted.unwrap_or(until))
    }

    /// The fence, if there is one lock and it has one.
    fn fence(&self) -> Option<u64> {
        match self.fences[..] {
            [fence] => fence,
            _ => None,
        }
    }

    /// Says how it went to whoever asked for that.
    pub(crate) fn report(&self, exit: Exit) {
        let names: Vec<&str> = self.plan.want.names.iter().map(bramah::Name::as_str).collect();
        let outcome = match exit {
            Exit::Outlived => exit.word(),
            _ if self.lost => Exit::Lost.word(),
            _ if self.unguarded => "guardian_killed",
            exit if self.child == Some(exit) && self.unlocked => "ran_unlocked",
            exit if self.child == Some(exit) => "ran",
            exit => exit.word(),
        };
        let line = json::to_line(&json::Outcome {
            v: json::VERSION,
            name: &names.join(","),
            names: &names,
            outcome,
            exit: exit.code(),
            id: (!self.ids.is_empty()).then(|| self.ids.join(",")),
            ids: &self.ids,
            fence: self.fence(),
            fences: &self.fences,
            waited_ms: span::ms(self.waited()),
            held_ms: self.granted.filter(|_| !self.unlocked).map(|_| span::ms(self.held())),
            child_code: self.child.map(Exit::code),
        });
        if self.plan.report {
            report(&line);
        }
        if let Some(status) = &self.plan.status {
            status.write(&line);
        }
    }
}

/// What an outer run has set does not hold here.
fn unlocked_env(store: &Store) -> Vec<(&'static str, Option<String>)> {
    let absent = [
        "BRAMAH_LOCK",
        "BRAMAH_ID",
        "BRAMAH_FENCE",
        "BRAMAH_OWNER",
        "BRAMAH_STORE",
        "BRAMAH_TTL_MS",
        "BRAMAH_SOCKET",
    ];
    absent.into_iter().map(|key| (key, None)).chain(store.pass_on()).collect()
}
