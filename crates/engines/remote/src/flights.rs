//! Claims that are on their way to a store.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bramah_core::ClaimId;
use tokio::sync::oneshot;

/// Which claims are being entered. Calls go over several connections, or a claim takes several of them, so a withdrawal could
/// overtake its claim and leave a ghost: it waits here until the claim has arrived.
#[derive(Debug, Default)]
pub struct Flights(Mutex<HashMap<ClaimId, Aloft>>);

/// A claim that is on its way.
#[derive(Debug, Default)]
struct Aloft {
    /// In so many calls.
    calls: usize,
    /// Who waits until none is left: told by being dropped.
    waiting: Vec<oneshot::Sender<()>>,
}

/// A call about a claim under way; over when it is dropped.
#[derive(Debug)]
pub struct Flight {
    flights: Arc<Flights>,
    id: ClaimId,
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut flights = self.flights.flights();
        let Some(aloft) = flights.get_mut(&self.id) else { return };
        aloft.calls -= 1;
        if aloft.calls == 0 {
            flights.remove(&self.id);
        }
    }
}

impl Flights {
    fn flights(&self) -> MutexGuard<'_, HashMap<ClaimId, Aloft>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A claim sets out.
    pub fn begin(self: &Arc<Self>, id: ClaimId) -> Flight {
        self.flights().entry(id).or_default().calls += 1;
        Flight { flights: self.clone(), id }
    }

    /// Waits until nothing of the claim is on its way.
    pub fn landing(&self, id: ClaimId) -> impl Future<Output = ()> + Send + use<> {
        let landed = self.flights().get_mut(&id).map(|aloft| {
            let (landed, landing) = oneshot::channel();
            aloft.waiting.push(landed);
            landing
        });
        async move {
            if let Some(landed) = landed {
                let _ = landed.await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bramah_core::SessionId;

    use super::*;

    #[tokio::test]
    async fn a_withdrawal_waits_for_its_claim_and_for_no_other() {
        let flights = Arc::new(Flights::default());
        let id = |seq| ClaimId { session: SessionId::from_bits(1), seq };
        let (first, again, other) = (flights.begin(id(1)), flights.begin(id(1)), flights.begin(id(2)));
        let landing = tokio::spawn(flights.landing(id(1)));
        for call in [first, again] {
            tokio::task::yield_now().await;
            assert!(!landing.is_finished());
            drop(call);
        }
        landing.await.unwrap();
        flights.landing(id(1)).await;
        drop(other);
        assert!(flights.flights().is_empty(), "what has landed is forgotten");
    }
}
