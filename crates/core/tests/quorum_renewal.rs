//! What a renewal of a quorum costs, and what it gives back.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{sync::Arc, time::Duration};

use bramah_conformance::twist::{Twist, Twisted};
use bramah_core::{
    About, Claim, ClaimId, Clock, Engine, Exit, Keep, Look, Memory, Name, Opening, Renewal, Reply, Scope,
    SessionId, Standing, Wait,
    quorum::{Member, Quorum},
};

/// A store that answers for nothing, or confirms everything.
#[derive(Debug)]
enum Says {
    Unknown,
    Held,
}

impl Twist for Says {
    fn renew(&self, _: &Arc<dyn Engine>, _: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        let unknown = match self {
            Self::Unknown => claims.iter().map(|claim| claim.id).collect(),
            Self::Held => Vec::new(),
        };
        Reply::now(Ok(Renewal { unknown, ..Renewal::default() }))
    }
}

fn claims(number: u64) -> Arc<[Arc<Claim>]> {
    let name = Name::new("many").unwrap();
    let claim = |seq| Claim {
        id: ClaimId { session: SessionId::from_bits(1), seq },
        name: name.clone(),
        capacity: 1,
        weight: 1,
        wait: Wait::No,
        again: false,
        floor: None,
        ttl: Duration::from_secs(30),
        lease: None,
        note: "".into(),
    };
    (1..=number).map(|seq| Arc::new(claim(seq))).collect()
}

/// The least of several attempts: what else runs on this machine does not count.
async fn cost(quorum: &Quorum, number: u64) -> Duration {
    let claims = claims(number);
    let (clock, mut least) = (Clock::boot(), Duration::MAX);
    for _ in 0..5 {
        let began = clock.now();
        let renewal = quorum.renew(SessionId::from_bits(1), claims.clone()).await.unwrap();
        least = least.min(clock.now().since(began));
        assert!(renewal.gone.is_empty() && renewal.unknown.is_empty());
    }
    least
}

/// Eight times as many cost eight times as much, and not 64 times.
#[tokio::test]
async fn with_a_member_that_answers_for_nothing_a_renewal_costs_in_proportion_to_its_claims() {
    let members = [Says::Unknown, Says::Held, Says::Held].into_iter().enumerate();
    let members = members.map(|(at, says)| {
        let engine: Arc<dyn Engine> = Arc::new(Twisted::new(Arc::new(Memory::new()), Arc::new(says)));
        Member::new(format!("store {at}"), engine)
    });
    let quorum = Quorum::builder(members).build().unwrap();
    let (few, many) = (cost(&quorum, 2_500).await, cost(&quorum, 20_000).await);
    assert!(many < few * 30, "2,500 claims cost {few:?}, 20,000 cost {many:?}");
}

/// A renewal is in flight from the call on, whenever it is polled: a claim that leaves behind it is not given back.
#[tokio::test]
async fn a_claim_that_leaves_after_a_renewal_was_called_is_not_given_back() {
    let forgetful = Memory::new();
    // The renewal finds it at these two: as if it had come there before the withdrawal.
    let before =
        || -> Arc<dyn Engine> { Arc::new(Twisted::new(Arc::new(Memory::new()), Arc::new(Says::Held))) };
    let members = [before(), before(), Arc::new(forgetful.clone())].into_iter().enumerate();
    let members = members.map(|(at, engine)| Member::new(format!("store {at}"), engine));
    let quorum = Quorum::builder(members).build().unwrap();
    let (claims, session) = (claims(1), SessionId::from_bits(1));
    let opening = Opening::new(session, claims[0].ttl, Keep::Process, About::this_process());
    quorum.open(Arc::new(opening)).await.unwrap();
    assert!(matches!(quorum.claim(claims[0].clone()).await.unwrap(), Standing::Held { .. }));
    forgetful.withdraw(claims[0].clone(), Exit::Own).await.unwrap();
    let renewal = quorum.renew(session, claims.clone());
    quorum.withdraw(claims[0].clone(), Exit::Own).await.unwrap();
    renewal.await.unwrap();
    // That waits for everything that is in flight.
    quorum.close(session).await.unwrap();
    let survey = forgetful.survey(&Scope::All, Look::Once).await.unwrap();
    assert!(survey.lines.is_empty(), "it was withdrawn, and is there again: {:?}", survey.lines);
}
