//! What is asked of a server to carry out a line, and what the answers mean.

mod answer;
mod calls;
mod stamp;
mod terms;
mod wishes;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah_core::{
    Claim, Clock, Exit, Keep, Moment, Opening, Profile, Renewal, Result, SessionId, Standing, Wait, Wake,
};
use redis::Value;

pub(crate) use self::terms::Terms;
use self::{
    answer::{Answer, Next},
    stamp::Stamp,
};
use crate::{
    config::{Layout, Replicas},
    driver::{Driver, Request, Slot},
    ears::{Ears, Grant, Watch},
    exits::Exits,
    hints::Hints,
    layout::{Entry, Item, Place, Scheme, Way, redisson::Form},
    preflight, renewal,
    replicas::{TakenBack, Unconfirmed},
    text,
};

/// The longest time that a watch of a key is trusted, and for how many watchers.
const WATCH: (Duration, u32) = (Duration::from_secs(1), 8);

/// Whatever a server says, nobody asks more often than this.
const SHORTEST_SLEEP: Duration = Duration::from_millis(5);

/// The protocol over a driver.
#[derive(Debug)]
pub(crate) struct Protocol<D> {
    pub(crate) driver: D,
    pub(crate) scheme: Scheme,
    pub(crate) terms: Terms,
    pub(crate) ears: Arc<Ears>,
    pub(crate) clock: Clock,
    sessions: Mutex<HashMap<SessionId, Arc<Member>>>,
    /// The last stamped grants, by slot; outside of a cluster there is one.
    stamps: Box<[Stamp]>,
    /// Where others wait, as far as is known.
    lines: Hints,
    /// Those who leave.
    pub(crate) exits: Exits,
    /// Whether the server was found fit.
    pub(crate) examined: AtomicBool,
    /// The most replicas that each master was seen with, by its address.
    pub(crate) replicas_seen: Mutex<HashMap<Arc<str>, u64>>,
    /// What replicas are being asked about.
    pub(crate) unconfirmed: Unconfirmed,
    pub(crate) taken_back: TakenBack,
}

/// A session of this process.
#[derive(Debug)]
struct Member {
    opening: Arc<Opening>,
    /// Where its grants are pushed to, outside of a cluster.
    channel: Arc<str>,
    /// When its record was last written.
    recorded_ns: AtomicU64,
    /// The numbers of its claims that had a note, in Redisson's layout.
    noted: Mutex<HashSet<u64>>,
    /// Whether that, and what else is not urgent, is being done.
    looked_after: AtomicBool,
}

impl Member {
    /// Whether a claim has, or ever had, a note.
    fn has_note(&self, seq: u64, now: bool) -> bool {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if now {
            noted.insert(seq);
        }
        noted.contains(&seq)
    }

    /// The claim is over.
    fn forget_note(&self, seq: u64) {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).remove(&seq);
    }
}

/// The right to look after a session, for one at a time; given back also when its task ends with its runtime.
struct Turn(Arc<Member>);

impl Turn {
    fn of(member: Arc<Member>) -> Option<Self> {
        (!member.looked_after.swap(true, Ordering::AcqRel)).then(|| Self(member))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.looked_after.store(false, Ordering::Release);
    }
}

impl<D: Driver> Protocol<D> {
    pub(crate) fn new(driver: D, scheme: Scheme, terms: Terms, ears: Arc<Ears>) -> Self {
        let slots = if driver.is_cluster() { usize::from(crate::net::slot::SLOTS) } else { 1 };
        Self {
            driver,
            scheme,
            terms,
            ears,
            clock: Clock::boot(),
            sessions: Mutex::default(),
            stamps: (0..slots).map(|_| Stamp::default()).collect(),
            lines: Hints::default(),
            exits: Exits::default(),
            examined: AtomicBool::new(false),
            replicas_seen: Mutex::default(),
            unconfirmed: Unconfirmed::default(),
            taken_back: TakenBack::default(),
        }
    }

    pub(crate) fn profile(&self) -> Profile {
        self.scheme.profile()
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Member>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the answer to a call for a claim of this ttl is waited for.
    pub(crate) fn patience(&self, ttl: Duration) -> Duration {
        self.setup(ttl).min(self.terms.claim_timeout).max(Duration::from_millis(10))
    }

    /// The same for what comes before any claim, and after the last.
    fn setup(&self, ttl: Duration) -> Duration {
        self.terms.timeout.min(ttl / 3).max(Duration::from_millis(10))
    }

    pub(crate) async fn open(&self, opening: Arc<Opening>) -> Result<Duration> {
        let ttl = opening.ttl;
        self.terms.check_ttl(ttl)?;
        preflight::examine(self).await?;
        let channel = self.scheme.channel(0, opening.session).into();
        let member = Arc::new(Member {
            opening,
            channel,
            recorded_ns: AtomicU64::new(0),
            noted: Mutex::default(),
            looked_after: AtomicBool::new(false),
        });
        self.record(&member).await?;
        self.ears.attend(member.opening.session, member.opening.alarm.clone());
        self.lend_ear(&member).await;
        self.sessions().insert(member.opening.session, member);
        Ok(ttl)
    }

    /// Listens for what becomes of the session's claims, where that is one channel. A session that cannot learns of a
    /// break with its next renewal.
    async fn lend_ear(&self, member: &Member) {
        if self.driver.is_cluster() || self.driver.is_listening(0, &member.channel) {
            return;
        }
        let patience = self.patience(member.opening.ttl);
        if let Err(error) = self.driver.listen(0, member.channel.clone(), patience).await {
            tracing::debug!(%error, "a session does not hear of breaks");
        }
    }

    /// Writes down who is behind a session, for those who look. Never consulted for a grant.
    async fn record(&self, member: &Member) -> Result<()> {
        let opening = &member.opening;
        // Of the attempt: a node that does not answer is not asked again with every claim.
        member.recorded_ns.store(self.clock.now().ns(), Ordering::Relaxed);
        let place = self.scheme.session(opening.session);
        let mut cmd = redis::cmd("SET");
        cmd.arg(&place.key).arg(opening.about.encode()).arg("PX").arg(text::millis(record_span(opening.ttl)));
        self.driver.send(self.scheme.plainly(&place, cmd, self.setup(opening.ttl))).await.map(drop)
    }

    /// Whether the record of a session is due to be written again.
    fn is_untouched(&self, member: &Member, now: Moment) -> bool {
        let recorded = Moment::from_ns(member.recorded_ns.load(Ordering::Relaxed));
        now.since(recorded) >= record_span(member.opening.ttl) / 3
    }

    /// Writes it down again if that was long ago. What comes of it does not matter to a claim.
    async fn touch(&self, member: &Member) {
        if self.is_untouched(member, self.clock.now())
            && let Err(error) = self.record(member).await
        {
            tracing::debug!(%error, "the record of a session was not written");
        }
    }

    /// Does for a session what is not urgent, beside its renewal: that waits for nothing, least of all for the connection
    /// of an executor that may be blocked.
    fn look_after(self: &Arc<Self>, member: Arc<Member>) {
        let session = member.opening.session;
        let Some(turn) = Turn::of(member) else { return };
        let protocol = self.clone();
        tokio::spawn(async move {
            // It may have been closed meanwhile: then nothing is to be left behind.
            if protocol.member(session).is_some() {
                protocol.touch(&turn.0).await;
            }
            if protocol.member(session).is_some() {
                protocol.lend_ear(&turn.0).await;
            }
        });
    }

    fn member(&self, session: SessionId) -> Option<Arc<Member>> {
        self.sessions().get(&session).cloned()
    }

    /// Where grants of claims in this slot are pushed to.
    fn channel(&self, slot: Slot, session: SessionId, member: Option<&Arc<Member>>) -> Arc<str> {
        match member {
            Some(member) if !self.driver.is_cluster() => member.channel.clone(),
            _ => self.scheme.channel(slot, session).into(),
        }
    }

    pub(crate) async fn close(&self, session: SessionId) -> Result<()> {
        self.ears.dismiss(session);
        let member = self.sessions().remove(&session);
        let ttl = member.map_or(self.terms.timeout * 3, |member| member.opening.ttl);
        self.driver.forget(&session.to_string()).await;
        let place = self.scheme.session(session);
        let mut cmd = redis::cmd("DEL");
        cmd.arg(&place.key);
        if !self.driver.is_cluster() {
            cmd.arg(self.scheme.wishes_at(session).key);
        }
        self.driver.send(self.scheme.plainly(&place, cmd, self.patience(ttl))).await.map(drop)
    }

    fn last_stamp(&self, slot: Slot) -> Option<&Stamp> {
        self.stamps.get(usize::from(slot)).or(self.stamps.first())
    }

    pub(crate) async fn claim(self: &Arc<Self>, claim: Arc<Claim>) -> Result<Standing> {
        self.terms.check_claim(&claim)?;
        if !claim.again && self.terms.replicas != Replicas::None && self.taken_back.has(claim.id) {
            return Ok(Standing::Gone);
        }
        let place = self.scheme.place(&claim.name);
        let text = self.scheme.text(&claim, &place)?;
        let item = self.item(&claim, &place, &text);
        let patience = self.patience(claim.ttl);
        // Armed before it is asked, so that a change in between is not missed.
        let watches = match self.wait(&claim) {
            Wait::No => false,
            Wait::Watch => !claim.again,
            Wait::Line => self.scheme.is_fair(),
        };
        let queued = (self.scheme.is_fair() && claim.wait == Wait::Line).then_some(claim.id);
        let beside = !claim.is_exclusive() && self.scheme.form(&claim) != Form::Pool;
        let watch = watches.then(|| self.ears.watch(place.key.as_bytes(), beside, queued));
        let answer = if claim.again {
            Box::pin(self.question(item, patience)).await
        } else {
            let others = watch.as_ref().is_some_and(|watch| watch.others > 0);
            self.enter(item, others, patience).await
        };
        if let Some(watch) = &watch
            && !matches!(answer, Ok((Answer::Watching { .. } | Answer::Queued { .. }, _)))
        {
            self.ears.unwatch(place.key.as_bytes(), watch.number);
        }
        let (answer, wire) = answer?;
        let standing = match answer {
            Answer::Held { fence, left } => {
                if self.terms.replicas != Replicas::None {
                    Box::pin(self.replicate(item, wire, patience)).await?;
                }
                if self.scheme.form(&claim) == Form::Pool {
                    // There may be more to be had.
                    self.ears.changed(place.key.as_bytes());
                }
                Standing::Held { fence: fence.filter(|_| claim.is_exclusive()), left }
            }
            Answer::Queued { ahead, sleep, next } if watch.is_some() => {
                match next {
                    Next::Of(other) => self.ears.turn(place.key.as_bytes(), other),
                    Next::Told if self.hears(&place, claim.id.session) => {
                        self.ears.rest(place.key.as_bytes(), claim.id);
                    }
                    Next::Told | Next::Unknown => {}
                }
                watching(watch, Some(ahead), sleep)
            }
            Answer::Queued { ahead, sleep, .. } => {
                self.lines.note(&place.key);
                let wake = self.ears.place(claim.id, self.meaning(&claim));
                // The connection may have ended before there was anybody to tell that it did.
                if !self.hears(&place, claim.id.session) {
                    self.ears.prod(claim.id);
                }
                Standing::Queued { ahead: Some(ahead), wake, sleep }
            }
            Answer::Watching { sleep } => {
                // It comes again under another number.
                self.member(claim.id.session).inspect(|member| member.forget_note(claim.id.seq));
                watching(watch, None, sleep)
            }
            Answer::Refused => Standing::Refused,
            Answer::Gone => {
                self.ears.forget(claim.id);
                Standing::Gone
            }
            Answer::Conflict(capacity) => return Err(claim.conflict(capacity)),
            Answer::Unmarked => return Err(Answer::not_understood(&claim)),
        };
        Ok(standing)
    }

    /// Whether messages to the session about this lock would reach it.
    fn hears(&self, place: &Place, session: SessionId) -> bool {
        self.driver.is_listening(place.slot, &self.scheme.channel(place.slot, session))
    }

    /// A claim as a layout sees it. One that nobody keeps must be found again by others, with all there is to it; and what
    /// once had a note has to lose it.
    pub(crate) fn item<'a>(&self, claim: &'a Claim, place: &'a Place, text: &'a str) -> Item<'a> {
        let carded = self.terms.layout == Layout::Redisson
            && self.member(claim.id.session).is_none_or(|member| {
                member.opening.keep == Keep::Nobody || member.has_note(claim.id.seq, !claim.note.is_empty())
            });
        Item { place, claim, text, carded }
    }

    /// What a claim does if it cannot be held: a layout without a line has it watch.
    fn wait(&self, claim: &Claim) -> Wait {
        match claim.wait {
            Wait::Line if self.terms.layout != Layout::Native && !self.scheme.is_fair() => Wait::Watch,
            wait => wait,
        }
    }

    /// Enters. The answer, and which connection it came over.
    async fn enter(
        self: &Arc<Self>,
        item: Item<'_>,
        others: bool,
        patience: Duration,
    ) -> Result<(Answer, u64)> {
        let Item { place, claim, .. } = item;
        let now = self.clock.now();
        let member = self.member(claim.id.session);
        if let Some(member) = &member
            && self.is_untouched(member, now)
        {
            self.look_after(member.clone());
        }
        let wait = self.wait(claim);
        let age = self.terms.age();
        let enter = |wait, stamp| {
            let request = self.scheme.enter(item, Entry { wait, stamp, others }, patience);
            Request { age, ..request }
        };
        if wait == Wait::Line && self.terms.layout == Layout::Native {
            let channel = self.channel(place.slot, claim.id.session, member.as_ref());
            if !self.driver.is_listening(place.slot, &channel) {
                // Most locks are free: what has to be set up to wait is set up by who has to wait.
                let request = enter(Wait::No, true);
                let (tried, wire) = Box::pin(self.driver.send_named(request)).await?;
                let answer = Answer::read(&tried, claim)?;
                if !matches!(answer, Answer::Refused | Answer::Queued { .. }) {
                    return Ok((answer, wire));
                }
                Box::pin(self.driver.listen(place.slot, channel, patience)).await?;
            }
        }
        if wait == Wait::No && self.terms.layout == Layout::Plain && !self.terms.fences {
            let request = self.scheme.set(item, patience);
            let (set, wire) = self.driver.send_named(Request { age, ..request }).await?;
            if set == Value::Okay {
                return Ok((Answer::Held { fence: None, left: claim.lease }, wire));
            }
            // It may be our own that is there: the script can tell.
        }
        let last = self.last_stamp(place.slot);
        if self.terms.layout != Layout::Redisson
            && wait != Wait::Watch
            && let Some(wire) = last.and_then(|last| last.spares(now))
        {
            let request = enter(wait, false);
            if let Some(entered) = self.driver.send_over(wire, request).await {
                return Ok((Answer::read(&entered?, claim)?, wire));
            }
        }
        let (entered, wire) = self.driver.send_named(enter(wait, true)).await?;
        // Only a grant was stamped, and it counts for the connection that it was answered over.
        match (&entered, last) {
            (Value::Int(_), Some(last)) => last.set(self.clock.now(), wire),
            (_, Some(last)) => last.unset(now),
            _ => {}
        }
        Ok((Answer::read(&entered, claim)?, wire))
    }

    /// What a pushed grant of the claim would mean.
    fn meaning(&self, claim: &Claim) -> Grant {
        match () {
            () if self.terms.replicas != Replicas::None => Grant::Unproven,
            () if claim.is_exclusive() => Grant::Exclusive,
            () => Grant::Shared,
        }
    }

    /// How long the answer to a withdrawal is waited for.
    pub(crate) fn exit_patience(&self, claim: &Claim, exit: &Exit) -> Duration {
        match exit {
            Exit::Own => self.patience(claim.ttl),
            // Of somebody else's claim little more may be known than that it ends soon.
            Exit::Broken(_) => self.terms.timeout,
        }
    }

    pub(crate) async fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Result<()> {
        self.ears.forget(claim.id);
        self.taken_back.forget(claim.id);
        let place = self.scheme.place(&claim.name);
        let text = self.scheme.text(&claim, &place)?;
        let record = match &exit {
            Exit::Own => None,
            Exit::Broken(cause) => Some(text::encode_break(claim.id, self.clock.wall_us() / 1000, cause)),
        };
        let way = match &record {
            Some(record) => Way::Broken(record),
            None if self.lines.has(&place.key) => Way::Line,
            None => Way::Alone,
        };
        let patience = self.exit_patience(&claim, &exit);
        let left = self.leave(self.item(&claim, &place, &text), way, patience).await?;
        if self.terms.layout == Layout::Redisson
            && let Some(member) = self.member(claim.id.session)
        {
            member.forget_note(claim.id.seq);
        }
        if left == Value::Int(2) {
            self.lines.clear(&place.key);
        }
        if self.terms.layout != Layout::Native {
            // The key was not read when it was set, so nobody is told that it is gone.
            self.ears.changed(place.key.as_bytes());
        }
        Ok(())
    }

    pub(crate) async fn renew(
        self: &Arc<Self>,
        session: SessionId,
        claims: Arc<[Arc<Claim>]>,
    ) -> Result<Renewal> {
        for claim in claims.iter() {
            self.terms.check_claim(claim)?;
        }
        if let Some(member) = self.member(session) {
            self.look_after(member);
        }
        let wishes = self.wishes(session);
        let renewal = renewal::renew(self, claims).await?;
        Ok(Renewal { asked: wishes.await, ..renewal })
    }
}

/// Behind the push stands a poll, slower the more of us there are.
fn watching(watch: Option<Watch>, ahead: Option<u32>, sleep: Duration) -> Standing {
    let (wake, others) = watch.map_or_else(|| (Wake::never(), 0), |watch| (watch.wake, watch.others));
    let crowd = u32::try_from(others).unwrap_or(u32::MAX) / WATCH.1 + 1;
    let longest = WATCH.0.saturating_mul(crowd).mul_f64(0.5 + fastrand::f64() / 2.0);
    Standing::Queued { ahead, wake, sleep: sleep.min(longest).max(SHORTEST_SLEEP) }
}

/// How long the record of a session is kept without a word from it.
fn record_span(ttl: Duration) -> Duration {
    (ttl * 2).max(Duration::from_secs(60))
}
