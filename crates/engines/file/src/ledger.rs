//! A ledger as a file.

use std::{
    fs::File,
    io::ErrorKind as IoKind,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use bramah_core::{Error, ErrorKind, Name, Result};
use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};

use crate::{
    codec::{self, Flaw, HEADER, Header, MAX_BODY, PAGE},
    error::{corrupt, io_error, newer},
    guard, life,
    state::State,
};

/// How often a busy ledger is tried again before the caller goes to sleep. A ledger is locked for a few system
/// calls, so it is nearly always free within that.
const SPINS: u32 = 60;

/// An open ledger. Whoever holds [`lock`](Ledger::lock) is alone with it.
#[derive(Debug)]
pub(crate) struct Ledger {
    file: File,
    path: PathBuf,
    /// Which file it is: device and inode.
    identity: (u64, u64),
}

/// What a ledger held when it was read.
#[derive(Debug)]
pub(crate) struct Content {
    /// `None` for a new one.
    header: Option<Header>,
    pub(crate) state: State,
}

/// The flock on a ledger, given back on drop.
#[derive(Debug)]
pub(crate) struct Locked<'a>(&'a Ledger);

impl Ledger {
    /// Opens it; `None` if it is absent and not to be made. It is never unlinked or replaced by us: two processes
    /// would lock two files of one name.
    pub(crate) fn open(path: &Path, make: bool) -> Result<Option<Self>> {
        let access = if make { OFlags::RDWR | OFlags::CREATE } else { OFlags::RDWR };
        match guard::open_regular("the ledger", path, access)? {
            Some(file) => {
                let identity = life::identity(&file).map_err(|error| io_error("look at", path, error))?;
                Ok(Some(Self { file, path: path.to_owned(), identity }))
            }
            None if make => Err(io_error("open the ledger", path, Errno::NOENT)),
            None => Ok(None),
        }
    }

    /// Locks it against other open descriptions of it; `None` while another has it. Never waits for long.
    pub(crate) fn lock(&self) -> Result<Option<Locked<'_>>> {
        for _ in 0..SPINS {
            match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(Locked(self))),
                Err(Errno::WOULDBLOCK) => std::thread::yield_now(),
                Err(Errno::INTR) => {}
                Err(error) => return Err(io_error("lock the ledger", &self.path, error)),
            }
        }
        Ok(None)
    }

    /// Whether its path still leads to it.
    pub(crate) fn is_current(&self) -> bool {
        life::is_at(&self.path, self.identity)
    }

    /// What it holds. Under [`lock`](Self::lock) that is the truth; without, it may have to be asked again.
    ///
    /// `capacity` is for a ledger without content yet, `boot` tells the present boot of the machine.
    pub(crate) fn read(&self, name: Option<&Name>, capacity: u32, boot: u64) -> Result<Option<Content>> {
        let failed = |error| io_error("read the ledger", &self.path, error);
        let mut page = [0; PAGE];
        let len = self.file.read_at(&mut page, 0).map_err(failed)?;
        if len == 0 {
            return Ok(name.map(|name| Content { header: None, state: State::new(name.clone(), capacity) }));
        }
        let header = Header::decode(&page[..len]).map_err(|flaw| self.refuse(flaw))?;
        if len < PAGE {
            return Err(self.refuse(Flaw::Damaged("it is cut short")));
        }
        let body = if header.is_inline() {
            codec::decode_body(&header, &page[HEADER..HEADER + header.body_len])
        } else {
            let mut body = vec![0; header.body_len];
            match self.file.read_exact_at(&mut body, header.body_at) {
                Err(error) if error.kind() == IoKind::UnexpectedEof => Err(Flaw::Damaged("it is cut short")),
                read => read.map_err(failed).map(|()| codec::decode_body(&header, &body))?,
            }
        };
        let state = match (body, name) {
            (Ok(state), Some(name)) if state.name != *name => {
                let other = format!("is the ledger of another name, {:?}", state.name);
                return Err(corrupt("the ledger", &self.path, &other));
            }
            (Ok(state), _) => state,
            // Written before the machine went down, and only partly on disk. Nobody in it can have survived that;
            // what counts, the mark of the fences, is in the header.
            (Err(_), Some(name)) if header.boot != boot => {
                State { last: header.last, ..State::new(name.clone(), capacity) }
            }
            (Err(_), None) if header.boot != boot => return Ok(None),
            (Err(flaw), _) => return Err(self.refuse(flaw)),
        };
        Ok(Some(Content { header: Some(header), state }))
    }

    fn refuse(&self, flaw: Flaw) -> Error {
        match flaw {
            Flaw::Foreign => corrupt("the ledger", &self.path, "is not one of bramah's"),
            Flaw::Newer(found) => newer("the ledger", &self.path, found, codec::VERSION),
            Flaw::Damaged(how) => corrupt("the ledger", &self.path, &format!("is damaged ({how})")),
        }
    }
}

impl Locked<'_> {
    /// Replaces the content. A process killed at any point of this leaves the old content or the new one: what fits
    /// the first page is one write within it; what does not goes beside the old body, and one small write of the
    /// header switches over.
    pub(crate) fn write(&self, content: &Content, boot: u64) -> Result<()> {
        let ledger = self.0;
        let failed = |error| io_error("write the ledger", &ledger.path, error);
        let body = codec::encode_body(&content.state);
        let old = content.header;
        if body.len() > MAX_BODY {
            let why = "too many claims stand in line; wait for some to leave";
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("cannot enter {}: {why}", content.state.name),
            ));
        }
        let sequence = old.map_or(1, |header| header.sequence.wrapping_add(1));
        let last = content.state.last;
        let inline = HEADER + body.len() <= PAGE;
        if old.is_none() {
            // The first page is written whole once, so that no later write within it can run out of space half-way.
            let mut page = vec![0; PAGE];
            let first = if inline { &body[..] } else { &codec::encode_body(&empty(&content.state)) };
            page[..HEADER].copy_from_slice(&Header::of(first, HEADER as u64, sequence, last, boot).encode());
            page[HEADER..HEADER + first.len()].copy_from_slice(first);
            if let Err(error) = ledger.file.write_all_at(&page, 0) {
                // A new ledger is an empty file again; that nobody can have relied on.
                let _ = ledger.file.set_len(0);
                return Err(failed(error));
            }
        } else if inline {
            let mut page = Vec::with_capacity(HEADER + body.len());
            page.extend(Header::of(&body, HEADER as u64, sequence, last, boot).encode());
            page.extend(&body);
            ledger.file.write_all_at(&page, 0).map_err(failed)?;
            if old.is_some_and(|header| !header.is_inline()) {
                // The long body is free now; a failure to give it back costs only space.
                let _ = ledger.file.set_len(PAGE as u64);
            }
        }
        if !inline {
            let at = free_place(old.as_ref(), body.len());
            ledger.file.write_all_at(&body, at).map_err(failed)?;
            let header = Header::of(&body, at, sequence.wrapping_add(1), last, boot);
            ledger.file.write_all_at(&header.encode(), 0).map_err(failed)?;
        }
        Ok(())
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Fails only for a bad descriptor, which would have closed the lock with it.
        let _ = flock(&self.0.file, FlockOperation::Unlock);
    }
}

fn empty(state: &State) -> State {
    State { last: state.last, ..State::new(state.name.clone(), state.line.capacity()) }
}

/// Where a long body can go without touching the current one: before it if it fits, else behind it.
fn free_place(old: Option<&Header>, len: usize) -> u64 {
    let page = PAGE as u64;
    match old {
        Some(old) if !old.is_inline() && page + len as u64 > old.body_at => {
            (old.body_at + old.body_len as u64).next_multiple_of(page)
        }
        _ => page,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        samples::{Scratch, claim},
        state::Stamp,
    };

    const STAMP: Stamp = Stamp { now_ns: 1, wall_us: 10 };

    fn name() -> Name {
        Name::new("a").unwrap()
    }

    fn read(ledger: &Ledger) -> Content {
        ledger.read(Some(&name()), 1, 5).unwrap().unwrap()
    }

    #[test]
    fn a_line_may_outgrow_the_first_page_and_come_back() {
        let dir = Scratch::new();
        let ledger = Ledger::open(&dir.0.join("a"), true).unwrap().unwrap();
        let mut sizes = Vec::new();
        for round in 0..3u64 {
            for seq in 0..200 {
                let mut content = read(&ledger);
                content.state.enter(&claim("a", round * 1_000 + seq, 1, 1), 3, STAMP);
                ledger.lock().unwrap().unwrap().write(&content, 5).unwrap();
            }
            assert_eq!(read(&ledger).state.line.len(), 200);
            sizes.push(ledger.file.metadata().unwrap().len());
            for left in (0..200).rev() {
                let mut content = read(&ledger);
                content.state.line.remove(0);
                ledger.lock().unwrap().unwrap().write(&content, 5).unwrap();
                assert_eq!(read(&ledger).state.line.len(), left);
            }
            assert_eq!(ledger.file.metadata().unwrap().len(), PAGE as u64);
        }
        assert!(sizes.iter().all(|size| *size < 100_000), "{sizes:?}");
    }

    #[test]
    fn a_long_body_never_overlaps_the_current_one() {
        let mut old = Header::of(&[], HEADER as u64, 0, None, 0);
        for len in [5_000usize, 6_000, 4_100, 9_000, 30_000, 4_100, 5_000] {
            let at = free_place(Some(&old), len);
            let (start, end) = (old.body_at, old.body_at + old.body_len as u64);
            assert!(at >= PAGE as u64 && (old.is_inline() || at + len as u64 <= start || at >= end));
            old = Header::of(&vec![0; len], at, 0, None, 0);
        }
    }

    #[test]
    fn a_body_lost_with_the_machine_leaves_the_mark_and_an_empty_line() {
        let dir = Scratch::new();
        let ledger = Ledger::open(&dir.0.join("a"), true).unwrap().unwrap();
        let mut content = read(&ledger);
        content.state.enter(&claim("a", 1, 1, 1), 3, STAMP);
        ledger.lock().unwrap().unwrap().write(&content, 5).unwrap();
        ledger.file.write_all_at(b"xxxx", HEADER as u64).unwrap();
        let after = ledger.read(Some(&name()), 1, 6).unwrap().unwrap().state;
        assert_eq!((after.line.len(), after.last), (0, content.state.last));
        assert_eq!(ledger.read(Some(&name()), 1, 5).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn a_ledger_that_was_moved_away_is_not_current() {
        let dir = Scratch::new();
        let path = dir.0.join("a");
        let ledger = Ledger::open(&path, true).unwrap().unwrap();
        assert!(ledger.is_current());
        std::fs::rename(&path, dir.0.join("b")).unwrap();
        assert!(!ledger.is_current());
        let _other = Ledger::open(&path, true).unwrap().unwrap();
        assert!(!ledger.is_current());
    }
}
