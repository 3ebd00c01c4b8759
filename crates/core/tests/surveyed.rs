//! What a survey says of the times of a claim.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{sync::Arc, time::Duration};

use bramah_core::{
    About, Claim, ClaimId, Clock, Engine, Exit, Keep, Look, Memory, Name, Opening, PlaceView, Scope,
    SessionId, Wait,
    quorum::{Member, Quorum},
};

const TTL: Duration = Duration::from_secs(30);

fn claim(session: u128, name: &str) -> Claim {
    Claim {
        id: ClaimId { session: SessionId::from_bits(session), seq: 1 },
        name: Name::new(name).unwrap(),
        capacity: 1,
        weight: 1,
        wait: Wait::Line,
        again: false,
        floor: None,
        ttl: TTL,
        lease: None,
        note: "".into(),
    }
}

async fn enter(engine: &dyn Engine, claim: &Claim) {
    let about = About::this_process();
    let opening = Opening::new(claim.id.session, TTL, Keep::Process, about);
    engine.open(Arc::new(opening)).await.unwrap();
    engine.claim(Arc::new(claim.clone())).await.unwrap();
}

async fn renew(engine: &dyn Engine, claim: &Claim) {
    engine.renew(claim.id.session, [Arc::new(claim.clone())].into()).await.unwrap();
}

async fn place(engine: &dyn Engine, claim: &Claim) -> PlaceView {
    let survey = engine.survey(&Scope::Exact(claim.name.clone()), Look::Once).await.unwrap();
    let mut places = survey.lines.into_iter().flat_map(|line| line.places);
    places.find(|place| place.claim.id == claim.id).unwrap()
}

async fn pass(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

#[tokio::test(start_paused = true)]
async fn a_claim_tells_when_it_entered_when_it_was_granted_and_when_it_was_renewed() {
    let store = Memory::with_clock(Clock::runtime());
    let (first, second) = (claim(1, "a"), claim(2, "a"));
    enter(&store, &first).await;
    pass(7).await;
    let seen = place(&store, &first).await;
    assert_eq!((seen.age, seen.held_for(), seen.renewed), (seconds(7), seconds(7), seconds(7)));
    renew(&store, &first).await;
    enter(&store, &second).await;
    pass(3).await;
    let seen = place(&store, &first).await;
    assert_eq!((seen.age, seen.held_for(), seen.renewed), (seconds(10), seconds(10), seconds(3)));
    assert_eq!(seen.left, seconds(27));
    let seen = place(&store, &second).await;
    assert_eq!(
        (seen.age, seen.held_for(), seen.renewed, seen.left),
        (seconds(3), None, seconds(3), seconds(2))
    );
    // A grant that is pushed extends a claim briefly, and a renewal by its ttl.
    store.withdraw(Arc::new(first), Exit::Own).await.unwrap();
    pass(1).await;
    let seen = place(&store, &second).await;
    assert_eq!(
        (seen.age, seen.held_for(), seen.renewed, seen.left),
        (seconds(4), seconds(1), seconds(1), seconds(4))
    );
    renew(&store, &second).await;
    let seen = place(&store, &second).await;
    assert_eq!((seen.held_for(), seen.renewed, seen.left), (seconds(1), seconds(0), seconds(30)));
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_is_not_renewed() {
    let store = Memory::with_clock(Clock::runtime());
    let fixed = Claim { lease: seconds(60), ..claim(1, "a") };
    enter(&store, &fixed).await;
    pass(5).await;
    renew(&store, &fixed).await;
    let seen = place(&store, &fixed).await;
    assert_eq!((seen.renewed, seen.left), (None, seconds(55)));
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_one_of_several_stores_has_heard_from_is_not_frozen() {
    let stores: Vec<Memory> = (0..3).map(|_| Memory::with_clock(Clock::runtime())).collect();
    let members = stores.iter().enumerate().map(|(at, store)| Member::new(at.to_string(), store.clone()));
    let quorum = Quorum::builder(members).clock(Clock::runtime()).build().unwrap();
    let held = claim(1, "a");
    for store in &stores {
        enter(store, &held).await;
    }
    pass(8).await;
    renew(&stores[2], &held).await;
    pass(1).await;
    let seen = place(&quorum, &held).await;
    assert_eq!((seen.held_for(), seen.renewed, seen.left), (seconds(9), seconds(1), seconds(21)));
}
