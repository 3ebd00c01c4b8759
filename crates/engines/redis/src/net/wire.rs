//! What is known about one live connection, and who is told when it ends.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah_core::{Clock, Error, ErrorKind, Moment};
use bramah_remote::Office;
use redis::{PushInfo, PushKind, Value};

use super::{
    dial::Task,
    link::{Hub, Link},
    traffic::Traffic,
    within::nap,
};
use crate::driver::{Ear, Push};

/// One connection from its greeting to its end.
pub(super) struct Wire {
    /// Which of all connections of this process it is; never 0.
    id: u64,
    /// Which server, for errors.
    address: Arc<str>,
    ear: Weak<dyn Ear>,
    link: Weak<Link>,
    traffic: Arc<Traffic>,
    office: Office,
    clock: Clock,
    /// The latest moment at which the server can have started, if that was asked.
    born: OnceLock<Moment>,
    down: AtomicBool,
    /// Answers can no longer be told apart, or come from a server that should not be asked: none counts.
    poisoned: AtomicBool,
    /// Whether somebody waits to see if it is dead.
    suspected: AtomicBool,
    heard: Mutex<Heard>,
    task: OnceLock<Task>,
}

/// What the server has been asked to tell.
#[derive(Default)]
struct Heard {
    channels: HashSet<Arc<str>>,
    /// Channels that we are about to leave, and how often.
    leaving: HashMap<Arc<str>, u32>,
    tracks: bool,
    /// How many channels are still told of that nobody wants.
    ignored: usize,
}

/// How long a connection with an unanswered request may be silent before it counts as dead.
const SILENCE: Duration = Duration::from_millis(200);

/// How many unwanted channels a connection may collect before a fresh one is better.
const MOST_IGNORED: usize = 256;

impl Wire {
    pub(super) fn new(address: Arc<str>, hub: &Hub, link: Weak<Link>) -> Arc<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            id: MADE.fetch_add(1, Ordering::Relaxed) + 1,
            address,
            ear: hub.ear.clone(),
            link,
            traffic: Arc::default(),
            office: hub.dialer.office().clone(),
            clock: hub.clock.clone(),
            born: OnceLock::new(),
            down: AtomicBool::new(false),
            poisoned: AtomicBool::new(false),
            suspected: AtomicBool::new(false),
            heard: Mutex::default(),
            task: OnceLock::new(),
        })
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn address(&self) -> &Arc<str> {
        &self.address
    }

    pub(super) fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// The time, as this connection knows it.
    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// The server behind it says that it has run for `uptime`, which it knows to the second: it may be one less.
    pub(super) fn set_uptime(&self, uptime: Duration) {
        let _ = self.born.set(self.clock.now() - uptime + Duration::from_secs(1));
    }

    /// The error if the server has perhaps not run for `age`: what it was told before it started it may have forgotten.
    pub(super) fn is_too_young(&self, age: Option<Duration>) -> Option<Error> {
        let (age, born) = (age?, *self.born.get()?);
        let left = (born + age).since(self.clock.now());
        (!left.is_zero()).then(|| {
            let text = format!(
                "redis at {} was started less than {age:?} ago and may have forgotten a lock; it votes in {left:.1?}",
                self.address
            );
            Error::new(ErrorKind::Unavailable, text).until_after(left)
        })
    }

    /// The patience of a request that was sent `waited` ago has ended; when it was sent, so much had been read. The connection
    /// is shared, and a session with a short ttl is soon out of patience: it ends only if nothing at all came over it for
    /// [`SILENCE`] or as long as the request waited, whichever is longer.
    pub(super) fn suspect(self: &Arc<Self>, reads: u64, waited: Duration) {
        if self.traffic.reads() != reads || self.is_down() {
            return;
        }
        let left = SILENCE.saturating_sub(waited);
        if left.is_zero() {
            return self.fall();
        }
        if self.suspected.swap(true, Ordering::AcqRel) {
            return;
        }
        let wire = Arc::clone(self);
        self.office.spawn(async move {
            nap(left).await;
            wire.suspected.store(false, Ordering::Release);
            if wire.traffic.reads() == reads {
                wire.fall();
            }
        });
    }

    pub(super) fn is_down(&self) -> bool {
        self.down.load(Ordering::Acquire)
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    /// Gives it the task that drives it, to be ended with it.
    pub(super) fn keep(&self, task: Task) {
        if self.is_down() {
            task.end();
        }
        let _ = self.task.set(task);
        if self.is_down() {
            self.end_task();
        }
    }

    fn end_task(&self) {
        if let Some(task) = self.task.get() {
            task.end();
        }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn hears(&self, channel: &str) -> bool {
        !self.is_down() && self.heard().channels.contains(channel)
    }

    pub(super) fn tracks(&self) -> bool {
        self.heard().tracks
    }

    pub(super) fn set_tracks(&self) {
        self.heard().tracks = true;
    }

    /// The channels that end with `suffix`; they count as left from now on.
    pub(super) fn leave(&self, suffix: &str) -> Vec<Arc<str>> {
        let mut heard = self.heard();
        let left: Vec<_> =
            heard.channels.iter().filter(|channel| channel.ends_with(suffix)).cloned().collect();
        for channel in &left {
            heard.channels.remove(channel);
            *heard.leaving.entry(Arc::clone(channel)).or_default() += 1;
        }
        left
    }

    /// Stops counting on channels that end with `suffix`, without telling the server. In a cluster the server may end a
    /// subscription by itself at any time, and if we had asked it to as well, nobody could say which of the two an
    /// unsubscription answers (see `on_push`).
    pub(super) fn ignore(&self, suffix: &str) {
        let mut heard = self.heard();
        let before = heard.channels.len();
        heard.channels.retain(|channel| !channel.ends_with(suffix));
        heard.ignored += before - heard.channels.len();
        let full = heard.ignored > MOST_IGNORED;
        drop(heard);
        if full {
            self.fall();
        }
    }

    /// Ends the connection, once: the link is free for another, and who listened hears of it.
    pub(super) fn fall(&self) {
        if self.down.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(link) = self.link.upgrade() {
            link.lost(self);
        }
        self.end_task();
        let heard = std::mem::take(&mut *self.heard());
        if heard.tracks || !heard.channels.is_empty() {
            self.tell(Push::Broken);
        }
    }

    /// Ends it, and lets no answer count that comes or came after this.
    pub(super) fn poison(&self) {
        self.poisoned.store(true, Ordering::Release);
        self.fall();
    }

    fn tell(&self, push: Push) {
        if let Some(ear) = self.ear.upgrade() {
            ear.hear(push);
        }
    }

    fn on_push(&self, push: PushInfo) {
        if self.is_down() {
            return;
        }
        let PushInfo { kind, data } = push;
        let mut data = data.into_iter();
        match kind {
            PushKind::Message | PushKind::SMessage => {
                if let (Some(Value::BulkString(channel)), Some(Value::BulkString(payload))) =
                    (data.next(), data.next())
                {
                    self.tell(Push::Message { channel, payload });
                }
            }
            PushKind::Invalidate => match data.next() {
                Some(Value::Array(keys)) => {
                    for key in keys {
                        if let Value::BulkString(key) = key {
                            self.tell(Push::Changed { key });
                        }
                    }
                }
                // No list: everything was flushed.
                _ => self.tell(Push::Broken),
            },
            PushKind::Subscribe | PushKind::SSubscribe => {
                if let Some(channel) = data.next().as_ref().and_then(super::dial::text) {
                    let mut heard = self.heard();
                    // Asked under the lock: either `fall` sees the channel and tells, or it is not listened on.
                    if !self.is_down() {
                        heard.channels.insert(channel.into());
                    }
                }
            }
            PushKind::Unsubscribe | PushKind::SUnsubscribe => {
                let asked = data.next().as_ref().and_then(super::dial::text).is_some_and(|c| self.left(c));
                // The server ended it, because the slot moved. The redis crate takes such a push for the answer to the
                // oldest request, and every later answer for that of the request before: nothing that comes from here
                // on can be believed.
                if !asked {
                    self.poison();
                }
            }
            PushKind::Disconnection => self.fall(),
            _ => {}
        }
    }

    /// Whether we had asked to leave this channel.
    fn left(&self, channel: &str) -> bool {
        let mut heard = self.heard();
        let Some(count) = heard.leaving.get_mut(channel) else { return false };
        *count -= 1;
        if *count == 0 {
            heard.leaving.remove(channel);
        }
        true
    }
}

/// The connection's end of the wire. When its task ends, this is dropped.
pub(super) struct Tap(pub(super) Arc<Wire>);

impl Tap {
    pub(super) fn hear(&self, push: PushInfo) {
        self.0.on_push(push);
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.0.fall();
    }
}
