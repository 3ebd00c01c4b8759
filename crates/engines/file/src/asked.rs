//! Wishes: which claims of a session somebody asks its process to let go of. See decision 0015.
//!
//! A file beside that of the session, there only once somebody has asked: the claims' numbers, one a line. A letter tells of a wish at
//! once; the file is for a session that does not get it, and for one that has no process.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Mutex, PoisonError},
};

use bramah_core::{Claim, Keep, Result};
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::{
    error::io_error,
    guard, life,
    mail::{self, News},
    session::Session,
    store::Store,
    turn::Turn,
};

const WHAT: &str = "the wishes";

/// What the last renewal of a session found.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Vec<u64>>);

/// Asks for a claim, once. An absent one is success.
pub(crate) fn ask(store: &Store, claim: &Claim) -> Result<Turn<()>> {
    let id = claim.id;
    let turn = store.visit(&claim.name, None, |state| {
        let entry = state.find(id).and_then(|at| state.line.get(at));
        Ok((entry.map(|entry| entry.incarnation), false))
    })?;
    let incarnation = match turn {
        Turn::Busy => return Ok(Turn::Busy),
        Turn::Done(found) => found.flatten(),
    };
    let Some(incarnation) = incarnation else { return Ok(Turn::Done(())) };
    let session = store.layout.session(id.session, incarnation);
    if !life::is_alive(&session, &store.boot)? {
        return Ok(Turn::Done(()));
    }
    if let Turn::Busy = note(&store.layout.asked(id.session, incarnation), id.seq)? {
        return Ok(Turn::Busy);
    }
    let own = store.own_session(id.session).filter(|session| session.incarnation == incarnation);
    match own {
        Some(session) => session.recipient.ask(id.seq),
        None => mail::send(&store.layout.mail(id.session, incarnation), id.seq, News::Asked),
    }
    Ok(Turn::Done(()))
}

/// Writes a number down, unless it is there.
fn note(path: &Path, seq: u64) -> Result<Turn<()>> {
    let failed = |error| io_error("write down a wish in", path, error);
    let access = OFlags::RDWR | OFlags::CREATE;
    let Some(file) = guard::open_regular(WHAT, path, access)? else { return Ok(Turn::Done(())) };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(Turn::Busy);
    }
    let (numbers, len) = read(&file).map_err(failed)?;
    if !numbers.contains(&seq) {
        file.write_all_at(format!("{seq}\n").as_bytes(), len).map_err(failed)?;
    }
    Ok(Turn::Done(()))
}

/// The numbers in the file, and where the last whole line ends: a writer that was killed may have left a part of one.
fn read(file: &File) -> std::io::Result<(Vec<u64>, u64)> {
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX).min(MOST)];
    let len = file.read_at(&mut bytes, 0)?;
    let end = bytes[..len].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let text = String::from_utf8_lossy(&bytes[..end]);
    Ok((text.lines().filter_map(|line| line.parse().ok()).collect(), end as u64))
}

/// The most bytes that are read. A session with so many wishes has more important things to do.
const MOST: usize = 1 << 20;

/// The numbers of a session's claims that somebody asks for. Those of claims that it does not have any more, also the last time, are
/// taken out of the file. What cannot be read tells of no wish: none is worth a renewal.
pub(crate) fn of(session: &Session) -> Vec<u64> {
    let Ok(Some(file)) = guard::open_regular(WHAT, &session.asked, OFlags::RDWR) else { return Vec::new() };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Vec::new();
    }
    let Ok((mut numbers, _)) = read(&file) else { return Vec::new() };
    let mut seen = session.seen.0.lock().unwrap_or_else(PoisonError::into_inner);
    if session.keep == Keep::Process {
        // Not at the first sight of it: a claim that was just granted is not in the list yet.
        let claims = session.claims();
        let is_past = |seq: &u64| !claims.contains_key(seq) && seen.contains(seq);
        if numbers.iter().any(is_past) {
            numbers.retain(|seq| !is_past(seq));
            let text: String = numbers.iter().map(|seq| format!("{seq}\n")).collect();
            let _ = file.set_len(0).and_then(|()| file.write_all_at(text.as_bytes(), 0));
        }
    }
    seen.clone_from(&numbers);
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Scratch;

    fn numbers(path: &Path) -> Vec<u64> {
        read(&File::open(path).unwrap()).unwrap().0
    }

    #[test]
    fn a_number_is_written_once_and_over_a_line_that_was_cut_short() {
        let dir = Scratch::new();
        let path = dir.0.join("asked");
        for seq in [7, 9, 7] {
            assert!(matches!(note(&path, seq).unwrap(), Turn::Done(())));
        }
        assert_eq!(numbers(&path), [7, 9]);
        std::fs::write(&path, "7\n12").unwrap();
        assert_eq!(numbers(&path), [7]);
        note(&path, 345).unwrap();
        assert_eq!(numbers(&path), [7, 345]);
    }

    #[test]
    fn what_somebody_else_has_locked_is_tried_again() {
        let dir = Scratch::new();
        let path = dir.0.join("asked");
        note(&path, 1).unwrap();
        let other = File::open(&path).unwrap();
        flock(&other, FlockOperation::LockExclusive).unwrap();
        assert!(matches!(note(&path, 2).unwrap(), Turn::Busy));
        drop(other);
        assert!(matches!(note(&path, 2).unwrap(), Turn::Done(())));
    }
}
