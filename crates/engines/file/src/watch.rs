//! Being told by the kernel: one thread for all that wait in this process.
//!
//! The thread starts with the first waiter and ends with the engine. It knows pipes and bells, nothing of ledgers.

use std::{
    collections::{HashMap, HashSet},
    mem::MaybeUninit,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah_core::Woken;
use rustix::{
    event::{EventfdFlags, epoll, eventfd},
    io::Errno,
};

pub(crate) use crate::notify::Sign;
use crate::{
    bells::{Bells, Ear, Recipient},
    life,
    mail::{self, Mailbox, News},
    notify::Notify,
};

/// What the kernel gives back with an event. Everything else has a number of its own.
const STOP: u64 = 0;
const LEDGERS: u64 = 1;

/// The watching of one engine. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct Watcher(Arc<Post>);

/// What the thread and the engine share.
#[derive(Debug)]
struct Post {
    epoll: OwnedFd,
    /// Wakes the thread, to end it.
    stop: OwnedFd,
    stopped: AtomicBool,
    watches: Mutex<Watches>,
    /// Started with the first look that is to be told of changes; `None` in it where a user has no more of them.
    notify: OnceLock<Option<Notify>>,
    bells: Arc<Bells>,
}

#[derive(Debug, Default)]
struct Watches {
    by_number: HashMap<u64, Watch>,
    /// The numbers of those on sessions, by the session's file.
    lives: HashMap<PathBuf, u64>,
    made: u64,
    /// How many sessions there were after the last time that the idle ones were let go.
    kept: usize,
}

#[derive(Debug)]
enum Watch {
    /// Ring these once the session has ended.
    Life { session: PathBuf, end: OwnedFd, ears: HashSet<Ear> },
    /// Read this one's letters.
    Mail { session: Arc<Recipient>, mailbox: Arc<Mailbox> },
}

impl Watcher {
    /// Starts the thread.
    pub(crate) fn start(bells: Arc<Bells>) -> std::io::Result<Self> {
        let post = Arc::new(Post {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            stopped: AtomicBool::new(false),
            watches: Mutex::default(),
            notify: OnceLock::new(),
            bells,
        });
        let number = epoll::EventData::new_u64(STOP);
        epoll::add(&post.epoll, &post.stop, number, epoll::EventFlags::IN)?;
        let thread = Arc::clone(&post);
        std::thread::Builder::new().name("bramah-file".into()).spawn(move || thread.run())?;
        Ok(Self(post))
    }

    /// Rings `ear` when the session of that file and mailbox ends. Whether the kernel will tell.
    pub(crate) fn death(&self, session: &Path, mail: &Path, ear: Ear) -> bool {
        let mut watches = self.0.watches();
        let known = watches.lives.get(session).copied();
        if let Some(Watch::Life { ears, .. }) = known.and_then(|number| watches.by_number.get_mut(&number)) {
            ears.insert(ear);
            return true;
        }
        self.0.sweep(&mut watches);
        let Some(end) = mail::attend(mail) else { return false };
        let number = watches.number();
        let data = epoll::EventData::new_u64(number);
        // Once: whoever shares the descriptor after a fork would have it told again and again.
        if epoll::add(&self.0.epoll, &end, data, epoll::EventFlags::HUP | epoll::EventFlags::ONESHOT).is_err()
        {
            return false;
        }
        let watch = Watch::Life { session: session.into(), end, ears: HashSet::from([ear]) };
        watches.by_number.insert(number, watch);
        watches.lives.insert(session.into(), number);
        true
    }

    /// Reads `mailbox` whenever a letter comes, until [`forget`](Self::forget). Whether the kernel will tell.
    pub(crate) fn deliver(&self, session: Arc<Recipient>, mailbox: Arc<Mailbox>) -> Option<u64> {
        let mut watches = self.0.watches();
        let number = watches.number();
        let data = epoll::EventData::new_u64(number);
        epoll::add(&self.0.epoll, &*mailbox, data, epoll::EventFlags::IN).ok()?;
        watches.by_number.insert(number, Watch::Mail { session, mailbox });
        Some(number)
    }

    /// Reads a mailbox no more.
    pub(crate) fn forget(&self, number: u64) {
        let watch = self.0.watches().by_number.remove(&number);
        self.0.end(watch);
    }

    /// Rings `ear` at the next `sign` of `path`. Whether the kernel will tell.
    pub(crate) fn change(&self, path: &Path, sign: Sign, ear: Ear) -> bool {
        let start = || {
            let notify = Notify::new().ok()?;
            let number = epoll::EventData::new_u64(LEDGERS);
            epoll::add(&self.0.epoll, &notify, number, epoll::EventFlags::IN).ok()?;
            Some(notify)
        };
        let notify = self.0.notify.get_or_init(start).as_ref();
        notify.is_some_and(|notify| notify.once(path, sign, ear, &self.0.bells))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.stopped.store(true, Ordering::Release);
        // Cannot fail: the counter is far from full.
        let _ = rustix::io::write(&self.0.stop, &1u64.to_ne_bytes());
        // Not when the thread gets to it: an open mailbox keeps its session's end from being heard.
        *self.0.watches() = Watches::default();
    }
}

impl Watches {
    fn number(&mut self) -> u64 {
        self.made += 1;
        LEDGERS + self.made
    }
}

impl Post {
    fn run(&self) {
        let mut buffer = [MaybeUninit::uninit(); 32];
        while !self.stopped.load(Ordering::Acquire) {
            match epoll::wait(&self.epoll, &mut buffer, None) {
                Ok((events, _)) => events.iter().for_each(|event| self.handle(event.data.u64())),
                Err(Errno::INTR) => {}
                // Out of memory for a moment; without a pause this would spin.
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        self.bells.ring_all();
    }

    fn handle(&self, number: u64) {
        match number {
            STOP => return,
            LEDGERS => {
                if let Some(Some(notify)) = self.notify.get() {
                    notify.collect(&self.bells);
                }
                return;
            }
            _ => {}
        }
        let mut watches = self.watches();
        if let Some(Watch::Mail { session, mailbox }) = watches.by_number.get(&number) {
            let (session, mailbox) = (Arc::clone(session), Arc::clone(mailbox));
            drop(watches);
            return self.read(number, &session, &mailbox);
        }
        let watch = watches.by_number.remove(&number);
        if let Some(Watch::Life { session, .. }) = &watch {
            watches.lives.remove(session);
        }
        drop(watches);
        if let Some(Watch::Life { session, end, ears }) = watch {
            drop(end);
            settle(|| life::is_locked(&session));
            for ear in ears {
                self.bells.ring(ear, Woken::Ask);
            }
        }
    }

    fn read(&self, number: u64, session: &Recipient, mailbox: &Mailbox) {
        match mailbox.collect() {
            Ok(Some(letters)) => {
                for (seq, news) in letters {
                    match news {
                        News::Woken(woken) => session.tell(seq, woken, &self.bells),
                        News::Asked => session.ask(seq),
                    }
                }
            }
            Ok(None) => self.bells.ring_all(),
            Err(_) => {
                let watch = self.watches().by_number.remove(&number);
                self.end(watch);
                self.bells.ring_all();
            }
        }
    }

    /// Closing is not enough where a copy of the descriptor lives on.
    fn end(&self, watch: Option<Watch>) {
        let _ = match watch {
            Some(Watch::Life { end, .. }) => epoll::delete(&self.epoll, end),
            Some(Watch::Mail { mailbox, .. }) => epoll::delete(&self.epoll, &*mailbox),
            None => Ok(()),
        };
    }

    /// Lets go of sessions whose end nobody listens for any more: their waiters gave up, or hold.
    fn sweep(&self, watches: &mut Watches) {
        if watches.lives.len() <= 8 + 2 * watches.kept {
            return;
        }
        let Watches { by_number, lives, kept, .. } = watches;
        lives.retain(|_, number| {
            let Some(Watch::Life { ears, .. }) = by_number.get_mut(number) else { return false };
            ears.retain(|ear| self.bells.hears(*ear));
            let listened = !ears.is_empty();
            if !listened {
                self.end(by_number.remove(number));
            }
            listened
        });
        *kept = lives.len();
    }

    fn watches(&self) -> MutexGuard<'_, Watches> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process that dies closes its pipe a moment before it gives its flock back, or after: whoever looked in between
/// would find the dead alive.
fn settle(mut is_locked: impl FnMut() -> bool) {
    for _ in 0..50 {
        if !is_locked() {
            return;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[cfg(test)]
mod tests {
    use bramah_core::{Alarm, SessionId};

    use super::*;
    use crate::samples::Scratch;

    fn recipient() -> Arc<Recipient> {
        Arc::new(Recipient { session: SessionId::from_bits(1), alarm: Alarm::none() })
    }

    #[test]
    fn a_death_is_told_once_the_flock_is_gone_and_a_lasting_one_after_a_moment() {
        let mut looks = 0;
        settle(|| {
            looks += 1;
            looks < 7
        });
        assert_eq!(looks, 7);
        settle(|| true);
    }

    #[tokio::test]
    async fn a_death_is_told_to_all_who_listen_and_to_nobody_where_there_is_no_owner() {
        let dir = Scratch::new();
        let (session, mail) = (dir.0.join("s"), dir.0.join("s.mail"));
        let bells = Arc::new(Bells::default());
        let watcher = Watcher::start(Arc::clone(&bells)).unwrap();
        let (one, two) = (bells.survey(), bells.survey());
        let (first, second) = (bells.hang(one), bells.hang(two));
        assert!(!watcher.death(&session, &mail, one), "no mailbox");
        let mailbox = Mailbox::open(&mail).unwrap();
        assert!(watcher.death(&session, &mail, one) && watcher.death(&session, &mail, two));
        assert_eq!(watcher.0.watches().by_number.len(), 1);
        drop(mailbox);
        assert_eq!((first.await, second.await), (Woken::Ask, Woken::Ask));
        assert!(!watcher.death(&session, &mail, one), "no owner");
        assert!(watcher.0.watches().by_number.is_empty() && watcher.0.watches().lives.is_empty());
    }

    #[test]
    fn sessions_whose_end_nobody_waits_for_are_let_go() {
        let dir = Scratch::new();
        let bells = Arc::new(Bells::default());
        let watcher = Watcher::start(Arc::clone(&bells)).unwrap();
        let mut owners = Vec::new();
        let listened = bells.survey();
        let _wake = bells.hang(listened);
        for number in 0..200 {
            let mail = dir.0.join(format!("{number}.mail"));
            owners.push(Mailbox::open(&mail).unwrap());
            let ear = if number == 0 { listened } else { bells.survey() };
            assert!(watcher.death(&dir.0.join(number.to_string()), &mail, ear));
        }
        let watches = watcher.0.watches();
        assert!(watches.by_number.len() < 20 && watches.by_number.len() == watches.lives.len());
        assert!(watches.lives.contains_key(&dir.0.join("0")));
    }

    #[test]
    fn a_mailbox_that_is_read_no_more_can_be_read_again() {
        let dir = Scratch::new();
        let watcher = Watcher::start(Arc::default()).unwrap();
        let mailbox = Arc::new(Mailbox::open(&dir.0.join("s.mail")).unwrap());
        let deliver = || watcher.deliver(recipient(), Arc::clone(&mailbox));
        watcher.forget(deliver().unwrap());
        assert!(deliver().is_some(), "the kernel would go on telling of it");
    }

    #[test]
    fn an_engine_that_ends_closes_the_mailboxes_it_reads() {
        let dir = Scratch::new();
        let mail = dir.0.join("s.mail");
        let watcher = Watcher::start(Arc::default()).unwrap();
        let mailbox = Arc::new(Mailbox::open(&mail).unwrap());
        assert!(watcher.deliver(recipient(), mailbox).is_some());
        assert!(mail::attend(&mail).is_some());
        drop(watcher);
        assert!(mail::attend(&mail).is_none());
    }
}
