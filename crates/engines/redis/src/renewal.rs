//! Renewals: many claims, few calls, and none of them long.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bramah_core::{Claim, ClaimId, Error, ErrorKind, Renewal, Result};
use redis::Value;
use tokio::task::JoinSet;

use crate::{
    driver::{Driver, Slot},
    layout::{Mark, Place, redisson::Form},
    protocol::Protocol,
};

/// How many claims one call renews: it takes well under a millisecond, and nobody else is served meanwhile.
const CALL: usize = 100;
/// How many calls are under way at once.
const ABREAST: usize = 8;

/// A claim on its way to be renewed.
struct Item {
    claim: Arc<Claim>,
    place: Place,
    text: String,
}

/// What one call can renew together: of one slot and one form, and of one ttl or with leases of their own.
type Kind = (Slot, (Form, bool), Option<Duration>);

pub(crate) async fn renew<D: Driver>(
    protocol: &Arc<Protocol<D>>,
    claims: Arc<[Arc<Claim>]>,
) -> Result<Renewal> {
    let mut kinds: BTreeMap<Kind, Vec<Item>> = BTreeMap::new();
    let mut shortest = Duration::MAX;
    for claim in claims.iter() {
        let place = protocol.scheme.place(&claim.name);
        let text = protocol.scheme.text(claim, &place)?;
        shortest = shortest.min(claim.ttl);
        let ttl = claim.lease.is_none().then_some(claim.ttl);
        let class = protocol.scheme.class(protocol.item(claim, &place, &text));
        let kind = (protocol.scheme.together(&place), class, ttl);
        kinds.entry(kind).or_default().push(Item { claim: claim.clone(), place, text });
    }
    let patience = protocol.patience(shortest);
    // Each on its own: a node that does not answer holds up no other.
    let mut jobs = JoinSet::new();
    for ((_, (form, _), ttl), items) in kinds {
        let protocol = protocol.clone();
        jobs.spawn(async move { renew_kind(&protocol, form, ttl, items, patience).await });
    }
    let mut renewal = Renewal::default();
    while let Some(done) = jobs.join_next().await {
        // What was not answered must not be taken for confirmed.
        let (gone, waiting, unknown) = done.map_err(|error| {
            Error::caused(ErrorKind::Unavailable, "a renewal stopped half-way".to_owned(), error)
        })?;
        renewal.gone.extend(gone);
        renewal.waiting.extend(waiting);
        renewal.unknown.extend(unknown);
    }
    Ok(renewal)
}

/// Those that are gone, those that wait, and those that could not be asked.
async fn renew_kind<D: Driver>(
    protocol: &Protocol<D>,
    form: Form,
    ttl: Option<Duration>,
    mut items: Vec<Item>,
    patience: Duration,
) -> (Vec<ClaimId>, Vec<ClaimId>, Vec<ClaimId>) {
    let (mut gone, mut waiting, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    let is_cluster = protocol.driver.is_cluster();
    if is_cluster {
        items.sort_by(|one, other| one.place.key.cmp(&other.place.key));
    }
    let size = if form == Form::Fair { 1 } else { CALL };
    // While a slot of a cluster moves, its keys may be on two nodes: there each has a call of its own.
    let calls: Vec<&[Item]> = items
        .chunk_by(|one, other| !is_cluster || one.place.key == other.place.key)
        .flat_map(|together| together.chunks(size))
        .collect();
    let request = |call: &[Item], mark| {
        let items: Vec<_> =
            call.iter().map(|item| protocol.item(&item.claim, &item.place, &item.text)).collect();
        protocol.scheme.renew(form, &items, ttl, mark, patience)
    };
    for window in calls.chunks(ABREAST) {
        let requests = window.iter().map(|call| request(call, Mark::Unnamed)).collect();
        let mut answers = protocol.driver.send_all(requests).await;
        // What is held is kept now. Those who fit are made holders by a second call, which a slot that moves may refuse.
        let owing: Vec<_> = window
            .iter()
            .zip(&mut answers)
            .filter(
                |(call, answer)| matches!(answer, Ok(Value::Array(states)) if states.len() == call.len() + 1),
            )
            .collect();
        if !owing.is_empty() {
            let requests = owing.iter().map(|(call, _)| request(call, Mark::Named)).collect();
            // All at once: together they take no longer than one of them may.
            let advanced = protocol.driver.send_all(requests).await;
            for ((_, answer), advanced) in owing.into_iter().zip(advanced) {
                match advanced {
                    Ok(advanced) => *answer = Ok(advanced),
                    Err(error) => tracing::debug!(%error, "nobody was made a holder this time"),
                }
            }
        }
        for (index, call) in window.iter().enumerate() {
            let states = match answers.get(index) {
                // Each of them is alone in its line: nobody there waits to be told.
                Some(Ok(Value::Int(1))) => continue,
                Some(Ok(Value::Array(states))) if states.len() >= call.len() => states,
                other => {
                    if let Some(Err(error)) = other {
                        tracing::debug!(%error, "claims were not renewed this time");
                    }
                    unknown.extend(call.iter().map(|item| item.claim.id));
                    continue;
                }
            };
            for (item, state) in call.iter().zip(states) {
                match state {
                    Value::Int(0) => {
                        gone.push(item.claim.id);
                        protocol.ears.prod(item.claim.id);
                    }
                    // A grant whose push was lost.
                    Value::Int(1) => protocol.ears.prod(item.claim.id),
                    Value::Int(2) => waiting.push(item.claim.id),
                    _ => unknown.push(item.claim.id),
                }
            }
        }
    }
    (gone, waiting, unknown)
}
