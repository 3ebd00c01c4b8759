//! Who lives: what a session's file says to the other processes.
//!
//! A process keeps an exclusive flock on its session's file for as long as it lives, and the kernel gives it back
//! when it dies: whoever gets a shared one knows. A detached session keeps no flock; its file says until when it lives.

use std::{
    fs::File,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    time::Duration,
};

use bramah_core::{About, Result};
use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};

use crate::{
    boot::Boot,
    error::{corrupt, io_error, newer},
    guard,
    layout::{Layout, Part, parse_session_file},
};

const FORMAT: u32 = 1;
const WORD: &str = "bramah-session ";

/// What a session's file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) keep: Kept,
    pub(crate) about: Option<About>,
}

/// What keeps a session alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Its process, by the flock.
    Process,
    /// The time, until then on the clock of that boot; a renewal gives it `ttl_ns` from its own moment on.
    Until { boot: String, ns: u64, ttl_ns: u64 },
}

impl Kept {
    /// The one of a detached session that lives for `ttl_ns` from now on.
    pub(crate) fn for_ttl(ttl_ns: u64, boot: &Boot) -> Self {
        Self::Until { boot: boot.id.clone(), ns: boot.now_ns().saturating_add(ttl_ns), ttl_ns }
    }

    /// The first line of the file; for one boot always of the same length, so that it can be written over.
    pub(crate) fn encode(&self) -> String {
        match self {
            Self::Process => format!("{WORD}{FORMAT} process\n"),
            Self::Until { boot, ns, ttl_ns } => {
                format!("{WORD}{FORMAT} until {boot} {ns:020} {ttl_ns:020}\n")
            }
        }
    }

    /// How long it lives from now on if that hangs on time.
    pub(crate) fn left_ns(&self, boot: &Boot) -> Option<u64> {
        match self {
            Self::Process => None,
            Self::Until { boot: id, ns, .. } if *id == boot.id => Some(ns.saturating_sub(boot.now_ns())),
            Self::Until { .. } => Some(0),
        }
    }
}

/// Reads a session's file. A file without a full first line is of a process that died while it made it.
pub(crate) fn read(file: &File, path: &Path) -> Result<Option<Record>> {
    let mut bytes = vec![0; 256 + About::MAX_BYTES];
    let len = file.read_at(&mut bytes, 0).map_err(|error| io_error("read the session", path, error))?;
    let text = String::from_utf8_lossy(&bytes[..len]);
    let Some((first, about)) = text.split_once('\n') else { return Ok(None) };
    let foreign = || corrupt("the session", path, "is not one of bramah's");
    let mut words = first.strip_prefix(WORD).ok_or_else(foreign)?.split(' ');
    match words.next().and_then(|version| version.parse::<u32>().ok()) {
        Some(FORMAT) => {}
        Some(found) if found > FORMAT => return Err(newer("the session", path, found, FORMAT)),
        _ => return Err(foreign()),
    }
    let number = |word: &str| word.parse::<u64>().map_err(|_| foreign());
    let keep = match words.collect::<Vec<_>>()[..] {
        ["process"] => Kept::Process,
        ["until", boot, ns, ttl] => {
            Kept::Until { boot: boot.to_owned(), ns: number(ns)?, ttl_ns: number(ttl)? }
        }
        _ => return Err(foreign()),
    };
    Ok(Some(Record { keep, about: About::decode(about).ok() }))
}

/// Opens a session's file to look at it; `None` if it is absent.
pub(crate) fn open(path: &Path) -> Result<Option<File>> {
    guard::open_regular("the session", path, OFlags::RDONLY)
}

/// Whether somebody keeps an exclusive flock on it.
pub(crate) fn is_locked(path: &Path) -> bool {
    let file = open(path).ok().flatten();
    file.is_some_and(|file| flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK))
}

/// How long the session behind a file still lives, if that hangs on time.
pub(crate) fn left(path: &Path, boot: &Boot) -> Option<Duration> {
    let record = read(&open(path).ok()??, path).ok()??;
    record.keep.left_ns(boot).map(Duration::from_nanos)
}

/// Whether the session behind a file lives.
pub(crate) fn is_alive(path: &Path, boot: &Boot) -> Result<bool> {
    let Some(file) = open(path)? else { return Ok(false) };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        // Its process, or somebody who renews a detached one this very moment, or removes a dead one: whoever waits
        // for that one finds no owner of its mailbox, and asks again soon.
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(io_error("look at the session", path, error)),
        Ok(()) => {
            Ok(read(&file, path)?
                .is_some_and(|record| record.keep.left_ns(boot).is_some_and(|left| left > 0)))
        }
    }
}

/// Which file it is: device and inode.
pub(crate) fn identity(file: &File) -> std::io::Result<(u64, u64)> {
    file.metadata().map(|found| (found.dev(), found.ino()))
}

/// Whether `path` still leads to that file. A file that was deleted or moved under us is open here and unknown to
/// everyone else.
pub(crate) fn is_at(path: &Path, identity: (u64, u64)) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == identity)
}

/// Removes some of the files that dead sessions left. An incarnation is never used again, so this takes nothing
/// from anyone. Bounded: a few hundred names are read and a few of them tried.
pub(crate) fn sweep(layout: &Layout, boot: &Boot) {
    const READ: usize = 512;
    const TRIED: usize = 32;
    let Ok(entries) = std::fs::read_dir(&layout.sessions) else { return };
    let mut names: Vec<_> =
        entries.take(READ).filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    fastrand::shuffle(&mut names);
    let files = names.iter().filter_map(|name| parse_session_file(name));
    for (id, incarnation, part) in files.take(TRIED) {
        let session = layout.session(id, incarnation);
        let mail = layout.mail(id, incarnation);
        match part {
            Part::Life => reap(&session, &mail, boot),
            // They are made after their session; what has none is left over.
            Part::Beside if !session.exists() => remove_beside(&mail),
            Part::Beside => {}
        }
    }
}

/// Removes the files of one session if it is dead. Only under the exclusive flock: a session that is being made has
/// it, or notices that it came too late.
pub(crate) fn reap(session: &Path, mail: &Path, boot: &Boot) {
    if !matches!(is_alive(session, boot), Ok(false)) {
        return;
    }
    let Ok(Some(file)) = open(session) else { return };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return;
    }
    let dead = match read(&file, session) {
        Ok(record) => record.is_none_or(|record| record.keep.left_ns(boot).is_none_or(|left| left == 0)),
        // Of a newer version: not ours to judge.
        Err(_) => false,
    };
    if dead && identity(&file).is_ok_and(|identity| is_at(session, identity)) {
        remove_beside(mail);
        let _ = std::fs::remove_file(session);
    }
}

/// Removes what goes with a session: its mailbox and its wishes. Absent is as good.
pub(crate) fn remove_beside(mail: &Path) {
    let _ = std::fs::remove_file(mail);
    let _ = std::fs::remove_file(mail.with_extension("asked"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Scratch;

    #[test]
    fn only_the_flock_or_the_time_keeps_a_session_alive() {
        let (dir, boot) = (Scratch::new(), Boot::current());
        let path = dir.0.join("s");
        assert!(!is_alive(&path, &boot).unwrap(), "missing");
        std::fs::write(&path, Kept::Process.encode()).unwrap();
        assert!(!is_alive(&path, &boot).unwrap(), "no flock");
        let owner = File::open(&path).unwrap();
        flock(&owner, FlockOperation::LockExclusive).unwrap();
        assert!(is_alive(&path, &boot).unwrap() && is_locked(&path));
        assert_eq!(left(&path, &boot), None);
        drop(owner);
        assert!(!is_alive(&path, &boot).unwrap());
        let until = |id: &str, ns| Kept::Until { boot: id.to_owned(), ns, ttl_ns: 1 }.encode();
        for (text, alive) in [
            (until(&boot.id, u64::MAX), true),
            (until(&boot.id, 1), false),
            (until("another-boot", u64::MAX), false),
            (String::new(), false),
        ] {
            std::fs::write(&path, &text).unwrap();
            assert_eq!(is_alive(&path, &boot).unwrap(), alive, "{text}");
            assert_eq!(left(&path, &boot).is_some_and(|left| !left.is_zero()), alive, "{text}");
        }
    }

    #[test]
    fn foreign_and_newer_sessions_are_refused_by_name() {
        let (dir, boot) = (Scratch::new(), Boot::current());
        let path = dir.0.join("s");
        for (text, part) in [
            ("hello\n", "not one of"),
            ("bramah-session 2 cheese\n", "format 2"),
            ("bramah-session 1 x\n", "not one of"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = is_alive(&path, &boot).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn only_dead_sessions_are_reaped() {
        let (dir, boot) = (Scratch::new(), Boot::current());
        let (path, mail) = (dir.0.join("s"), dir.0.join("m"));
        for path in [&path, &mail] {
            std::fs::write(path, Kept::Process.encode()).unwrap();
        }
        let owner = File::open(&path).unwrap();
        flock(&owner, FlockOperation::LockExclusive).unwrap();
        reap(&path, &mail, &boot);
        assert!(path.exists() && mail.exists());
        drop(owner);
        reap(&path, &mail, &boot);
        assert!(!path.exists() && !mail.exists());
    }
}
