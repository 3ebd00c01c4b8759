//! What is in the tables, as core shows it.

use std::{
    collections::{BTreeMap, HashMap},
    future::Future,
    sync::Arc,
    time::Duration,
};

use bramah_core::{
    About, Bell, Broken, Claim, ClaimId, Error, ErrorKind, Fence, Health, LineView, Name, PlaceState,
    PlaceView, Result, Scope, Survey, Wait, Wake, Woken,
};

use crate::{Break, Found, Seen, answer::millis};

/// How often it is looked for those who go on watching.
const WATCHING: Duration = Duration::from_millis(200);

/// The longest time that they trust that.
const TRUST: Duration = Duration::from_secs(2);

/// What one look is told apart from another by.
#[derive(PartialEq)]
pub(crate) struct Sight {
    places: Vec<(ClaimId, bool, i64, String)>,
    breaks: Vec<ClaimId>,
}

impl Sight {
    pub(crate) fn of(rows: &[Seen], breaks: &[Break]) -> Self {
        let place = |row: &Seen| {
            (ClaimId { session: row.session, seq: row.seq }, row.held, row.fence, row.found.note.clone())
        };
        let mut breaks: Vec<ClaimId> =
            breaks.iter().map(|record| ClaimId { session: record.session, seq: record.seq }).collect();
        breaks.sort_unstable();
        Self { places: rows.iter().map(place).collect(), breaks }
    }
}

/// Looks until something is different, or nobody wants to know. Changes are not told to those who only look: most tables have
/// no such visitor, and every release would pay for it.
pub(crate) async fn watch<F>(look: impl Fn() -> F, first: Sight, bell: Bell)
where
    F: Future<Output = Result<(Vec<Seen>, Vec<Break>)>>,
{
    while !bell.is_deaf() {
        tokio::time::sleep(WATCHING).await;
        match look().await {
            Ok((rows, breaks)) if Sight::of(&rows, &breaks) == first => {}
            _ => {
                bell.ring(Woken::Ask);
                return;
            }
        }
    }
}

pub(crate) fn of(scope: &Scope, rows: Vec<Seen>, breaks: Vec<Break>, wake: Wake) -> Result<Survey> {
    let mut survey = Survey { lines: Vec::new(), unreadable: Vec::new(), wake, sleep: TRUST };
    let mut by_name: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
    for row in rows {
        by_name.entry(row.found.name.clone()).or_default().push(row);
    }
    let is_named = matches!(scope, Scope::Exact(_));
    let mut breaks: HashMap<String, Break> =
        breaks.into_iter().map(|record| (record.name.clone(), record)).collect();
    if is_named {
        // One that was asked for by name shows how it was last ended also when nobody is there.
        for name in breaks.keys() {
            by_name.entry(name.clone()).or_default();
        }
    }
    for (name, rows) in by_name {
        match line(&name, rows, breaks.remove(&name)) {
            Ok(line) => survey.lines.push(line),
            Err(error) if is_named => return Err(error),
            Err(error) => survey.unreadable.push(error),
        }
    }
    survey.lines.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(survey)
}

fn line(name: &str, rows: Vec<Seen>, record: Option<Break>) -> Result<LineView> {
    let broken = record.map(|record| Broken {
        id: ClaimId { session: record.session, seq: record.seq },
        cause: Arc::new(bramah_core::Break { by: record.by.into(), reason: record.reason.into() }),
        ago: millis(record.ago),
    });
    let mut places = Vec::with_capacity(rows.len());
    for row in rows {
        let claim = Arc::new(claim_of(ClaimId { session: row.session, seq: row.seq }, &row.found)?);
        let fence = u64::try_from(row.fence).ok().map(Fence::new).filter(|_| claim.is_exclusive());
        let state = match row.held {
            true => PlaceState::Held { fence, since: row.since.map(millis) },
            false => PlaceState::Waiting,
        };
        // What cannot be read of it is not worth hiding the lock.
        let about = row.about.and_then(|text| About::decode(&text).ok()).map(Arc::new);
        places.push(PlaceView {
            claim,
            about,
            state,
            age: row.age.map(millis),
            left: row.left.map(millis),
            renewed: row.renewed.map(millis),
            health: Health::Unknown,
        });
    }
    let capacity = places.first().map_or(1, |place: &PlaceView| place.claim.capacity);
    Ok(LineView { name: Name::new(name)?, capacity, places, broken })
}

/// The claim that a row is about.
pub(crate) fn claim_of(id: ClaimId, found: &Found) -> Result<Claim> {
    let damaged = |what: &str| {
        Error::new(
            ErrorKind::Corrupt,
            format!("{}: a row in bramah_claims has {what}; was it written by hand?", found.name),
        )
    };
    let part = |number: i64| u32::try_from(number).ok().filter(|number| *number > 0);
    let capacity = part(found.capacity).ok_or_else(|| damaged("no capacity"))?;
    let weight = part(found.weight).filter(|weight| *weight <= capacity);
    Ok(Claim {
        id,
        name: Name::new(&found.name)?,
        capacity,
        weight: weight.ok_or_else(|| damaged("a weight that does not fit"))?,
        wait: Wait::Line,
        again: true,
        floor: None,
        ttl: millis(found.ttl),
        lease: found.lease.map(millis),
        note: found.note.as_str().into(),
    })
}
