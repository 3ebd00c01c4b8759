//! A process and those that it started.

use std::{fs, time::Duration};

use rustix::process::{Pid, Signal, kill_process};

use crate::patience::until;

/// How long a signal may take to be heard.
const HEARD: Duration = Duration::from_secs(10);

/// Stops a process and its children, as by SIGSTOP, and waits until none of them does anything.
///
/// # Errors
///
/// When there is no such process, or it does not stop.
pub fn freeze(pid: u32) -> Result<(), String> {
    send(pid, Signal::STOP)?;
    // It may be in the midst of starting one more.
    await_stop(pid)?;
    let children = children(pid)?;
    for child in &children {
        // It may have ended meanwhile.
        let _ = send(*child, Signal::STOP);
    }
    children.into_iter().try_for_each(await_stop)
}

/// Lets them go on.
///
/// # Errors
///
/// When there is no such process.
pub fn thaw(pid: u32) -> Result<(), String> {
    for child in children(pid)? {
        let _ = send(child, Signal::CONT);
    }
    send(pid, Signal::CONT)
}

fn send(pid: u32, signal: Signal) -> Result<(), String> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = raw.ok_or_else(|| format!("{pid} is no process id"))?;
    kill_process(pid, signal).map_err(|why| format!("process {}: {why}", pid.as_raw_nonzero()))
}

fn await_stop(pid: u32) -> Result<(), String> {
    until(&format!("the stop of process {pid}"), HEARD, || match stat(pid) {
        // Stopped, or gone, or as good as gone.
        Some((state, _)) if !"TtZX".contains(state) => Err(format!("its state is {state}")),
        _ => Ok(()),
    })
}

fn children(pid: u32) -> Result<Vec<u32>, String> {
    let listed = fs::read_dir("/proc").map_err(|why| format!("no list of processes in /proc: {why}"))?;
    let all = listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(all.filter(|child| stat(*child).is_some_and(|(_, parent)| parent == pid)).collect())
}

/// The state of a process and its parent.
fn stat(pid: u32) -> Option<(char, u32)> {
    state_and_parent(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Out of `12 (a name) S 1 ...`, where the name may be anything.
fn state_and_parent(stat: &str) -> Option<(char, u32)> {
    let mut words = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_a_strange_name_is_read() {
        assert_eq!(state_and_parent("12 (a) S 99 (x) T 7 12 12 0"), Some(('T', 7)));
        assert_eq!(state_and_parent("12 (a"), None);
    }
}
