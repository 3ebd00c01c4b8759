//! Lines to test words and listings with.

use std::{sync::Arc, time::Duration};

use bramah::{About, Claim, ClaimId, Fence, Health, LineView, Name, PlaceState, PlaceView, SessionId, Wait};

#[derive(Clone)]
pub(crate) struct Place(pub(crate) PlaceView);

/// A waiter of session `session` that has waited for a second for each unit of its number.
pub(crate) fn place(session: u32, weight: u32) -> Place {
    let claim = Claim {
        id: ClaimId { session: SessionId::from_bits(session.into()), seq: 1 },
        name: Name::new("deploy/prod").unwrap(),
        capacity: 1,
        weight,
        wait: Wait::Line,
        again: false,
        floor: None,
        ttl: Duration::from_secs(30),
        lease: None,
        note: "".into(),
    };
    let about = About {
        owner: format!("ana@ci-7:{session}").into(),
        host: "ci-7".into(),
        pid: session,
        labels: vec![("job".into(), "8812".into())],
    };
    Place(PlaceView {
        claim: Arc::new(claim),
        about: Some(Arc::new(about)),
        state: PlaceState::Waiting,
        age: Some(Duration::from_secs(session.into())),
        left: Some(Duration::from_millis(21_400)),
        renewed: Some(Duration::from_millis(8_600)),
        health: Health::Running,
    })
}

impl Place {
    pub(crate) fn held(mut self, seconds: u64) -> Self {
        self.0.state =
            PlaceState::Held { fence: Some(Fence::new(4127)), since: Some(Duration::from_secs(seconds)) };
        self
    }

    /// Not renewed for so long, of a ttl of 30 s.
    pub(crate) fn silent(mut self, seconds: u64) -> Self {
        let renewed = Duration::from_secs(seconds);
        (self.0.renewed, self.0.left) = (Some(renewed), Some(self.0.claim.ttl.saturating_sub(renewed)));
        self
    }

    pub(crate) fn note(mut self, note: &str) -> Self {
        self.0.claim = Arc::new(Claim { note: note.into(), ..(*self.0.claim).clone() });
        self
    }
}

pub(crate) fn line(capacity: u32, places: impl IntoIterator<Item = Place>) -> LineView {
    LineView {
        name: Name::new("deploy/prod").unwrap(),
        capacity,
        places: places.into_iter().map(|place| place.0).collect(),
        broken: None,
    }
}
