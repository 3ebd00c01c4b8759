//! Being told of changes in ledgers: one inotify descriptor for all who look at lines.
//!
//! A user gets few of them (128 unless raised), so nobody who stands in line depends on one.

use std::{
    collections::{HashMap, HashSet},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bramah_core::Woken;
use rustix::{
    fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags},
    io::Errno,
};

use crate::bells::{Bells, Ear};

/// What is watched for, once: the first event ends the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// A ledger's next change.
    Change,
    /// The next change of anything in a directory.
    Stir,
}

impl Sign {
    fn flags(self) -> WatchFlags {
        WatchFlags::ONESHOT
            | match self {
                Self::Change => WatchFlags::MODIFY | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF,
                Self::Stir => WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::DELETE,
            }
    }
}

/// The watches on files.
#[derive(Debug)]
pub(crate) struct Notify {
    inotify: OwnedFd,
    watches: Mutex<Watches>,
}

#[derive(Debug, Default)]
struct Watches {
    /// Who is to be told, by the kernel's number of a watch. Numbers are not used again for a long time, so a late
    /// event of an ended watch finds nothing here.
    ears: HashMap<i32, HashSet<Ear>>,
    /// How many there were after the last time that the idle ones were ended.
    kept: usize,
}

impl Notify {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { inotify, watches: Mutex::default() })
    }

    /// Rings `ear` at the next `sign` of `path`. Whether the kernel will tell; an absent file is told at once.
    pub(crate) fn once(&self, path: &Path, sign: Sign, ear: Ear, bells: &Bells) -> bool {
        let mut watches = self.watches();
        self.sweep(&mut watches, bells);
        // Added and noted under one lock, so that the thread cannot see the event before the ear.
        match inotify::add_watch(&self.inotify, path, sign.flags()) {
            Ok(number) => {
                watches.ears.entry(number).or_default().insert(ear);
                true
            }
            Err(Errno::NOENT) => {
                drop(watches);
                bells.ring(ear, Woken::Ask);
                true
            }
            Err(_) => false,
        }
    }

    /// Rings for what has come.
    pub(crate) fn collect(&self, bells: &Bells) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(&self.inotify, &mut buffer);
        while let Ok(event) = events.next() {
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                bells.ring_all();
            }
            let ears = self.watches().ears.remove(&event.wd());
            for ear in ears.into_iter().flatten() {
                bells.ring(ear, Woken::Ask);
            }
        }
    }

    /// Ends watches that nobody listens to any more.
    fn sweep(&self, watches: &mut Watches, bells: &Bells) {
        if watches.ears.len() <= 64 + 2 * watches.kept {
            return;
        }
        watches.ears.retain(|number, ears| {
            ears.retain(|ear| bells.hears(*ear));
            if ears.is_empty() {
                let _ = inotify::remove_watch(&self.inotify, *number);
            }
            !ears.is_empty()
        });
        watches.kept = watches.ears.len();
    }

    fn watches(&self) -> MutexGuard<'_, Watches> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Notify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Scratch;

    #[tokio::test]
    async fn watches_of_those_who_gave_up_are_ended() {
        let dir = Scratch::new();
        let (bells, notify) = (Bells::default(), Notify::new().unwrap());
        for number in 0..1_000 {
            let path = dir.0.join(number.to_string());
            std::fs::write(&path, "").unwrap();
            let ear = bells.survey();
            drop(bells.hang(ear));
            assert!(notify.once(&path, Sign::Change, ear, &bells));
        }
        assert!(notify.watches().ears.len() < 200);
        let ear = bells.survey();
        let wake = bells.hang(ear);
        assert!(notify.once(&dir.0.join("absent"), Sign::Change, ear, &bells), "told at once");
        assert_eq!(wake.await, Woken::Ask);
    }
}
