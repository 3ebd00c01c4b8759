//! The engine.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    ops::RangeInclusive,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah_core::{
    Claim, ClaimId, Clock, Engine, Error, ErrorKind, Exit, Look, Name, Opening, Profile, Renewal, Reply,
    Result, Scope, SessionId, Standing, Survey, Wait, Wake,
};
use bramah_remote::Flights;

use crate::{
    Answer, Base, Footing, Office, Renewed, Shelved, Wakes,
    lanes::{Call, Kind, Lanes},
    poll::Poll,
    survey::{self, Sight, claim_of},
};

/// How often a waiter without a place asks, where it is told of changes and where it is not.
const TRUST: Duration = Duration::from_secs(2);
const UNTOLD: Duration = Duration::from_millis(100);

/// What the database has a waiter sleep that is not the first: until it is told. The renewal of its session finds out what it was
/// not told, for all waiters at once.
const BEHIND: Duration = Duration::from_secs(3600);

/// The database counts so many claims ahead of one, and no further.
const COUNTED: u32 = 32;

/// How many claims one call renews.
const BATCH: usize = 2_000;

/// The largest number that a claim can have in a database.
const LAST: u64 = i64::MAX.unsigned_abs();

/// Locks in a table. Clones share everything.
pub struct Table<B>(Arc<Inner<B>>);

/// What the clones of a table share.
#[derive(Debug)]
pub struct Inner<B> {
    base: Arc<B>,
    office: Office,
    wakes: Arc<Wakes>,
    flights: Arc<Flights>,
    poll: Arc<Poll>,
    lanes: Arc<Lanes>,
    examined: AtomicBool,
    clock: Clock,
}

impl<B: Base> Table<B> {
    /// The engine on a database.
    pub fn new(base: Arc<B>, office: Office) -> Self {
        Self(Arc::new(Inner {
            base,
            office,
            wakes: Arc::default(),
            flights: Arc::default(),
            poll: Arc::default(),
            lanes: Arc::default(),
            examined: AtomicBool::new(false),
            clock: Clock::boot(),
        }))
    }

    /// The database.
    pub fn base(&self) -> &Arc<B> {
        &self.0.base
    }

    /// Where its work is done.
    pub fn office(&self) -> &Office {
        &self.0.office
    }
}

impl<B: Base> Shelved for Table<B> {
    type Inner = Inner<B>;

    fn inner(&self) -> &Arc<Inner<B>> {
        &self.0
    }

    fn of(inner: Arc<Inner<B>>) -> Self {
        Self(inner)
    }
}

impl<B> Clone for Table<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B: Base> fmt::Debug for Table<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.base.fmt(f)
    }
}

impl<B: Base> Inner<B> {
    /// How long the answer to a call about a claim of this ttl is waited for.
    fn patience(&self, ttl: Duration) -> Duration {
        self.base.timeout().min(ttl / 3).max(Duration::from_millis(10))
    }

    async fn open(&self, opening: Arc<Opening>) -> Result<Duration> {
        // Connections have to be made for it, and nothing is held yet.
        let (ttl, patience) = (opening.ttl, self.base.timeout());
        if !self.examined.load(Ordering::Acquire) {
            self.base.clone().examine(patience).await?;
            self.examined.store(true, Ordering::Release);
        }
        self.wakes.attend(&opening);
        self.base.clone().open(opening, self.wakes.clone(), patience).await?;
        Ok(ttl)
    }

    async fn claim(&self, claim: Arc<Claim>) -> Result<Standing> {
        let (id, patience) = (claim.id, self.patience(claim.ttl));
        // Armed before it is asked, so that nothing in between is missed.
        let place = (claim.again || claim.wait == Wait::Line)
            .then(|| self.wakes.place(id, &claim.name, claim.is_exclusive()));
        let watch =
            (!claim.again && claim.wait == Wait::Watch).then(|| self.wakes.watch(claim.name.as_str()));
        let answer = self.said(claim.clone(), patience).await;
        let told = self.base.footing(id.session) == Footing::Told;
        match (answer, place, watch) {
            (Ok(Answer::Queued { ahead, sleep }), Some(wake), _) => {
                if sleep < BEHIND {
                    self.wakes.is_first(id);
                }
                if !told {
                    self.poll.go(&self.office, &self.base, &self.wakes);
                }
                Ok(Standing::Queued { ahead: Some(ahead).filter(|ahead| *ahead < COUNTED), wake, sleep })
            }
            (Ok(Answer::Watching { sleep }), _, Some((wake, _))) => {
                let trust = if told { TRUST } else { UNTOLD.mul_f64(0.5 + fastrand::f64() / 2.0) };
                Ok(Standing::Queued { ahead: None, wake, sleep: sleep.min(trust) })
            }
            (answer, place, watch) => {
                if place.is_some() {
                    self.wakes.forget(id);
                }
                if let Some((_, number)) = watch {
                    self.wakes.unwatch(claim.name.as_str(), number);
                }
                match answer? {
                    Answer::Held { fence, left } => {
                        Ok(Standing::Held { fence: claim.is_exclusive().then_some(fence), left })
                    }
                    Answer::Conflict(capacity) => Err(claim.conflict(capacity)),
                    Answer::Gone => Ok(Standing::Gone),
                    Answer::Refused | Answer::Queued { .. } | Answer::Watching { .. } => {
                        Ok(Standing::Refused)
                    }
                }
            }
        }
    }

    /// What the database says to a claim, in its turn.
    async fn said(&self, claim: Arc<Claim>, patience: Duration) -> Result<Answer> {
        let began = self.clock.now();
        let call = self.begin(&claim.name, Kind::Claim, patience).await?;
        if self.clock.now().since(began) > claim.ttl / 2 {
            // Core counts a hold from before it queued here: little would be left of it, or nobody waits for it any more.
            let text = format!("{}: more calls about {} than it can answer", self.base.server(), claim.name);
            return Err(Error::new(ErrorKind::Unavailable, text).with_no_effect());
        }
        let answer = match claim.again {
            true => self.base.clone().ask(claim, patience).await,
            false => self.base.clone().enter(claim, patience).await,
        };
        settle(call, answer)
    }

    /// Waits for the turn of a call about a name.
    async fn begin(&self, name: &Name, kind: Kind, patience: Duration) -> Result<Call> {
        self.lanes.begin(name, kind, patience).await.ok_or_else(|| {
            let text =
                format!("{}: no call about {name} was answered for {patience:.1?}", self.base.server());
            Error::new(ErrorKind::Unavailable, text).with_no_effect()
        })
    }

    async fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Renewal {
        let mut renewal = Renewal::default();
        let mut waiting: Vec<Name> = Vec::new();
        let ttl = claims.iter().map(|claim| claim.ttl).min().unwrap_or(Duration::from_secs(3));
        let patience = self.patience(ttl);
        for (span, batch) in batches(&claims) {
            let renewed = match self.base.clone().renew(session, batch.clone(), span.clone(), patience).await
            {
                Ok(renewed) => renewed,
                Err(error) => {
                    tracing::debug!(%error, "claims were not renewed");
                    renewal.unknown.extend(batch.iter().map(|claim| claim.id));
                    self.find_out(&batch);
                    continue;
                }
            };
            let mut found: HashMap<u64, Renewed> =
                renewed.into_iter().map(|renewed| (renewed.seq, renewed)).collect();
            for claim in batch {
                match found.remove(&claim.id.seq) {
                    None => renewal.gone.push(claim.id),
                    // A waiter that does not know was not told.
                    Some(renewed) if renewed.held => drop(self.wakes.ask(claim.id)),
                    Some(_) => {
                        renewal.waiting.push(claim.id);
                        waiting.push(claim.name.clone());
                    }
                }
            }
            let strays = found.into_values().filter(|renewed| span.contains(&renewed.seq));
            renewal.stray.extend(strays.filter_map(|renewed| {
                let id = ClaimId { session, seq: renewed.seq };
                claim_of(id, &renewed.stray?).ok().map(Arc::new)
            }));
        }
        waiting.sort_unstable();
        waiting.dedup();
        if !waiting.is_empty() {
            // Nobody who holds a lock waits for that.
            let (base, wakes, lanes) = (self.base.clone(), self.wakes.clone(), self.lanes.clone());
            self.office.spawn(advance(base, wakes, lanes, waiting, patience));
        }
        // Last, and no reason for a renewal to fail.
        match self.base.clone().wishes(session, patience).await {
            Ok(seqs) => renewal.asked = seqs.into_iter().map(|seq| ClaimId { session, seq }).collect(),
            Err(error) => tracing::debug!(%error, "wishes were not read"),
        }
        renewal
    }

    /// Has a waiter of each line ask that could not be renewed: it meets the error, and tells it or ends with it. Not all of them, for
    /// the database may just be slow.
    fn find_out(&self, claims: &[Arc<Claim>]) {
        let mut asked: HashSet<&Name> = HashSet::new();
        for claim in claims {
            if !asked.contains(&claim.name) && self.wakes.ask(claim.id) {
                asked.insert(&claim.name);
            }
        }
    }

    async fn withdraw(&self, claim: Arc<Claim>, exit: Exit, landing: impl Future<Output = ()>) -> Result<()> {
        self.wakes.forget(claim.id);
        landing.await;
        // Of somebody else's claim little more may be known than that it ends soon.
        let patience = if exit == Exit::Own { self.patience(claim.ttl) } else { self.base.timeout() };
        let call = self.begin(&claim.name, Kind::Release, patience).await?;
        let left = self.base.clone().leave(claim, exit, patience).await;
        self.poll.hint();
        settle(call, left)
    }
}

/// A call is over. One that was answered, whatever the answer, shows those who queue behind it that the database is there.
fn settle<T>(call: Call, answer: Result<T>) -> Result<T> {
    if answer.as_ref().err().is_none_or(|error| error.kind() != ErrorKind::Unavailable) {
        call.answered();
    }
    answer
}

/// Has the first waiters of these lines ask that do not know that they are, and advances those lines in which somebody has died.
async fn advance<B: Base>(
    base: Arc<B>,
    wakes: Arc<Wakes>,
    lanes: Arc<Lanes>,
    names: Vec<Name>,
    patience: Duration,
) {
    let heads = match base.clone().heads(names, patience).await {
        Ok(heads) => heads,
        Err(error) => return tracing::debug!(%error, "it was not found out who is first"),
    };
    for head in heads {
        if !head.is_stuck {
            wakes.head(head.id);
            continue;
        }
        // One that waits for the lock of its name holds up no other line.
        let (base, lanes) = (base.clone(), lanes.clone());
        tokio::spawn(async move {
            let Some(call) = lanes.begin(&head.name, Kind::Release, patience).await else { return };
            if let Err(error) = settle(call, base.nudge(head.name, patience).await) {
                tracing::debug!(%error, "a line was not advanced");
            }
        });
    }
}

/// Claims by their numbers, so many at once, and the numbers that each batch answers for: all of them together for all.
fn batches(claims: &[Arc<Claim>]) -> Vec<(RangeInclusive<u64>, Vec<Arc<Claim>>)> {
    let mut sorted = claims.to_vec();
    sorted.sort_unstable_by_key(|claim| claim.id.seq);
    let mut batches: Vec<_> = sorted
        .chunks(BATCH)
        .map(|batch| (batch.first().map_or(0, |claim| claim.id.seq), batch.to_vec()))
        .collect();
    if batches.is_empty() {
        batches.push((0, Vec::new()));
    }
    // From its first number, or the very first, to the one before the next batch, or the very last.
    let ends: Vec<u64> = batches.iter().skip(1).map(|(first, _)| first - 1).chain([LAST]).collect();
    let starts = |at: usize, first| if at == 0 { 0 } else { first };
    let spans = batches.into_iter().zip(ends).enumerate();
    spans.map(|(at, ((first, batch), end))| (starts(at, first)..=end, batch)).collect()
}

impl<B: Base> Engine for Table<B> {
    fn profile(&self) -> Profile {
        self.0.base.profile()
    }

    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        let inner = self.0.clone();
        self.0.office.run(async move { inner.open(opening).await })
    }

    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
        let inner = self.0.clone();
        let flight = (!claim.again).then(|| self.0.flights.begin(claim.id));
        self.0.office.run(async move {
            let standing = inner.claim(claim).await;
            drop(flight);
            standing
        })
    }

    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        let inner = self.0.clone();
        self.0.office.run(async move { Ok(inner.renew(session, claims).await) })
    }

    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        let inner = self.0.clone();
        let landing = self.0.flights.landing(claim.id);
        self.0.office.run(async move { inner.withdraw(claim, exit, landing).await })
    }

    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        let inner = self.0.clone();
        self.0.office.run(async move { inner.base.clone().wish(claim.id, inner.base.timeout()).await })
    }

    fn close(&self, session: SessionId) -> Reply<()> {
        let inner = self.0.clone();
        self.0.office.run(async move {
            inner.wakes.dismiss(session);
            inner.base.clone().close(session, inner.base.timeout()).await
        })
    }

    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        let (base, office, scope) = (self.0.base.clone(), self.0.office.clone(), scope.clone());
        self.0.office.run(async move {
            let (rows, breaks) = base.clone().look(scope.clone(), base.timeout()).await?;
            let wake = match look {
                Look::Once | Look::Glance => Wake::never(),
                Look::Watching => {
                    let (bell, wake) = Wake::pair();
                    let (base, wanted) = (base.clone(), scope.clone());
                    let look = move || base.clone().look(wanted.clone(), base.timeout());
                    office.spawn(survey::watch(look, Sight::of(&rows, &breaks), bell));
                    wake
                }
            };
            survey::of(&scope, rows, breaks, wake)
        })
    }

    fn lifelines(&self, _session: SessionId) -> Vec<OwnedFd> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(seq: u64) -> Arc<Claim> {
        let id = ClaimId { session: SessionId::from_bits(1), seq };
        Arc::new(Claim {
            id,
            name: Name::new("a").unwrap(),
            capacity: 1,
            weight: 1,
            wait: Wait::Line,
            again: true,
            floor: None,
            ttl: Duration::from_secs(1),
            lease: None,
            note: "".into(),
        })
    }

    #[test]
    fn batches_answer_for_every_number_once() {
        for count in [0, 1, 1_999, 2_000, 2_001, 6_100] {
            let claims: Vec<_> = (0..count).rev().map(|n| claim(3 * n + 7)).collect();
            let batches = batches(&claims);
            let mut next = 0;
            let mut seen = 0;
            for (span, batch) in &batches {
                assert_eq!(*span.start(), next, "{count}");
                assert!(batch.len() <= BATCH && batch.iter().all(|claim| span.contains(&claim.id.seq)));
                next = span.end() + 1;
                seen += batch.len();
            }
            assert_eq!((next, seen), (LAST + 1, claims.len()), "{count}");
        }
    }
}
