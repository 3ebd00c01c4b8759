//! What is seen of locks on several stores, and wishes for them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    Inner,
    round::{Stop, so_many_of},
};
use crate::{
    Claim, ClaimId, Error, ErrorKind, Fence, LineView, Look, Name, PlaceState, PlaceView, Result, Scope,
    Survey, Wake,
};

/// How long a look may take: it concerns no lock of ours.
const PATIENCE: Duration = Duration::from_secs(2);

/// The lines of all members, one for each name. A claim holds that is held by enough of them; what has fewer votes is on
/// its way, or left over, and is not shown.
pub(super) async fn survey(inner: &Inner, scope: &Scope, look: Look) -> Result<Survey> {
    let mut answers = inner.ask_all(PATIENCE, |_| Stop::No, |engine| engine.survey(scope, look)).await;
    if answers.all_good().count() < inner.need() {
        return Err(inner.too_few("can be looked at", &answers));
    }
    let (mut wakes, mut sleep) = (Vec::new(), Duration::from_secs(1));
    let mut unreadable: Vec<Error> = Vec::new();
    let mut lines: BTreeMap<Name, Vec<LineView>> = BTreeMap::new();
    for seen in answers.take_good() {
        wakes.push(seen.wake);
        sleep = sleep.min(seen.sleep);
        unreadable.extend(seen.unreadable);
        for line in seen.lines {
            lines.entry(line.name.clone()).or_default().push(line);
        }
    }
    let wake =
        if look == Look::Watching { so_many_of(wakes, 1, inner.clock.clone(), None) } else { Wake::never() };
    let lines = lines.into_values().filter_map(|views| together(views, inner.need())).collect();
    unreadable.retain(|error| error.kind() != ErrorKind::Unavailable);
    Ok(Survey { lines, unreadable, wake, sleep })
}

/// Has every member pass a wish on. It takes as many as grant a lock: one of them at least is where the holder has it, and tells
/// with its renewal.
pub(super) async fn pass_on(inner: &Inner, claim: &Arc<Claim>) -> Result<()> {
    let answers = inner.ask_all(PATIENCE, |_| Stop::No, |engine| engine.ask(claim.clone())).await;
    if answers.all_good().count() >= inner.need() {
        return Ok(());
    }
    Err(answers.refusal().unwrap_or_else(|| inner.too_few("take a wish", &answers)))
}

fn together(views: Vec<LineView>, need: usize) -> Option<LineView> {
    let votes = |place: &PlaceView| {
        let has = |view: &&LineView| view.holders().any(|other| other.claim.id == place.claim.id);
        views.iter().filter(has).count()
    };
    let held = |id: ClaimId| {
        let places = views.iter().flat_map(LineView::holders).filter(move |place| place.claim.id == id);
        places.filter_map(|place| match place.state {
            PlaceState::Held { fence, .. } => Some(fence),
            PlaceState::Waiting => None,
        })
    };
    let mut places: Vec<PlaceView> = Vec::new();
    for place in views.iter().flat_map(LineView::holders) {
        if votes(place) < need {
            continue;
        }
        match places.iter_mut().find(|known| known.claim.id == place.claim.id) {
            // What the least of them says is what can be counted on.
            Some(known) => {
                if let PlaceState::Held { fence, since } = known.state {
                    let mut fences: Vec<Fence> = held(place.claim.id).flatten().collect();
                    fences.sort_unstable_by(|one, other| other.cmp(one));
                    // The one that enough of them know.
                    let fence = fences.get(need - 1).copied().or(fence);
                    known.state = PlaceState::Held { fence, since: since.or(place.held_for()) };
                }
                known.left = [known.left, place.left].into_iter().flatten().min();
                known.age = known.age.or(place.age);
                // One that any of them has heard from is not frozen.
                known.renewed = [known.renewed, place.renewed].into_iter().flatten().min();
                if known.about.is_none() {
                    known.about.clone_from(&place.about);
                }
            }
            None => places.push(place.clone()),
        }
    }
    let broken = views.iter().filter_map(|view| view.broken.clone()).min_by_key(|broken| broken.ago);
    let first = views.first()?;
    if places.is_empty() && broken.is_none() {
        return None;
    }
    Some(LineView { name: first.name.clone(), capacity: first.capacity, places, broken })
}
