//! Engines that are wrong in one way each.

#![expect(clippy::unwrap_used, reason = "a test, outside of a function that clippy takes for one")]

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah_conformance::twist::Twist;
use bramah_core::{
    Claim, ClaimId, Clock, Engine, ErrorKind, Exit, Fence, Look, Name, Opening, Renewal, Reply, Scope,
    SessionId, Standing, Survey, Wait, Wake,
};

/// One mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    GrantsEveryone,
    ServesTheLastFirst,
    LosesThePlaceOfWhoAsks,
    FencesFall,
    MintsAtTheEntry,
    ReadersHaveFences,
    IgnoresFloors,
    QuestionsEnter,
    RepeatsEnter,
    IgnoresWithdrawals,
    WithdrawsWhoeverHolds,
    RenewalsRevive,
    RenewalsDoNothing,
    RenewalsForgetWaiters,
    RenewsAllReadersTogether,
    LosesClaims,
    HidesStrays,
    ExpiresEarly,
    NeverExpires,
    NeverWakes,
    NeverWakesNorAsks,
    WatchesTakePlaces,
    TriesTakePlaces,
    IgnoresLeases,
    DropsNotes,
    IgnoresConflicts,
    ReadersAreWriters,
    WeighsNothing,
    FoldsCase,
    CutsNames,
    FlattensNames,
    ShowsItBackwards,
    ScopesByText,
    SurveysDoNotWake,
    WishesAreLost,
    WishesEndHolds,
    WishesReachEverybody,
    RepeatedWishesEndHolds,
    WishesAreNotKept,
    RenewalsArriveAgain,
    QuestionsArriveAgain,
    RenewsTheWholeSession,
    ClosingEndsClaims,
    OpeningSetsTheTtl,
    KeepsPlacesOfLostHolds,
    WithdrawsWithTheNextClaim,
    WithdrawsAfterTheNextClaim,
    SessionsExcludeThemselves,
    ShowsTheUrl,
    LogsTheUrl,
    ErrorsShowTheUrl,
    ShowsHandles,
    LogsHandles,
}

impl Wrong {
    pub(crate) fn into_engine(self) -> Mistaken {
        Mistaken {
            wrong: self,
            seen: Mutex::default(),
            minted: Mutex::default(),
            count: AtomicU64::new(1 << 40),
            earlier: Mutex::default(),
            places: Mutex::default(),
            unsent: Mutex::default(),
            secrets: Mutex::default(),
        }
    }
}

/// An engine with that mistake in front of it.
#[derive(Debug)]
pub(crate) struct Mistaken {
    wrong: Wrong,
    /// Claims in the order they came.
    seen: Mutex<Vec<Arc<Claim>>>,
    /// When each of them came.
    minted: Mutex<HashMap<ClaimId, Fence>>,
    count: AtomicU64,
    /// The last call that proved a claim's life.
    earlier: Mutex<HashMap<ClaimId, Arc<Claim>>>,
    /// Which claim has the one place of a session on a name.
    places: Mutex<HashMap<(SessionId, Name), ClaimId>>,
    /// Withdrawals that were answered and not sent.
    unsent: Mutex<Vec<(Arc<Claim>, Exit)>>,
    /// What its Debug must not show.
    secrets: Mutex<Vec<String>>,
}

const AGES: Duration = Duration::from_secs(24 * 3600);

/// Memory answers at once; so do its mistaken forms.
fn now<T>(reply: Reply<T>) -> bramah_core::Result<T> {
    reply.into_now().expect("the memory engine answers at once")
}

impl Mistaken {
    fn changed(&self, claim: &Claim) -> Claim {
        let mut claim = claim.clone();
        match self.wrong {
            Wrong::IgnoresFloors => claim.floor = None,
            Wrong::QuestionsEnter => claim.again = false,
            Wrong::RepeatsEnter => claim.id.seq = self.count.fetch_add(1, Ordering::Relaxed),
            Wrong::ExpiresEarly => claim.ttl /= 4,
            Wrong::NeverExpires => claim.ttl = AGES,
            Wrong::WatchesTakePlaces if claim.wait == Wait::Watch => claim.wait = Wait::Line,
            Wrong::TriesTakePlaces if claim.wait == Wait::No => claim.wait = Wait::Line,
            Wrong::IgnoresLeases => claim.lease = None,
            Wrong::DropsNotes => claim.note = "".into(),
            Wrong::ReadersAreWriters => claim.weight = claim.capacity,
            Wrong::WeighsNothing => claim.weight = 1,
            Wrong::SessionsExcludeThemselves if self.has_another(&claim) => claim.weight = claim.capacity,
            _ => {}
        }
        claim.name = self.renamed(&claim.name);
        claim
    }

    fn renamed(&self, name: &Name) -> Name {
        let text = name.as_str();
        let text = match self.wrong {
            Wrong::FoldsCase => text.to_lowercase(),
            Wrong::CutsNames => text.chars().take(150).collect(),
            Wrong::FlattensNames => text.replace(['/', '.'], "_"),
            _ => text.to_owned(),
        };
        Name::new(text.trim_end_matches('/')).expect("a changed name is valid")
    }

    /// Puts everybody who waits behind the one that came last.
    fn turn_around(&self, inner: &Arc<dyn Engine>, last: &Claim) {
        let seen = self.seen.lock().unwrap();
        for earlier in seen.iter().rev().filter(|claim| claim.name == last.name && claim.id != last.id) {
            if let Ok(Standing::Queued { .. }) = now(inner.claim(Arc::new(earlier.asking()))) {
                now(inner.withdraw(earlier.clone(), Exit::Own)).unwrap();
                now(inner.claim(Arc::new(Claim { again: false, ..(**earlier).clone() }))).unwrap();
            }
        }
    }

    /// Notes a secret where its Debug shows it.
    pub(crate) fn show(&self, secret: String) {
        self.secrets.lock().unwrap().push(secret);
    }

    /// Whether the session has claimed the name before, under another id.
    fn has_another(&self, claim: &Claim) -> bool {
        let (id, seen) = (claim.id, self.seen.lock().unwrap());
        seen.iter()
            .any(|other| other.name == claim.name && other.id.session == id.session && other.id.seq < id.seq)
    }

    /// Carries out the withdrawals that were answered and not sent.
    fn send_withdrawals(&self, inner: &Arc<dyn Engine>) {
        for (claim, exit) in std::mem::take(&mut *self.unsent.lock().unwrap()) {
            now(inner.withdraw(claim, exit)).unwrap();
        }
    }

    /// Remembers `claims` as the last call about each, and sends the call before it once more.
    fn repeat_earlier(&self, inner: &Arc<dyn Engine>, claims: &[Arc<Claim>]) {
        for claim in claims {
            let earlier = self.earlier.lock().unwrap().get(&claim.id).cloned();
            match (self.wrong, earlier) {
                (Wrong::RenewalsArriveAgain, Some(earlier)) => {
                    now(inner.renew(claim.id.session, [earlier].into())).unwrap();
                }
                (Wrong::QuestionsArriveAgain, Some(earlier)) => {
                    now(inner.claim(earlier)).unwrap();
                }
                _ => {}
            }
            if self.wrong == Wrong::RenewalsArriveAgain {
                self.earlier.lock().unwrap().insert(claim.id, claim.clone());
            }
        }
    }

    /// Lets one claim of a session in for each name, as a store with one place does. Its mistake: what was lost keeps the place.
    fn without_a_place(&self, claim: &Claim) -> Option<Standing> {
        let key = (claim.id.session, claim.name.clone());
        let place = *self.places.lock().unwrap().entry(key).or_insert(claim.id);
        (place != claim.id).then(|| match claim.wait {
            Wait::No => Standing::Refused,
            _ => Standing::Queued { ahead: Some(1), wake: Wake::never(), sleep: Duration::from_secs(1) },
        })
    }

    fn misstate(&self, inner: &Arc<dyn Engine>, asked: &Claim, standing: Standing) -> Standing {
        match (self.wrong, standing) {
            (Wrong::GrantsEveryone, Standing::Queued { .. } | Standing::Refused) => Standing::Held {
                fence: Some(Fence::new(self.count.fetch_add(1, Ordering::Relaxed))),
                left: None,
            },
            (Wrong::ServesTheLastFirst, queued @ Standing::Queued { .. }) if !asked.again => {
                self.turn_around(inner, asked);
                queued
            }
            (Wrong::FencesFall, Standing::Held { fence: Some(fence), .. }) => {
                Standing::Held { fence: Some(Fence::new((1 << 53) - 1 - fence.get())), left: None }
            }
            (Wrong::MintsAtTheEntry, Standing::Held { fence: Some(fence), .. }) if asked.floor.is_none() => {
                Standing::Held {
                    fence: Some(self.minted.lock().unwrap().get(&asked.id).copied().unwrap_or(fence)),
                    left: None,
                }
            }
            (Wrong::ReadersHaveFences, Standing::Held { fence: None, .. }) => {
                Standing::Held { fence: Some(Fence::new(7)), left: None }
            }
            (Wrong::NeverWakes, Standing::Queued { ahead, sleep, .. }) => {
                Standing::Queued { ahead, wake: Wake::never(), sleep }
            }
            (Wrong::NeverWakesNorAsks, Standing::Queued { ahead, .. }) => {
                Standing::Queued { ahead, wake: Wake::never(), sleep: AGES }
            }
            (Wrong::TriesTakePlaces, Standing::Queued { .. }) if asked.wait == Wait::No => Standing::Refused,
            (_, standing) => standing,
        }
    }
}

impl Twist for Mistaken {
    fn open(&self, inner: &Arc<dyn Engine>, opening: Arc<Opening>) -> Reply<Duration> {
        if self.wrong == Wrong::OpeningSetsTheTtl {
            for claim in self.seen.lock().unwrap().iter().filter(|claim| claim.id.session == opening.session)
            {
                let claim = Claim { ttl: opening.ttl, ..(**claim).clone() };
                now(inner.renew(opening.session, [Arc::new(claim)].into())).unwrap();
            }
        }
        inner.open(opening)
    }

    fn claim(&self, inner: &Arc<dyn Engine>, asked: Arc<Claim>) -> Reply<Standing> {
        let claim = Arc::new(self.changed(&asked));
        if self.wrong == Wrong::LosesThePlaceOfWhoAsks
            && let Ok(Standing::Queued { .. }) = now(inner.claim(Arc::new(claim.asking())))
        {
            now(inner.withdraw(claim.clone(), Exit::Own)).unwrap();
            return inner.claim(Arc::new(Claim { again: false, ..(*claim).clone() }));
        }
        match self.wrong {
            Wrong::WithdrawsWithTheNextClaim => self.send_withdrawals(inner),
            Wrong::KeepsPlacesOfLostHolds => {
                if let Some(standing) = self.without_a_place(&claim) {
                    return Reply::now(Ok(standing));
                }
            }
            Wrong::QuestionsArriveAgain if claim.again => {
                self.earlier.lock().unwrap().insert(claim.id, claim.clone());
            }
            Wrong::ShowsHandles => self.show(claim.id.session.to_string()),
            Wrong::LogsHandles => tracing::debug!(session = %claim.id.session, "a claim"),
            _ => {}
        }
        if !asked.again {
            self.seen.lock().unwrap().push(claim.clone());
            let entered = Fence::new(Clock::boot().wall_us());
            self.minted.lock().unwrap().entry(claim.id).or_insert(entered);
        }
        let answer = now(inner.claim(claim));
        if self.wrong == Wrong::WithdrawsAfterTheNextClaim {
            self.send_withdrawals(inner);
        }
        Reply::now(match answer {
            Err(error) if self.wrong == Wrong::IgnoresConflicts && error.kind() == ErrorKind::Conflict => {
                Ok(Standing::Refused)
            }
            answer => answer.map(|standing| self.misstate(inner, &asked, standing)),
        })
    }

    fn renew(
        &self,
        inner: &Arc<dyn Engine>,
        session: SessionId,
        claims: Arc<[Arc<Claim>]>,
    ) -> Reply<Renewal> {
        let mut asked: Vec<Arc<Claim>> = claims.iter().map(|claim| Arc::new(self.changed(claim))).collect();
        match self.wrong {
            Wrong::RenewalsDoNothing => return Reply::now(Ok(Renewal::default())),
            Wrong::RenewalsForgetWaiters => asked.retain(|claim| {
                let line = now(inner.survey(&Scope::Exact(claim.name.clone()), Look::Once)).unwrap().lines;
                line.iter().flat_map(|line| line.holders()).any(|place| place.claim.id == claim.id)
            }),
            Wrong::RenewsAllReadersTogether => {
                let seen = self.seen.lock().unwrap();
                for other in seen.iter().filter(|other| claims.iter().any(|claim| claim.name == other.name)) {
                    let _ = now(inner.renew(other.id.session, [other.clone()].into()));
                }
            }
            Wrong::RenewsTheWholeSession => {
                let ttl = asked.last().map(|claim| claim.ttl);
                let seen = self.seen.lock().unwrap();
                for other in seen.iter().filter(|other| other.id.session == session) {
                    let other = Claim { ttl: ttl.unwrap_or(other.ttl), ..(**other).clone() };
                    now(inner.renew(session, [Arc::new(other)].into())).unwrap();
                }
            }
            _ => {}
        }
        let mut renewal = now(inner.renew(session, asked.clone().into())).unwrap();
        self.repeat_earlier(inner, &asked);
        match self.wrong {
            Wrong::RenewalsRevive => {
                for claim in asked.iter().filter(|claim| renewal.gone.contains(&claim.id)) {
                    let _ = now(inner.claim(Arc::new(Claim { again: false, ..(**claim).clone() })));
                }
                renewal.gone.clear();
            }
            Wrong::LosesClaims => {
                renewal.gone = claims.iter().map(|claim| claim.id).collect::<Vec<ClaimId>>()
            }
            Wrong::HidesStrays => renewal.stray.clear(),
            Wrong::WishesAreNotKept => renewal.asked.clear(),
            _ => {}
        }
        Reply::now(Ok(renewal))
    }

    fn withdraw(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        let claim = Arc::new(Claim { name: self.renamed(&claim.name), ..(*claim).clone() });
        match self.wrong {
            Wrong::IgnoresWithdrawals => Reply::now(Ok(())),
            Wrong::WithdrawsWhoeverHolds => {
                let lines = now(inner.survey(&Scope::Exact(claim.name.clone()), Look::Once)).unwrap().lines;
                let holder = lines.first().and_then(|line| line.holders().next());
                let target = holder.map_or(claim, |place| place.claim.clone());
                inner.withdraw(target, exit)
            }
            Wrong::WithdrawsWithTheNextClaim | Wrong::WithdrawsAfterTheNextClaim => {
                self.unsent.lock().unwrap().push((claim, exit));
                Reply::now(Ok(()))
            }
            Wrong::KeepsPlacesOfLostHolds => {
                let key = (claim.id.session, claim.name.clone());
                let is_there =
                    now(inner.claim(Arc::new(claim.asking()))).is_ok_and(|it| !matches!(it, Standing::Gone));
                if is_there && exit == Exit::Own {
                    self.places.lock().unwrap().remove(&key);
                }
                inner.withdraw(claim, exit)
            }
            _ => inner.withdraw(claim, exit),
        }
    }

    fn close(&self, inner: &Arc<dyn Engine>, session: SessionId) -> Reply<()> {
        if self.wrong == Wrong::ClosingEndsClaims {
            for claim in self.seen.lock().unwrap().iter().filter(|claim| claim.id.session == session) {
                now(inner.withdraw(claim.clone(), Exit::Own)).unwrap();
            }
        }
        inner.close(session)
    }

    fn ask(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>) -> Reply<()> {
        match self.wrong {
            Wrong::WishesAreLost => Reply::now(Ok(())),
            Wrong::WishesEndHolds => inner.withdraw(claim, Exit::Own),
            Wrong::RepeatedWishesEndHolds if self.count.fetch_add(1, Ordering::Relaxed) > 1 << 40 => {
                inner.withdraw(claim, Exit::Own)
            }
            Wrong::WishesReachEverybody => {
                let seen = self.seen.lock().unwrap().clone();
                for other in seen.into_iter().filter(|other| other.name == claim.name) {
                    now(inner.ask(other)).unwrap();
                }
                Reply::now(Ok(()))
            }
            _ => inner.ask(claim),
        }
    }

    fn survey(&self, inner: &Arc<dyn Engine>, scope: &Scope, look: Look) -> Reply<Survey> {
        let wide = match scope {
            Scope::Exact(name) => Scope::Exact(self.renamed(name)),
            Scope::Under(_) if self.wrong == Wrong::ScopesByText => Scope::All,
            other => other.clone(),
        };
        let mut survey = now(inner.survey(&wide, look)).unwrap();
        match (self.wrong, scope) {
            (Wrong::ScopesByText, Scope::Under(prefix)) => {
                survey.lines.retain(|line| line.name.as_str().starts_with(prefix.as_str()));
            }
            (Wrong::ShowsItBackwards, _) => {
                for line in &mut survey.lines {
                    line.places.reverse();
                }
            }
            (Wrong::SurveysDoNotWake, _) => survey.wake = Wake::never(),
            _ => {}
        }
        Reply::now(Ok(survey))
    }
}
