//! Keeping claims at members, and giving back what one has lost.

use std::{
    collections::{BTreeSet, HashSet},
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use super::{Inner, Joined, flights::Renewing, round::Stop};
use crate::{Claim, ClaimId, Exit, LineView, Look, Renewal, Reply, Result, Scope, SessionId, Wait};

/// What a member said of the claims that it did not confirm.
struct Found {
    lost: HashSet<ClaimId>,
    unknown: HashSet<ClaimId>,
}

impl Found {
    fn of(renewal: &Renewal) -> Self {
        Self {
            lost: renewal.gone.iter().chain(&renewal.waiting).copied().collect(),
            unknown: renewal.unknown.iter().copied().collect(),
        }
    }
}

/// What became of a claim that a member had lost.
enum Given {
    Back,
    Broken,
}

impl Inner {
    pub(super) async fn renew(
        self: Arc<Self>,
        session: SessionId,
        claims: Arc<[Arc<Claim>]>,
        renewing: Arc<Renewing>,
    ) -> Result<Renewal> {
        let shortest = claims.iter().map(|claim| claim.ttl).min().unwrap_or(Duration::from_secs(1));
        self.reopen(session);
        // Not the time of one node: a renewal may be long, and has a third of the ttl.
        let patience = shortest / 4;
        let answers =
            self.ask_all(patience, |_| Stop::No, |engine| engine.renew(session, claims.clone())).await;
        self.note_dropped(session, &answers);
        if answers.refusals() > self.spare()
            && let Some(error) = answers.refusal()
        {
            return Err(error);
        }
        // Sets: there may be tens of thousands of claims, and a member that is down has all of them in its list.
        let found: Vec<(usize, Found)> =
            answers.all_good().map(|(at, renewal)| (at, Found::of(renewal))).collect();
        // One member is enough to tell: a wish changes nothing.
        let asked: BTreeSet<ClaimId> =
            answers.all_good().flat_map(|(_, renewal)| renewal.asked.iter().copied()).collect();
        let mut renewal = Renewal { asked: asked.into_iter().collect(), ..Renewal::default() };
        for claim in claims.iter() {
            let is_lost = |found: &Found| found.lost.contains(&claim.id);
            let lost: Vec<usize> =
                found.iter().filter(|(_, found)| is_lost(found)).map(|(at, _)| *at).collect();
            let confirms = |found: &Found| !is_lost(found) && !found.unknown.contains(&claim.id);
            let confirmed = found.iter().filter(|(_, found)| confirms(found)).count();
            if confirmed >= self.need() {
                self.give_back(claim, lost, &renewing);
            } else if lost.len() > self.spare() {
                renewal.gone.push(claim.id);
            } else {
                renewal.unknown.push(claim.id);
            }
        }
        Ok(renewal)
    }

    /// Opens a session where it is not open yet, beside what else is done. What comes of it shows with the next claim.
    fn reopen(self: &Arc<Self>, session: SessionId) {
        let Some(joined) = self.sessions().get(&session).cloned() else { return };
        let closed: Vec<usize> = {
            let open = joined.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.iter().enumerate().filter(|(_, open)| !**open).map(|(at, _)| at).collect()
        };
        if closed.is_empty() || joined.reopening.swap(true, Ordering::AcqRel) {
            return;
        }
        let members: Vec<_> =
            closed.into_iter().filter_map(|at| Some((at, self.members.get(at)?.clone()))).collect();
        self.flights.spawn(async move {
            let done = Reopening(joined);
            for (at, member) in members {
                if member.engine.open(done.0.opening.clone()).await.is_ok() {
                    done.0.set(at, true);
                }
            }
        });
    }

    /// Enters a claim again where it was lost. Without a lease only: that has begun elsewhere. One that was broken there is
    /// broken everywhere: whoever does that comes to the members one by one, and we may be in between.
    fn give_back(self: &Arc<Self>, claim: &Arc<Claim>, lost: Vec<usize>, renewing: &Arc<Renewing>) {
        if claim.lease.is_some() || renewing.has_left(claim.id) {
            return;
        }
        let again = Arc::new(Claim { again: false, wait: Wait::No, floor: None, ..(**claim).clone() });
        for (at, member) in lost.into_iter().filter_map(|at| Some((at, self.members.get(at)?.clone()))) {
            let again = again.clone();
            let entered = self.flights.of_claim(
                claim.id,
                at,
                Reply::later(async move {
                    let seen = member.engine.survey(&Scope::Exact(again.name.clone()), Look::Once).await?;
                    let is_broken =
                        |line: &LineView| line.broken.as_ref().is_some_and(|broken| broken.id == again.id);
                    if seen.lines.iter().any(is_broken) {
                        return Ok(Given::Broken);
                    }
                    member.engine.claim(again).await.map(|_| Given::Back)
                }),
            );
            let (inner, claim, renewing) = (self.clone(), claim.clone(), renewing.clone());
            self.flights.spawn(async move {
                // What else comes of it shows with the next renewal.
                let given = entered.await;
                // It may have been released meanwhile.
                if matches!(given, Ok(Given::Broken)) || renewing.has_left(claim.id) {
                    let _ = inner.withdraw(claim, Exit::Own).await;
                }
            });
        }
    }
}

/// A session is being opened again; over also when its task ends with its runtime.
struct Reopening(Arc<Joined>);

impl Drop for Reopening {
    fn drop(&mut self) {
        self.0.reopening.store(false, Ordering::Release);
    }
}
