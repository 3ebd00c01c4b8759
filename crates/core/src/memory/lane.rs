//! One name's line in memory, with who is in it and until when.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::{
    About, Bell, Break, Broken, Claim, ClaimId, Exit, Fence, Health, LineView, Moment, Name, PlaceState,
    PlaceView, Result, SessionId, Standing, Wait, Wake, Woken, fence::Mint, line::Line,
};

/// How far a fence that is asked for may be ahead of the time.
const AHEAD_US: u64 = 1_000_000;

/// What a lane needs of the store to judge and to grant.
pub(super) struct Terms<'a> {
    pub(super) now: Moment,
    pub(super) wall_us: u64,
    pub(super) mint: &'a Mint,
}

pub(super) struct Lane {
    line: Line<Place>,
    /// Those who took no place and want to hear of a free one.
    watchers: Vec<Bell>,
    broken: Option<(ClaimId, Arc<Break>, Moment)>,
}

struct Place {
    claim: Arc<Claim>,
    entered: Moment,
    /// When its expiry was last moved.
    renewed: Moment,
    expires: Moment,
    grant: Option<Grant>,
    bell: Option<Bell>,
    /// Whether somebody asks for it.
    asked: bool,
}

struct Grant {
    at: Moment,
    fence: Option<Fence>,
    /// Whether the holder has confirmed it: from then on a fixed lease runs, and no renewal stretches it.
    confirmed: bool,
}

impl Lane {
    pub(super) fn new(capacity: u32) -> Self {
        Self { line: Line::new(capacity), watchers: Vec::new(), broken: None }
    }

    /// Whether it can be forgotten. A record of a break keeps it until the next claim has come and gone.
    pub(super) fn is_idle(&self) -> bool {
        self.line.is_empty() && self.watchers.is_empty() && self.broken.is_none()
    }

    /// Enters, or asks.
    pub(super) fn claim(&mut self, claim: Arc<Claim>, terms: &Terms<'_>) -> Result<Standing> {
        self.pass_over_the_dead(terms);
        if let Some(index) = self.line.find(|place| place.claim.id == claim.id) {
            return Ok(self.ask(index, claim, terms));
        }
        if claim.again {
            return Ok(Standing::Gone);
        }
        if !self.line.is_empty() && self.line.capacity() != claim.capacity {
            return Err(claim.conflict(self.line.capacity()));
        }
        self.line.recapacitate(claim.capacity);
        if !self.line.would_hold(claim.weight) && claim.wait != Wait::Line {
            return Ok(self.turn_away(&claim));
        }
        self.broken = self.broken.take().filter(|_| !self.line.is_empty());
        let weight = claim.weight;
        let expires = terms.now + claim.kept();
        let place = Place {
            claim,
            entered: terms.now,
            renewed: terms.now,
            expires,
            grant: None,
            bell: None,
            asked: false,
        };
        let held = self.line.enter(weight, place);
        let index = self.line.len() - 1;
        if held && let Some(place) = self.line.get_mut(index) {
            place.granted(terms, true);
            return Ok(place.standing(terms.now));
        }
        Ok(self.queue(index, terms))
    }

    /// A claim that is in line asks where it stands: that proves its life like a renewal.
    fn ask(&mut self, index: usize, claim: Arc<Claim>, terms: &Terms<'_>) -> Standing {
        let Some(place) = self.line.get_mut(index) else { return Standing::Gone };
        place.claim = claim;
        place.prolong(terms.now);
        let Some(grant) = &mut place.grant else { return self.queue(index, terms) };
        if !grant.confirmed {
            grant.confirmed = true;
            place.expires = terms.now + place.claim.lease.unwrap_or(place.claim.ttl);
        }
        if let (Some(fence), Some(floor)) = (&mut grant.fence, place.claim.floor) {
            *fence = (*fence).max(floor);
            terms.mint.raise(*fence);
        }
        place.standing(terms.now)
    }

    fn queue(&mut self, index: usize, terms: &Terms<'_>) -> Standing {
        let (bell, wake) = Wake::pair();
        let ahead = u32::try_from(index).ok();
        // Only the front waiter times the holders, or a dead one would wake the whole line at once.
        let soonest = self.line.iter().take(self.line.held()).map(|place| place.expires).min();
        let is_front = index == self.line.held();
        let Some(place) = self.line.get_mut(index) else { return Standing::Gone };
        place.bell = Some(bell);
        let sleep = match soonest {
            Some(expires) if is_front => expires.since(terms.now) + Duration::from_millis(1),
            _ => place.claim.kept(),
        };
        Standing::Queued { ahead, wake, sleep }
    }

    fn turn_away(&mut self, claim: &Claim) -> Standing {
        if claim.wait == Wait::No {
            return Standing::Refused;
        }
        let (bell, wake) = Wake::pair();
        self.watchers.retain(|bell| !bell.is_deaf());
        self.watchers.push(bell);
        Standing::Queued { ahead: None, wake, sleep: claim.ttl }
    }

    /// Whether the claim is in line, and now for a ttl longer.
    pub(super) fn renew(&mut self, claim: &Claim, terms: &Terms<'_>) -> bool {
        self.pass_over_the_dead(terms);
        let Some(index) = self.line.find(|place| place.claim.id == claim.id) else { return false };
        match self.line.get_mut(index) {
            Some(place) if place.expires > terms.now => {
                if place.claim.ttl != claim.ttl {
                    place.claim = Arc::new(Claim { ttl: claim.ttl, ..(*place.claim).clone() });
                }
                place.prolong(terms.now);
                true
            }
            _ => {
                self.line.remove(index);
                self.advance(terms);
                false
            }
        }
    }

    /// Notes that somebody asks for a claim.
    pub(super) fn wish(&mut self, id: ClaimId) {
        if let Some(place) =
            self.line.find(|place| place.claim.id == id).and_then(|index| self.line.get_mut(index))
        {
            place.asked = true;
        }
    }

    /// Whether somebody asks for a claim.
    pub(super) fn is_asked(&self, id: ClaimId) -> bool {
        self.line.iter().any(|place| place.claim.id == id && place.asked)
    }

    pub(super) fn withdraw(&mut self, id: ClaimId, exit: &Exit, terms: &Terms<'_>) {
        if let Some(index) = self.line.find(|place| place.claim.id == id) {
            self.line.remove(index);
            if let Exit::Broken(cause) = exit {
                self.broken = Some((id, cause.clone(), terms.now));
            }
        }
        self.pass_over_the_dead(terms);
        self.advance(terms);
    }

    /// Drops holders whose lease has run out. Waiters are judged when they reach the head.
    fn pass_over_the_dead(&mut self, terms: &Terms<'_>) {
        let mut index = 0;
        let mut dropped = false;
        while index < self.line.held() {
            if self.line.get(index).is_some_and(|place| place.expires <= terms.now) {
                self.line.remove(index);
                dropped = true;
            } else {
                index += 1;
            }
        }
        if dropped {
            self.advance(terms);
        }
    }

    /// Grants whoever fits now.
    fn advance(&mut self, terms: &Terms<'_>) {
        while let Some(next) = self.line.next_fitting() {
            if next.expires <= terms.now {
                self.line.remove(self.line.held());
                continue;
            }
            if let Some(place) = self.line.grant_next() {
                let fence = place.granted(terms, false);
                if let Some(bell) = place.bell.take() {
                    bell.ring(Woken::Held(fence));
                }
            }
        }
        for bell in self.watchers.drain(..) {
            bell.ring(Woken::Ask);
        }
    }

    /// The claims that have not run out.
    pub(super) fn living(&self, now: Moment) -> impl Iterator<Item = &Arc<Claim>> {
        self.line.iter().filter(move |place| place.expires > now).map(|place| &place.claim)
    }

    pub(super) fn view(
        &self,
        name: &Name,
        about: &HashMap<SessionId, Arc<About>>,
        now: Moment,
    ) -> Option<LineView> {
        let places: Vec<PlaceView> = self
            .line
            .iter()
            .filter(|place| place.expires > now)
            .map(|place| place.view(about, now))
            .collect();
        let broken = self.broken.as_ref().map(|(id, cause, at)| Broken {
            id: *id,
            cause: cause.clone(),
            ago: now.since(*at),
        });
        let seen = !places.is_empty() || broken.is_some();
        seen.then(|| LineView { name: name.clone(), capacity: self.line.capacity(), places, broken })
    }
}

impl Place {
    /// Moves the expiry, unless a fixed lease is running.
    fn prolong(&mut self, now: Moment) {
        self.renewed = now;
        match &self.grant {
            None => self.expires = now + self.claim.kept(),
            Some(grant) if grant.confirmed && self.claim.lease.is_some() => {}
            Some(_) => self.expires = now + self.claim.ttl,
        }
    }

    /// What a holder is told.
    fn standing(&self, now: Moment) -> Standing {
        let fence = self.grant.as_ref().and_then(|grant| grant.fence);
        Standing::Held { fence, left: self.claim.lease.map(|_| self.expires.since(now)) }
    }

    /// It becomes a holder: mints its fence and starts its time.
    fn granted(&mut self, terms: &Terms<'_>, confirmed: bool) -> Option<Fence> {
        let hint = self.claim.floor.filter(|hint| hint.get() < terms.wall_us.saturating_add(AHEAD_US));
        let wall_us = hint.map_or(terms.wall_us, |hint| hint.get().max(terms.wall_us));
        let fence = self.claim.is_exclusive().then(|| terms.mint.next(wall_us));
        let span = if confirmed { self.claim.lease.unwrap_or(self.claim.ttl) } else { self.claim.kept() };
        (self.renewed, self.expires) = (terms.now, terms.now + span);
        self.grant = Some(Grant { at: terms.now, fence, confirmed });
        fence
    }

    fn view(&self, about: &HashMap<SessionId, Arc<About>>, now: Moment) -> PlaceView {
        let is_fixed = self.grant.is_some() && self.claim.lease.is_some();
        PlaceView {
            claim: self.claim.clone(),
            about: about.get(&self.claim.id.session).cloned(),
            state: self.grant.as_ref().map_or(PlaceState::Waiting, |grant| PlaceState::Held {
                fence: grant.fence,
                since: Some(now.since(grant.at)),
            }),
            age: Some(now.since(self.entered)),
            left: Some(self.expires.since(now)),
            renewed: (!is_fixed).then(|| now.since(self.renewed)),
            health: Health::Unknown,
        }
    }
}
