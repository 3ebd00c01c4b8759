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
pub struct Flights(Mutex<HashMap<ClaimId, Vec<oneshot::Receiver<()>>>>);

/// A claim under way; over when it is dropped.
#[derive(Debug)]
pub struct Flight {
    flights: Arc<Flights>,
    id: ClaimId,
    landed: Option<oneshot::Sender<()>>,
}

impl Drop for Flight {
    fn drop(&mut self) {
        drop(self.landed.take());
        let mut flights = self.flights.flights();
        if let Some(landings) = flights.get_mut(&self.id) {
            landings
                .retain_mut(|landing| matches!(landing.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
            if landings.is_empty() {
                flights.remove(&self.id);
            }
        }
    }
}

impl Flights {
    fn flights(&self) -> MutexGuard<'_, HashMap<ClaimId, Vec<oneshot::Receiver<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A claim sets out.
    pub fn begin(self: &Arc<Self>, id: ClaimId) -> Flight {
        let (landed, landing) = oneshot::channel();
        self.flights().entry(id).or_default().push(landing);
        Flight { flights: self.clone(), id, landed: Some(landed) }
    }

    /// Waits until everything of the claim has arrived that had set out before.
    pub fn landing(&self, id: ClaimId) -> impl Future<Output = ()> + Send + use<> {
        let landings = self.flights().remove(&id).unwrap_or_default();
        async move {
            for landing in landings {
                let _ = landing.await;
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
        let (first, other) = (flights.begin(id(1)), flights.begin(id(2)));
        let landing = tokio::spawn(flights.landing(id(1)));
        tokio::task::yield_now().await;
        assert!(!landing.is_finished());
        drop(first);
        landing.await.unwrap();
        flights.landing(id(1)).await;
        drop(other);
        assert!(flights.flights().is_empty(), "what has landed is forgotten");
    }
}
