//! The command that runs while the lock is held.

use std::{io, os::unix::process::CommandExt, process::Command, time::Duration};

use bramah::Clock;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_current_process_group, kill_process,
    kill_process_group, test_kill_process_group, waitid,
};
use tokio::signal::unix::{self, SignalKind};

use crate::{
    exit::{Exit, Failure},
    terminal::{self, Group},
};

/// How long a group that got SIGKILL is watched until it is empty. Some of it may be another init's to collect.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// A command that was started.
pub(crate) struct Child {
    pid: Pid,
    group: Group,
    news: unix::Signal,
}

impl Child {
    /// Starts `command`: 127 if there is no such program, 126 if it cannot be executed.
    pub(crate) fn spawn(command: &mut Command) -> Result<Self, Failure> {
        // Listened for before there is anything to hear.
        let news = unix::signal(SignalKind::child())
            .map_err(|error| Failure::new(Exit::NotExecutable, format!("cannot watch a command: {error}")))?;
        let group = terminal::group();
        if group != Group::Ours {
            command.process_group(0);
        }
        let child = command.spawn().map_err(|error| {
            let program = command.get_program().display();
            match error.kind() {
                io::ErrorKind::NotFound => {
                    Failure::new(Exit::NotFound, format!("cannot run {program}: not found"))
                }
                _ => Failure::new(Exit::NotExecutable, format!("cannot run {program}: {error}")),
            }
        })?;
        // The handle's own waiting is not used: it reaps, and cannot tell of a command that is stopped.
        let pid = Pid::from_child(&child);
        let mut child = Self { pid, group, news };
        child.bring_forward();
        Ok(child)
    }

    /// Waits until the command has ended. It stays a zombie until [`reap`](Child::reap), so that its process group
    /// keeps its number.
    ///
    /// # Cancel safety
    /// It can be dropped and awaited again.
    pub(crate) async fn ended(&mut self) -> Exit {
        loop {
            if let Some(exit) = self.exit() {
                return exit;
            }
            self.stop_with_it();
            self.news.recv().await;
        }
    }

    /// How it ended, if it has.
    fn exit(&self) -> Option<Exit> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.pid), look) {
            Ok(status) => status.as_ref().map(exit_of),
            // Nobody else waits for our children, unless we inherited the habit of not having any.
            Err(_) => Some(Exit::Command(255)),
        }
    }

    /// Passes a signal on to the whole group.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = match self.group {
            // The terminal has sent these to the whole of our group already.
            Group::Ours if matches!(signal, Signal::INT | Signal::QUIT) => Ok(()),
            Group::Ours => kill_process(self.pid, signal),
            Group::Own | Group::Foreground => kill_process_group(self.pid, signal),
        };
    }

    /// Ends the whole group: asks, and after `grace` does not ask. How the command ended, and why.
    pub(crate) async fn stop(mut self, grace: Duration) -> (Exit, Stopped) {
        let clock = Clock::boot();
        let until = clock.now() + grace;
        adopt_orphans();
        let mut how = if self.exit().is_some() { Stopped::ByItself } else { Stopped::Asked };
        self.signal(Signal::TERM);
        // A group that is stopped hears nothing but this.
        self.signal(Signal::CONT);
        let ended = tokio::select! {
            biased;
            exit = self.ended() => Some(exit),
            () = clock.sleep_until(until) => None,
        };
        let exit = match ended {
            Some(exit) => exit,
            None => {
                self.signal(Signal::KILL);
                how = Stopped::Killed;
                self.ended().await
            }
        };
        self.reap();
        // What the command has started may take longer than it did.
        let give_up = until + LAST_LOOK;
        while self.group != Group::Ours && self.is_anybody_left() && clock.now() < give_up {
            if clock.now() >= until {
                self.signal(Signal::KILL);
            }
            clock.sleep_until(clock.now() + Duration::from_millis(2)).await;
        }
        (exit, how)
    }

    /// Lets go of a command that has ended, and takes the terminal back.
    pub(crate) fn reap(&mut self) {
        if self.group == Group::Foreground {
            terminal::take_back(self.pid);
        }
        let _ = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }

    /// Whether the group has members yet, after those that we can have been collected.
    fn is_anybody_left(&self) -> bool {
        let collect = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        while let Ok(Some(_)) = waitid(WaitId::Pgid(Some(self.pid)), collect) {}
        test_kill_process_group(self.pid).is_ok()
    }

    fn bring_forward(&mut self) {
        if self.group == Group::Foreground {
            // Done from here, not by the new process before it becomes the command, which would take unsafe code: a
            // Ctrl-C in the moment before still goes to us, and is passed on.
            terminal::hand_to(self.pid);
            // It may have been quicker, and stopped for reading from a terminal that was not its own yet.
            self.signal(Signal::CONT);
        }
    }

    /// Job control: a command that the terminal has stopped (Ctrl-Z, or reading in the background) takes us and our
    /// group with it, so that the shell sees it and `fg` works.
    fn stop_with_it(&mut self) {
        let look = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let Ok(Some(status)) = waitid(WaitId::Pid(self.pid), look) else { return };
        let by_terminal = [Signal::TSTP, Signal::TTIN, Signal::TTOU]
            .iter()
            .any(|signal| status.stopping_signal() == Some(signal.as_raw()));
        if !by_terminal || self.group == Group::Ours {
            return;
        }
        terminal::take_back(self.pid);
        // Back from here only when we are continued; at once where nobody could continue us.
        let _ = kill_current_process_group(Signal::TSTP);
        self.group = if terminal::in_foreground() { Group::Foreground } else { Group::Own };
        self.bring_forward();
        self.signal(Signal::CONT);
    }
}

/// What it took to end a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// Nothing: it had ended.
    ByItself,
    /// SIGTERM was enough.
    Asked,
    /// SIGKILL.
    Killed,
}

/// From here on the children of dying children are ours, so that we see them end: an init may take its time to
/// collect them, or never do it.
fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

fn exit_of(status: &WaitIdStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Command(u8::try_from(code & 0xff).unwrap_or(255)),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Command(255),
    }
}
