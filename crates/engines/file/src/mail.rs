//! The mailbox of a session: whoever grants a claim of another process says so here.
//!
//! Letters of 32 bytes, appended. Only the owner reads, watches and truncates its own mailbox, so a hand-over wakes
//! one process and not everyone in line. A letter is never the only news: who misses one asks the ledger.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use bramah_core::{Fence, Result, Woken};
use rustix::fs::{FlockOperation, flock};

use crate::{codec::sum, error::io_error};

const LETTER: usize = 32;
const MAGIC: u32 = 0x3142_4d4c;
/// The mailbox is emptied once it is this long.
const FULL: u64 = 4096;

/// A session's own mailbox.
#[derive(Debug)]
pub(crate) struct Mailbox {
    file: File,
    path: PathBuf,
    read: u64,
}

impl Mailbox {
    /// Makes the mailbox, or opens the one that is there (a detached session's, from another process).
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
        Ok(Self {
            file: file.map_err(|error| io_error("open the mailbox", path, error))?,
            path: path.into(),
            read: 0,
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The letters that came since the last time: claim and news. `None` when what came is not readable, which
    /// tells nobody anything: then everyone should ask.
    pub(crate) fn collect(&mut self) -> Option<Vec<(u64, Woken)>> {
        let mut letters = Some(Vec::new());
        self.read_on(&mut letters);
        // An empty mailbox under the exclusive lock stays one until the lock is given back: no letter is lost.
        if self.read >= FULL && flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            self.read_on(&mut letters);
            if self.file.set_len(0).is_ok() {
                self.read = 0;
            }
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
        letters
    }

    fn read_on(&mut self, letters: &mut Option<Vec<(u64, Woken)>>) {
        let mut buffer = [0; 64 * LETTER];
        loop {
            let len = self.file.read_at(&mut buffer, self.read).unwrap_or(0);
            let whole = len - len % LETTER;
            for letter in buffer[..whole].chunks_exact(LETTER) {
                match (decode(letter), letters.as_mut()) {
                    (Some(letter), Some(letters)) => letters.push(letter),
                    _ => *letters = None,
                }
            }
            self.read += whole as u64;
            if whole < buffer.len() {
                return;
            }
        }
    }
}

/// Puts a letter into another session's mailbox. A mailbox that is absent or stays locked (its owner was stopped
/// while it emptied it) is left alone: its owner asks by itself.
pub(crate) fn send(path: &Path, seq: u64, woken: Woken) {
    let Ok(file) = OpenOptions::new().append(true).open(path) else { return };
    for _ in 0..20 {
        if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
            // Lost on a full disk; the owner asks by itself.
            let _ = std::io::Write::write_all(&mut &file, &encode(seq, woken));
            return;
        }
        std::thread::yield_now();
    }
}

fn encode(seq: u64, woken: Woken) -> [u8; LETTER] {
    let (kind, fence): (u32, u64) = match woken {
        Woken::Ask => (0, 0),
        Woken::Held(None) => (1, 0),
        Woken::Held(Some(fence)) => (2, fence.get()),
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

fn decode(bytes: &[u8]) -> Option<(u64, Woken)> {
    let word = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    if word(24)? != sum(bytes.get(..24)?) || word(0)? & u64::from(u32::MAX) != u64::from(MAGIC) {
        return None;
    }
    let woken = match word(0)? >> 32 {
        0 => Woken::Ask,
        1 => Woken::Held(None),
        2 => Woken::Held(Some(Fence::new(word(16)?))),
        _ => return None,
    };
    Some((word(8)?, woken))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::samples::Scratch;

    #[test]
    fn letters_arrive_in_order_and_the_mailbox_does_not_grow() {
        let dir = Scratch::new();
        let path = dir.0.join("x.mail");
        send(&path, 1, Woken::Ask);
        assert!(!path.exists(), "nobody makes a mailbox but its owner");
        let mut mailbox = Mailbox::open(&path).unwrap();
        for round in 0..100 {
            let sent: Vec<_> = (0..70).map(|seq| (seq, Woken::Held(Some(Fence::new(round))))).collect();
            for (seq, woken) in &sent {
                send(&path, *seq, *woken);
            }
            assert_eq!(mailbox.collect(), Some(sent));
            assert_eq!(mailbox.collect(), Some(Vec::new()));
            assert!(path.metadata().unwrap().len() <= FULL + 70 * LETTER as u64);
        }
    }

    #[test]
    fn a_damaged_letter_makes_everyone_ask_and_the_next_ones_are_read() {
        let dir = Scratch::new();
        let path = dir.0.join("x.mail");
        let mut mailbox = Mailbox::open(&path).unwrap();
        std::fs::write(&path, [7; LETTER]).unwrap();
        assert_eq!(mailbox.collect(), None);
        send(&path, 3, Woken::Ask);
        assert_eq!(mailbox.collect(), Some(vec![(3, Woken::Ask)]));
    }

    proptest! {
        #[test]
        fn a_letter_is_read_back_and_a_flipped_bit_refused(seq: u64, fence: Option<u64>, bit in 0..LETTER * 8) {
            let woken = Woken::Held(fence.map(Fence::new));
            let mut bytes = encode(seq, woken);
            prop_assert_eq!(decode(&bytes), Some((seq, woken)));
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(decode(&bytes), None);
        }
    }
}
