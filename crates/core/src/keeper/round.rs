//! The renewals of one session.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinSet;
use tracing::warn;

use super::{Done, FLIGHTS, PLACES};
use crate::{
    Claim, ClaimId, Leasing, Liveness, Moment,
    calls::InFlight,
    core::{Core, Ending},
    parting::{jittered, settle, within},
    seat::{Phase, Seat},
};

/// One session's schedule.
pub(super) struct Kept {
    pub(super) core: Arc<Core>,
    pub(super) next_round: Moment,
    /// When the places in line are renewed, where that is done more often.
    pub(super) next_places: Moment,
    pub(super) next_lapse: Moment,
    /// When the renewals that are not answered yet were sent.
    pub(super) flights: Vec<Moment>,
}

/// A claim that a renewal asked about.
pub(super) struct Asked {
    pub(super) seat: Arc<Seat>,
    /// What it was when the renewal was sent: the store keeps a hold for its ttl from then on, a place more briefly.
    pub(super) phase: Phase,
    pub(super) call: InFlight,
}

impl Kept {
    /// Declares what has run out and starts a round if one is due.
    pub(super) fn attend(&mut self, now: Moment, jobs: &mut JoinSet<Done>) {
        let mut asked = Vec::new();
        let mut claims: Vec<Arc<Claim>> = Vec::new();
        self.next_lapse = Moment::NEVER;
        let due = self.next_round <= now;
        let places_due = self.next_places <= now;
        for (_, seat) in self.core.seats().iter() {
            let phase = seat.phase();
            if !matches!(phase, Phase::Waiting | Phase::Held) {
                continue;
            }
            let deadline = seat.deadline();
            if deadline > now {
                self.next_lapse = self.next_lapse.min(deadline);
            } else if phase == Phase::Held {
                // Unless its holder has noticed just now.
                if seat.lapse(now) {
                    warn!(claim = ?seat.id, "not confirmed in time: lost");
                    self.core.end_hold(seat, Ending::RanOut);
                }
                continue;
            }
            if due || places_due && seat.is_brief() {
                let claim = seat.claim();
                // A lease that the store ends is never renewed; one that we end hangs from the session.
                let is_kept = self.core.profile.lease == Leasing::Kept;
                let is_renewed = phase == Phase::Waiting || is_kept || claim.lease.is_none();
                if is_renewed && let Some(call) = InFlight::new(seat, self.late(now)) {
                    asked.push(Asked { seat: seat.clone(), phase, call });
                    claims.push(claim);
                }
            }
        }
        if places_due {
            let none = asked.is_empty() && self.core.disarm_places();
            self.next_places = if none { Moment::NEVER } else { now + PLACES };
        }
        if due || !claims.is_empty() {
            self.round(now, due, asked, claims.into(), jobs);
        }
    }

    pub(super) fn seat(&self, id: ClaimId) -> Option<Arc<Seat>> {
        self.core.seats().iter().map(|(_, seat)| seat).find(|seat| seat.id == id).cloned()
    }

    /// Renews one claim out of turn.
    pub(super) fn look(&mut self, now: Moment, id: ClaimId, jobs: &mut JoinSet<Done>) {
        let Some(seat) = self.seat(id) else { return };
        let phase = seat.phase();
        if matches!(phase, Phase::Waiting | Phase::Held)
            && let Some(call) = InFlight::new(&seat, self.late(now))
        {
            let claims: Arc<[Arc<Claim>]> = [seat.claim()].into();
            self.ask(now, self.core.pace(), vec![Asked { seat, phase, call }], claims, jobs);
        }
    }

    /// When a renewal that is sent now has arrived for certain, or never will: it is given up after a ttl, and may arrive a ttl later.
    fn late(&self, now: Moment) -> Moment {
        now + self.core.pace() * 2
    }

    fn round(
        &mut self,
        now: Moment,
        whole: bool,
        asked: Vec<Asked>,
        claims: Arc<[Arc<Claim>]>,
        jobs: &mut JoinSet<Done>,
    ) {
        let core = &self.core;
        let keeps_itself = core.profile.liveness == Liveness::Lease;
        if keeps_itself && claims.is_empty() && !core.is_in_doubt(now) && core.disarm() {
            self.next_round = Moment::NEVER;
            return;
        }
        self.flights.retain(|sent| now.since(*sent) < core.pace());
        if self.flights.len() >= FLIGHTS {
            self.next_round = self.next_round.max(now + core.pace().min(Claim::MAX_KEPT) / 6);
            // Nothing was sent, so nothing can arrive.
            asked.into_iter().for_each(|asked| asked.call.answered());
            return;
        }
        let patience = if whole { core.pace() } else { core.pace().min(Claim::MAX_KEPT) };
        self.flights.push(now);
        // Whether it has been answered by then or not.
        if whole {
            self.next_round = now + core.pace() / 3;
        }
        self.ask(now, patience, asked, claims, jobs);
    }

    fn ask(
        &self,
        now: Moment,
        patience: Duration,
        asked: Vec<Asked>,
        claims: Arc<[Arc<Claim>]>,
        jobs: &mut JoinSet<Done>,
    ) {
        let session = self.core.id();
        let reply = self.core.engine.renew(session, claims);
        let clock = self.core.clock.clone();
        jobs.spawn(async move {
            let answer = within(&clock, now + patience, settle(reply)).await;
            Done::Renewed { session, sent: now, asked, answer }
        });
    }

    pub(super) fn retry_soon(&mut self, now: Moment) {
        let pause = (self.core.pace() / 30).max(Duration::from_millis(5));
        self.next_round = self.next_round.min(now + jittered(pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{About, Clock, Engine, Keep, Keeper, Memory, Opening, SessionId};

    /// A lock is left only when no renewal may still arrive.
    #[tokio::test]
    async fn a_renewal_that_was_not_sent_for_want_of_answers_cannot_arrive() {
        let clock = Clock::boot();
        let (keeper, _driver) = Keeper::driven(clock.clone());
        let engine: Arc<dyn Engine> = Arc::new(Memory::new());
        let ttl = Duration::from_secs(60);
        let opening = Opening::new(SessionId::from_bits(1), ttl, Keep::Nobody, About::this_process());
        let core = Arc::new(Core::new(engine, keeper, Arc::new(opening), ttl, None));
        let now = clock.now();
        for (flights, may_arrive) in [(FLIGHTS, false), (FLIGHTS - 1, true)] {
            let mut kept = Kept {
                core: core.clone(),
                next_round: now,
                next_places: Moment::NEVER,
                next_lapse: Moment::NEVER,
                flights: vec![now; flights],
            };
            let (seat, mut jobs) = (Arc::new(Seat::for_tests(None)), JoinSet::new());
            let call = InFlight::new(&seat, kept.late(now)).unwrap();
            let asked = vec![Asked { seat: seat.clone(), phase: Phase::Held, call }];
            kept.round(now, true, asked, [seat.claim()].into(), &mut jobs);
            assert_eq!(jobs.is_empty(), !may_arrive, "{flights} in flight");
            // Given up without an answer.
            jobs.shutdown().await;
            assert_eq!(seat.calls.may_arrive(&clock), may_arrive, "{flights} in flight");
        }
    }
}
