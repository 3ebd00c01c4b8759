//! Everything that descends from this process.

use std::time::Duration;

use bramah::{Clock, Moment};
use rustix::{
    io::Errno,
    process::{
        Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpid, kill_process, kill_process_group,
        test_kill_process, waitid,
    },
};

use super::wire::Stopped;
use crate::{args::signal_name, exit::Exit, say::say};

/// From here on the children of dying children are ours, so that none gets out of sight: an init may take its time to
/// collect them, or never do it.
pub(crate) fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(getpid()));
}

/// How often it is looked who is left, before the last word and long after it.
const FREQUENT: Duration = Duration::from_millis(20);
const SELDOM: Duration = Duration::from_secs(1);

/// A command and everything that it has started, as seen from the process that is its parent and adopts orphans.
pub(crate) struct Brood {
    /// The command itself, if it is known.
    child: Option<Pid>,
    /// The process group of its own, if it has one.
    group: Option<Pid>,
    exit: Option<Exit>,
    strangers: Strangers,
}

/// Children that are none of the command's: whoever became us by exec had them before.
#[derive(Default)]
pub(crate) struct Strangers(Vec<Process>);

impl Strangers {
    /// Those that there are now. Hardly ever any, and then it costs one call.
    pub(crate) fn find() -> Self {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::All, look) {
            Ok(_) => Self(descendants(&Self::default()).unwrap_or_default()),
            Err(_) => Self::default(),
        }
    }

    fn has(&self, process: &Process) -> bool {
        self.0.iter().any(|stranger| stranger.pid == process.pid && stranger.start == process.start)
    }
}

impl Brood {
    pub(crate) fn new(child: Option<Pid>, group: Option<Pid>) -> Self {
        Self { child, group, exit: None, strangers: Strangers::default() }
    }

    /// Leaves these alone.
    pub(crate) fn beside(self, strangers: Strangers) -> Self {
        Self { strangers, ..self }
    }

    /// How the command itself ended, if it has. It stays a zombie until all that is ours is looked at anew, so that its
    /// process group keeps its number.
    pub(crate) fn exit(&mut self) -> Option<Exit> {
        if self.exit.is_none() {
            let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            self.exit = match self.child.map(|child| waitid(WaitId::Pid(child), look)) {
                Some(Ok(status)) => status.as_ref().map(exit_of),
                // Nobody else waits for our children.
                Some(Err(_)) | None => Some(Exit::Command(255)),
            };
        }
        self.exit
    }

    /// The signal that has stopped the command since the last call, if the terminal did it.
    pub(crate) fn stopped_by_terminal(&self) -> Option<Signal> {
        let look = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(self.child?), look).ok()??;
        let by = status.stopping_signal()?;
        [Signal::TSTP, Signal::TTIN, Signal::TTOU].into_iter().find(|signal| signal.as_raw() == by)
    }

    /// Signals the command as a terminal would: its whole group, or itself where it shares ours.
    pub(crate) fn forward(&self, signal: Signal) {
        let done = match (self.group, self.child) {
            (Some(group), _) => kill_process_group(group, signal),
            (None, Some(child)) => kill_process(child, signal),
            (None, None) => Ok(()),
        };
        // The size of a window is no news worth a line.
        if done == Err(Errno::PERM) && signal != Signal::WINCH {
            say(&format!(
                "cannot pass {} on to the command: this user may not signal it",
                signal_name(signal)
            ));
        }
    }

    /// Signals everybody: the group at once, and each that has left it.
    fn signal_all(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, signal);
        }
        let group = self.group.map(number);
        let all = descendants(&self.strangers).unwrap_or_default();
        for process in all.into_iter().filter(|process| group != Some(process.group)) {
            process.signal(signal);
        }
    }

    /// Collects the orphans that have ended, but not the command.
    pub(crate) fn collect_orphans(&self) {
        self.collect(&descendants(&self.strangers).unwrap_or_default());
    }

    fn collect(&self, all: &[Process]) {
        let us = number(getpid());
        let child = self.child.map(number);
        for process in all.iter().filter(|process| process.parent == us && Some(process.pid) != child) {
            if let Some(pid) = Pid::from_raw(process.pid) {
                let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            }
        }
    }

    /// Those that are left of the command and of all that it has started; `None` if that cannot be told.
    fn left(&mut self) -> Option<Vec<Process>> {
        let ended = self.exit().is_some();
        self.collect(&descendants(&self.strangers)?);
        let mut left = descendants(&self.strangers)?;
        if ended {
            // What is left of the command itself is a zombie of ours.
            left.retain(|process| Some(process.pid) != self.child.map(number));
        } else if left.is_empty() {
            left.extend(self.child.map(|child| Process::unlisted(number(child))));
        }
        left.sort_unstable_by_key(|process| process.pid);
        Some(left)
    }

    /// Whether we may not signal this one: it runs as another user.
    fn is_refused(&self, process: &Process) -> bool {
        let Some(pid) = Pid::from_raw(process.pid) else { return false };
        test_kill_process(pid) == Err(Errno::PERM)
            && !process.zombie
            // A child that was not waited for keeps its number, also where the system does not list it.
            && (self.child == Some(pid) || process.is_there())
    }

    /// Ends all of it: `first`, and what has not ended by `until` is killed, however long that takes. What it took;
    /// [`Stopped::Failed`], and a line that says so, as soon as only processes are left that we may not signal.
    pub(crate) async fn end(&mut self, clock: &Clock, first: Signal, until: Moment) -> Stopped {
        let mut how = match self.exit() {
            Some(_) => Stopped::ByItself,
            None if first == Signal::KILL => Stopped::Killed,
            None => Stopped::Asked,
        };
        self.signal_all(first);
        // What is stopped hears nothing but this.
        self.signal_all(Signal::CONT);
        let mut pause = Duration::from_millis(1);
        let mut before = Vec::new();
        let mut told = false;
        loop {
            let left = self.left();
            if left.as_ref().is_some_and(Vec::is_empty) {
                self.reap();
                return how;
            }
            let left = left.unwrap_or_default();
            let refused: Vec<&Process> = left.iter().filter(|process| self.is_refused(process)).collect();
            if !refused.is_empty() {
                if !std::mem::replace(&mut told, true) {
                    say(&format!("cannot end {}: this user may not signal it", list(&refused)));
                }
                if refused.len() == left.iter().filter(|process| !process.zombie).count() {
                    return Stopped::Failed;
                }
            }
            let pids = left.iter().map(|process| process.pid).collect();
            if pids != before {
                // Somebody came or went: the next look is worth it.
                pause = Duration::from_millis(1);
                before = pids;
            }
            let now = clock.now();
            if now >= until {
                if self.exit().is_none() {
                    how = Stopped::Killed;
                }
                // Again and again: somebody may have been started meanwhile, and what sleeps in the kernel does not die at once.
                self.signal_all(Signal::KILL);
            }
            clock.sleep_until(if now < until { (now + pause).min(until) } else { now + pause }).await;
            // Every look costs a walk through all processes of the machine.
            pause = (pause * 2).min(if now < until { FREQUENT } else { SELDOM });
        }
    }

    /// Waits until everybody has ended whom [`end`](Self::end) could not end, and kills whom it can meanwhile.
    pub(crate) async fn outlast(&mut self, clock: &Clock) {
        while !self.left().is_some_and(|left| left.is_empty()) {
            self.signal_all(Signal::KILL);
            clock.sleep_until(clock.now() + SELDOM).await;
        }
        self.reap();
    }

    /// Lets go of a command that has ended.
    pub(crate) fn reap(&self) {
        if let Some(child) = self.child {
            let _ = waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }
}

/// Whether the process of this number is a parent of ours, or one above that.
pub(crate) fn is_above(pid: Option<i32>) -> bool {
    let Some(pid) = pid.filter(|pid| *pid > 1) else { return false };
    let mut seen = Process::read(number(getpid()));
    // A process is started after the one above it, so this ends.
    while let Some(process) = seen {
        if process.parent == pid {
            return true;
        }
        seen = Process::read(process.parent);
    }
    false
}

fn exit_of(status: &WaitIdStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Command(u8::try_from(code & 0xff).unwrap_or(255)),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Command(255),
    }
}

fn number(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}

/// A process as the kernel lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    /// When it started: together with its number this is the process itself.
    start: u64,
    /// Whether it has ended, and its parent has not looked yet.
    zombie: bool,
}

impl Process {
    fn read(pid: i32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// One that the system does not list.
    fn unlisted(pid: i32) -> Self {
        Self { pid, parent: number(getpid()), group: 0, start: 0, zombie: false }
    }

    /// The name is in brackets and may hold anything, so the rest is looked for behind the last one.
    fn parse(stat: &str) -> Option<Self> {
        let (head, rest) = stat.rsplit_once(')')?;
        let pid = head.split(' ').next()?.parse().ok()?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse().ok();
        let zombie = matches!(fields.first(), Some(&("Z" | "X")));
        let start = fields.get(19)?.parse().ok()?;
        Some(Self { pid, parent: number(1)?, group: number(2)?, start, zombie })
    }

    /// Whether its number still means the same process.
    fn is_there(self) -> bool {
        Self::read(self.pid).is_some_and(|now| now.start == self.start)
    }

    /// Its number, with its name and its user where the system tells.
    fn describe(self) -> String {
        use std::os::unix::fs::MetadataExt;
        let name = std::fs::read_to_string(format!("/proc/{}/comm", self.pid));
        let user = std::fs::metadata(format!("/proc/{}", self.pid)).map(|data| data.uid());
        match (name, user) {
            (Ok(name), Ok(user)) => format!("{} ({}, uid {user})", self.pid, name.trim_end()),
            _ => self.pid.to_string(),
        }
    }

    /// Only if its number still means the same process.
    fn signal(self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        #[cfg(target_os = "linux")]
        if let Ok(process) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
            if self.is_there() {
                let _ = rustix::process::pidfd_send_signal(process, signal);
            }
            return;
        }
        if self.is_there() {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

/// Processes for a message: the first few of them.
fn list(processes: &[&Process]) -> String {
    const MOST: usize = 3;
    let mut words: Vec<String> = processes.iter().take(MOST).map(|process| process.describe()).collect();
    if processes.len() > MOST {
        words.push(format!("{} more", processes.len() - MOST));
    }
    format!("process {}", words.join(", "))
}

/// All processes below this one but these and those below them; `None` if that cannot be told.
fn descendants(strangers: &Strangers) -> Option<Vec<Process>> {
    if cfg!(not(target_os = "linux")) {
        // Only the group is known there.
        return Some(Vec::new());
    }
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc").ok()? {
        let pid: Option<i32> = entry.ok()?.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid else { continue };
        match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => all.extend(Process::parse(&stat).filter(|process| !strangers.has(process))),
            // It has ended meanwhile, or is hidden from us.
            Err(error) if matches!(error.raw_os_error(), Some(2 | 3 | 1 | 13)) => {}
            Err(_) => return None,
        }
    }
    Some(below(number(getpid()), all))
}

fn below(root: i32, mut others: Vec<Process>) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        let (children, rest) = others.into_iter().partition(|process: &Process| process.parent == parent);
        others = rest;
        parents.extend(children.iter().map(|child| child.pid));
        found.extend(children);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_it_is_called() {
        let rest: Vec<String> = (5..30).map(|n| n.to_string()).collect();
        let process = Process::parse(&format!("42 (a) b (c) S 7 9 {}", rest.join(" "))).unwrap();
        assert_eq!(process, Process { pid: 42, parent: 7, group: 9, start: 21, zombie: false });
        assert!(Process::parse(&format!("42 (a) Z 7 9 {}", rest.join(" "))).unwrap().zombie);
        assert_eq!(Process::parse("nonsense"), None);
        assert!(Process::read(number(getpid())).is_some());
    }

    #[test]
    fn only_those_below_are_found() {
        let process = |pid, parent| Process { pid, parent, group: 1, start: 0, zombie: false };
        let all =
            vec![process(3, 2), process(2, 1), process(9, 8), process(4, 3), process(1, 0), process(5, 1)];
        let mut found: Vec<i32> = below(1, all).into_iter().map(|process| process.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [2, 3, 4, 5]);
    }
}
