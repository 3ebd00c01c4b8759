//! The mailbox of a session, a named pipe: whoever grants a claim of another process says so here.
//!
//! Letters of 32 bytes, one write each, so that they never mix. Only the owner reads, so a hand-over wakes one process
//! and not everyone in line. A letter is never the only news: who misses one asks the ledger.
//!
//! The same pipe tells of the session's end. Its owner keeps it open for reading and writing; whoever waits for the end
//! opens it for reading only, never reads, and hears from the kernel when the last copy of the owner's is closed.

use std::{
    fs::File,
    io::{ErrorKind, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::FileTypeExt,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use bramah_core::{Fence, Woken};
use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock, open},
    io::Errno,
};

use crate::{codec::sum, life};

/// What a letter says of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// To who waits by it, or to its holder: somebody may have broken its hold.
    Woken(Woken),
    /// To its holder: somebody asks it to let go.
    Asked,
}

impl From<Woken> for News {
    fn from(woken: Woken) -> Self {
        Self::Woken(woken)
    }
}

const LETTER: usize = 32;
const MAGIC: u32 = 0x3142_4d4c;
/// No pipe holds less. When so much had come at once, more may have been dropped.
const FULL: usize = 4096;
/// How often the mailbox is read before others get the thread.
const READS: usize = 16;

/// A session's own mailbox.
#[derive(Debug)]
pub(crate) struct Mailbox {
    /// With an exclusive flock, which says that this process reads it and that its end will be heard.
    pipe: File,
    path: PathBuf,
    identity: (u64, u64),
}

impl Mailbox {
    /// Makes the pipe, or takes the one of a detached session that nobody reads any more. `None` where that cannot
    /// be: another process reads it, something else lies in its place, the file system has no pipes.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        let found = match make(path) {
            Ok(()) => false,
            Err(Errno::EXIST) => true,
            Err(_) => return None,
        };
        let pipe = open_pipe(path, OFlags::RDWR)?;
        if !take(&pipe) {
            return None;
        }
        let mailbox = Self { identity: life::identity(&pipe).ok()?, pipe, path: path.into() };
        if found {
            // Letters to whoever read it before.
            let _ = mailbox.collect();
        }
        Some(mailbox)
    }

    /// Whether letters still come here: somebody may have removed it, or put something else in its place.
    pub(crate) fn is_in_place(&self) -> bool {
        life::is_at(&self.path, self.identity)
    }

    /// The letters that came since the last time: claim and news. `None` when some were not readable or may have
    /// been dropped, which tells nobody anything: then everyone should ask.
    ///
    /// # Errors
    /// What a pipe never says; it is not to be read again.
    pub(crate) fn collect(&self) -> std::io::Result<Option<Vec<(u64, News)>>> {
        let mut letters = Some(Vec::new());
        let mut buffer = [0; FULL];
        for _ in 0..READS {
            let len = match (&self.pipe).read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            for letter in buffer[..len].chunks(LETTER) {
                match (decode(letter), letters.as_mut()) {
                    (Some(letter), Some(letters)) => letters.push(letter),
                    _ => letters = None,
                }
            }
            if len < FULL {
                break;
            }
            letters = None;
        }
        Ok(letters)
    }

    /// A copy that keeps it open, wherever the copy is.
    pub(crate) fn copy(&self) -> Option<OwnedFd> {
        self.pipe.try_clone().map(OwnedFd::from).ok()
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

/// Takes the flock of a mailbox, unless another process reads it. Whoever [attends](attend) to one without an owner has
/// a shared flock on it for a moment.
fn take(pipe: &File) -> bool {
    for _ in 0..50 {
        if flock(pipe, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return true;
        }
        if flock(pipe, FlockOperation::NonBlockingLockShared).is_err() {
            return false;
        }
        let _ = flock(pipe, FlockOperation::Unlock);
        std::thread::sleep(Duration::from_micros(100));
    }
    false
}

/// Puts a letter into another session's mailbox. One that is absent, full or not a pipe is left alone: its owner asks
/// by itself.
pub(crate) fn send(path: &Path, seq: u64, news: impl Into<News>) {
    // Open for reading too: a pipe whose last reader has just died would end us with SIGPIPE.
    if let Some(mut pipe) = open_pipe(path, OFlags::RDWR) {
        let _ = pipe.write(&encode(seq, news.into()));
    }
}

/// The end of a mailbox at which the kernel says `HUP` once its owner has ended. `None` if it has no owner now: that
/// would never be told.
pub(crate) fn attend(path: &Path) -> Option<OwnedFd> {
    let pipe = open_pipe(path, OFlags::RDONLY)?;
    match flock(&pipe, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Some(pipe.into()),
        _ => None,
    }
}

/// Opens a pipe and nothing else, and never waits for its other end.
fn open_pipe(path: &Path, access: OFlags) -> Option<File> {
    let flags = access | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty()).ok()?);
    file.metadata().is_ok_and(|found| found.file_type().is_fifo()).then_some(file)
}

#[cfg(target_os = "linux")]
fn make(path: &Path) -> rustix::io::Result<()> {
    use rustix::fs::{CWD, FileType, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
}

#[cfg(not(target_os = "linux"))]
fn make(_: &Path) -> rustix::io::Result<()> {
    Err(Errno::NOTSUP)
}

fn encode(seq: u64, news: News) -> [u8; LETTER] {
    let (kind, fence): (u32, u64) = match news {
        News::Woken(Woken::Ask) => (0, 0),
        News::Woken(Woken::Held(None)) => (1, 0),
        News::Woken(Woken::Held(Some(fence))) => (2, fence.get()),
        // Earlier versions cannot read it, and have everyone ask.
        News::Asked => (3, 0),
    };
    let mut out = [0; LETTER];
    out[..4].copy_from_slice(&MAGIC.to_le_bytes());
    out[4..8].copy_from_slice(&kind.to_le_bytes());
    out[8..16].copy_from_slice(&seq.to_le_bytes());
    out[16..24].copy_from_slice(&fence.to_le_bytes());
    let check = sum(&out[..24]);
    out[24..].copy_from_slice(&check.to_le_bytes());
    out
}

fn decode(bytes: &[u8]) -> Option<(u64, News)> {
    let word = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    if word(24)? != sum(bytes.get(..24)?) || word(0)? & u64::from(u32::MAX) != u64::from(MAGIC) {
        return None;
    }
    let news = match word(0)? >> 32 {
        0 => News::Woken(Woken::Ask),
        1 => News::Woken(Woken::Held(None)),
        2 => News::Woken(Woken::Held(Some(Fence::new(word(16)?)))),
        3 => News::Asked,
        _ => return None,
    };
    Some((word(8)?, news))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::{io, os::unix::fs::symlink};

    use proptest::prelude::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use crate::samples::Scratch;

    fn came(mailbox: &Mailbox) -> Option<Vec<(u64, News)>> {
        mailbox.collect().unwrap()
    }

    /// Writes as somebody would who does not mean well.
    fn put(path: &Path, bytes: &[u8]) -> io::Result<usize> {
        open_pipe(path, OFlags::WRONLY).unwrap().write(bytes)
    }

    fn has_hung_up(end: &OwnedFd) -> bool {
        let mut ends = [PollFd::new(end, PollFlags::empty())];
        poll(&mut ends, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
        ends[0].revents().contains(PollFlags::HUP)
    }

    #[test]
    fn letters_arrive_in_order() {
        let dir = Scratch::new();
        let path = dir.0.join("x.mail");
        send(&path, 1, Woken::Ask);
        assert!(!path.exists(), "nobody makes a mailbox but its owner");
        let mailbox = Mailbox::open(&path).unwrap();
        for round in 0..100 {
            let sent: Vec<_> =
                (0..70).map(|seq| (seq, News::Woken(Woken::Held(Some(Fence::new(round)))))).collect();
            for (seq, news) in &sent {
                send(&path, *seq, *news);
            }
            assert_eq!(came(&mailbox), Some(sent));
            assert_eq!(came(&mailbox), Some(Vec::new()));
        }
    }

    #[test]
    fn what_is_no_letter_makes_everyone_ask_and_the_next_ones_are_read() {
        let dir = Scratch::new();
        let path = dir.0.join("x.mail");
        let mailbox = Mailbox::open(&path).unwrap();
        for foreign in [&[7; LETTER][..], &[7; 5], &[7; LETTER + 5]] {
            put(&path, foreign).unwrap();
            assert_eq!(came(&mailbox), None);
            send(&path, 3, Woken::Ask);
            assert_eq!(came(&mailbox), Some(vec![(3, News::Woken(Woken::Ask))]));
        }
    }

    #[test]
    fn a_full_mailbox_holds_nobody_up_and_makes_everyone_ask() {
        let dir = Scratch::new();
        let path = dir.0.join("x.mail");
        let mailbox = Mailbox::open(&path).unwrap();
        while put(&path, &encode(1, News::Asked)).is_ok() {}
        send(&path, 2, Woken::Ask);
        assert_eq!(came(&mailbox), None, "one was dropped, so it must not look complete");
        send(&path, 3, Woken::Ask);
        assert_eq!(came(&mailbox), Some(vec![(3, News::Woken(Woken::Ask))]));
    }

    #[test]
    fn something_else_in_its_place_is_neither_written_nor_waited_for() {
        let dir = Scratch::new();
        let (path, other) = (dir.0.join("x.mail"), dir.0.join("other"));
        let stays_away = |path: &Path| {
            send(path, 1, Woken::Ask);
            Mailbox::open(path).is_none() && attend(path).is_none()
        };
        std::fs::write(&path, "precious").unwrap();
        assert!(stays_away(&path));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(stays_away(&path));
        std::fs::remove_dir(&path).unwrap();
        let theirs = Mailbox::open(&other).unwrap();
        symlink(&other, &path).unwrap();
        assert!(stays_away(&path) && came(&theirs) == Some(Vec::new()));
    }

    #[test]
    fn only_one_reads_and_the_next_begins_with_an_empty_one() {
        let dir = Scratch::new();
        let path = dir.0.join("x.mail");
        let first = Mailbox::open(&path).unwrap();
        assert!(Mailbox::open(&path).is_none());
        let _end = attend(&path).unwrap();
        send(&path, 1, Woken::Ask);
        drop(first);
        let second = Mailbox::open(&path).unwrap();
        assert_eq!(came(&second), Some(Vec::new()));
        assert!(second.is_in_place());
        std::fs::remove_file(&path).unwrap();
        assert!(!second.is_in_place());
    }

    #[test]
    fn the_end_is_told_when_the_last_copy_is_closed_and_without_an_owner_never() {
        let dir = Scratch::new();
        let path = dir.0.join("x.mail");
        assert!(attend(&path).is_none());
        let mailbox = Mailbox::open(&path).unwrap();
        let copy = mailbox.copy().unwrap();
        let (one, two) = (attend(&path).unwrap(), attend(&path).unwrap());
        send(&path, 1, Woken::Ask);
        drop(mailbox);
        send(&path, 2, Woken::Ask);
        assert!(!has_hung_up(&one) && !has_hung_up(&two));
        drop(copy);
        assert!(has_hung_up(&one) && has_hung_up(&two));
        assert!(attend(&path).is_none(), "nobody would tell");
    }

    proptest! {
        #[test]
        fn a_letter_is_read_back_and_a_flipped_bit_refused(
            seq: u64,
            asked: bool,
            fence: Option<u64>,
            bit in 0..LETTER * 8,
        ) {
            let news = if asked { News::Asked } else { Woken::Held(fence.map(Fence::new)).into() };
            let mut bytes = encode(seq, news);
            prop_assert_eq!(decode(&bytes), Some((seq, news)));
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(decode(&bytes), None);
        }
    }
}
