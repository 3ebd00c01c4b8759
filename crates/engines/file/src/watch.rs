//! Being told by the kernel: one inotify descriptor and one thread for all that wait in this process.
//!
//! The thread starts with the first waiter and ends with the engine. It knows files and bells, nothing of ledgers.

use std::{
    collections::{HashMap, HashSet},
    mem::MaybeUninit,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah_core::{SessionId, Woken};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags},
    io::Errno,
};

use crate::{
    bells::{Bells, Ear},
    life,
    mail::Mailbox,
};

/// What is watched for, once: the first event ends the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// A session's end: its process closed the file by dying, or somebody removed it.
    Death,
    /// A ledger's next change.
    Change,
    /// The next change of anything in a directory.
    Stir,
}

impl Sign {
    fn flags(self) -> WatchFlags {
        WatchFlags::ONESHOT
            | match self {
                Self::Death => {
                    WatchFlags::CLOSE_WRITE
                        | WatchFlags::DELETE_SELF
                        | WatchFlags::ATTRIB
                        | WatchFlags::MOVE_SELF
                }
                Self::Change => WatchFlags::MODIFY | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF,
                Self::Stir => WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::DELETE,
            }
    }
}

/// The watching of one engine. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct Watcher(Arc<Post>);

/// What the thread and the engine share.
#[derive(Debug)]
struct Post {
    inotify: OwnedFd,
    /// Wakes the thread, to end it.
    stop: OwnedFd,
    stopped: AtomicBool,
    watches: Mutex<Watches>,
    bells: Arc<Bells>,
}

#[derive(Debug, Default)]
struct Watches {
    /// By the kernel's number of a watch. Numbers are not used again for a long time, so a late event of an ended
    /// watch finds nothing here.
    by_number: HashMap<i32, Watch>,
    /// How many there were after the last time that the idle ones were ended.
    kept: usize,
}

#[derive(Debug)]
enum Watch {
    /// Ring these on the sign; a session's path is kept to see that it has really ended.
    Once { ears: HashSet<Ear>, session: Option<PathBuf> },
    /// Read this one's letters.
    Mail { session: SessionId, mailbox: Mailbox },
}

impl Watcher {
    /// Starts the thread.
    pub(crate) fn start(bells: Arc<Bells>) -> std::io::Result<Self> {
        let post = Arc::new(Post {
            inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            stopped: AtomicBool::new(false),
            watches: Mutex::default(),
            bells,
        });
        let thread = Arc::clone(&post);
        std::thread::Builder::new().name("bramah-file".into()).spawn(move || thread.run())?;
        Ok(Self(post))
    }

    /// Rings `ear` at the next `sign` of `path`. Whether the kernel will tell; an absent file is told at once.
    pub(crate) fn once(&self, path: &Path, sign: Sign, ear: Ear) -> bool {
        let mut watches = self.0.watches();
        self.0.sweep(&mut watches);
        // Added and noted under one lock, so that the thread cannot see the event before the ear.
        match inotify::add_watch(&self.0.inotify, path, sign.flags()) {
            Ok(number) => {
                let session = (sign == Sign::Death).then(|| path.to_owned());
                let new = || Watch::Once { ears: HashSet::new(), session };
                if let Watch::Once { ears, .. } = watches.by_number.entry(number).or_insert_with(new) {
                    ears.insert(ear);
                }
                true
            }
            Err(Errno::NOENT) => {
                drop(watches);
                self.0.bells.ring(ear, Woken::Ask);
                true
            }
            Err(_) => false,
        }
    }

    /// Reads `mailbox` whenever a letter comes, until [`forget`](Self::forget). Whether the kernel will tell.
    pub(crate) fn deliver(&self, session: SessionId, mailbox: Mailbox) -> Option<i32> {
        let mut watches = self.0.watches();
        let number = inotify::add_watch(&self.0.inotify, mailbox.path(), WatchFlags::MODIFY).ok()?;
        watches.by_number.insert(number, Watch::Mail { session, mailbox });
        Some(number)
    }

    /// Ends the watch on a mailbox and closes it.
    pub(crate) fn forget(&self, number: i32) {
        if self.0.watches().by_number.remove(&number).is_some() {
            // It may have ended with its file.
            let _ = inotify::remove_watch(&self.0.inotify, number);
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.stopped.store(true, Ordering::Release);
        // Cannot fail: the counter is far from full.
        let _ = rustix::io::write(&self.0.stop, &1u64.to_ne_bytes());
    }
}

impl Post {
    fn run(&self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        while !self.stopped.load(Ordering::Acquire) {
            let mut ready =
                [PollFd::new(&self.inotify, PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN)];
            match poll(&mut ready, None) {
                Ok(_) | Err(Errno::INTR) => {}
                // Out of memory for a moment; without a pause this would spin.
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
            let mut events = Reader::new(&self.inotify, &mut buffer);
            while let Ok(event) = events.next() {
                let (number, flags) = (event.wd(), event.events());
                self.handle(number, flags);
            }
        }
        self.bells.ring_all();
    }

    fn handle(&self, number: i32, flags: ReadFlags) {
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            return self.bells.ring_all();
        }
        let mut watches = self.watches();
        match watches.by_number.get_mut(&number) {
            Some(Watch::Mail { session, mailbox }) => {
                let (session, letters) = (*session, mailbox.collect());
                if flags.contains(ReadFlags::IGNORED) {
                    watches.by_number.remove(&number);
                }
                drop(watches);
                let Some(letters) = letters else { return self.bells.ring_all() };
                for (seq, woken) in letters {
                    self.bells.ring(Ear::Claim(bramah_core::ClaimId { session, seq }), woken);
                }
            }
            Some(Watch::Once { .. }) => {
                let watch = watches.by_number.remove(&number);
                drop(watches);
                if let Some(Watch::Once { ears, session }) = watch {
                    if let Some(path) = session.filter(|_| flags.contains(ReadFlags::CLOSE_WRITE)) {
                        settle(&path);
                    }
                    ears.into_iter().for_each(|ear| self.bells.ring(ear, Woken::Ask));
                }
            }
            None => {}
        }
    }

    /// Ends watches that nobody listens to any more: those of waiters that gave up.
    fn sweep(&self, watches: &mut Watches) {
        if watches.by_number.len() <= 64 + 2 * watches.kept {
            return;
        }
        watches.by_number.retain(|number, watch| {
            let Watch::Once { ears, .. } = watch else { return true };
            ears.retain(|ear| self.bells.hears(*ear));
            if ears.is_empty() {
                let _ = inotify::remove_watch(&self.inotify, *number);
            }
            !ears.is_empty()
        });
        watches.kept = watches.by_number.len();
    }

    fn watches(&self) -> MutexGuard<'_, Watches> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kernel tells of the close a moment before it gives the flock back: whoever looked in between would find the
/// dead alive, and wait for the net.
fn settle(session: &Path) {
    for _ in 0..50 {
        if !life::is_locked(session) {
            return;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use rustix::fs::{FlockOperation, flock};

    use super::*;
    use crate::samples::Scratch;

    #[test]
    fn a_death_is_told_once_the_flock_is_gone_and_a_renewal_after_a_moment() {
        let dir = Scratch::new();
        let path = dir.0.join("s");
        std::fs::write(&path, "").unwrap();
        let (locked, is_locked) = mpsc::channel();
        let file = std::fs::File::open(&path).unwrap();
        let dying = std::thread::spawn(move || {
            flock(&file, FlockOperation::LockExclusive).unwrap();
            locked.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        });
        is_locked.recv().unwrap();
        settle(&path);
        assert!(!life::is_locked(&path));
        dying.join().unwrap();
        let keeper = std::fs::File::open(&path).unwrap();
        flock(&keeper, FlockOperation::LockExclusive).unwrap();
        settle(&path);
    }

    #[tokio::test]
    async fn watches_of_waiters_that_gave_up_are_ended() {
        let dir = Scratch::new();
        let bells = Arc::new(Bells::default());
        let watcher = Watcher::start(Arc::clone(&bells)).unwrap();
        for number in 0..1_000 {
            let path = dir.0.join(number.to_string());
            std::fs::write(&path, "").unwrap();
            let ear = bells.survey();
            drop(bells.hang(ear));
            assert!(watcher.once(&path, Sign::Death, ear));
        }
        assert!(watcher.0.watches().by_number.len() < 200);
        let ear = bells.survey();
        let wake = bells.hang(ear);
        assert!(watcher.once(&dir.0.join("absent"), Sign::Death, ear), "told at once");
        assert_eq!(wake.await, Woken::Ask);
    }
}
