//! A store where a session can claim a name once.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bramah_core::{Claim, ClaimId, Engine, Exit, Name, Profile, Reply, Seats, SessionId, Standing};

use super::Twist;

/// Says that a session has one seat a name, and notes whether that was ever disregarded.
#[derive(Debug, Default)]
pub struct OneSeat {
    taken: Arc<Mutex<HashMap<(SessionId, Name), ClaimId>>>,
    crowded: AtomicBool,
}

impl OneSeat {
    /// Whether a session ever had two claims on one name at a time.
    pub fn was_crowded(&self) -> bool {
        self.crowded.load(Ordering::Acquire)
    }

    /// How many seats are taken.
    pub fn taken(&self) -> usize {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Twist for OneSeat {
    fn profile(&self, inner: &Arc<dyn Engine>) -> Profile {
        Profile { seats: Seats::One, ..inner.profile() }
    }

    fn claim(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>) -> Reply<Standing> {
        let key = (claim.id.session, claim.name.clone());
        if !claim.again {
            let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            let before = taken.insert(key.clone(), claim.id);
            if before.is_some_and(|before| before != claim.id) {
                self.crowded.store(true, Ordering::Release);
            }
        }
        let (taken, id) = (self.taken.clone(), claim.id);
        let reply = inner.claim(claim);
        Reply::later(async move {
            let answer = reply.await;
            // Who only watches has no seat.
            if matches!(answer, Ok(Standing::Refused | Standing::Gone | Standing::Queued { ahead: None, .. }))
            {
                free(&taken, &key, id);
            }
            answer
        })
    }

    fn withdraw(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        let (key, id) = ((claim.id.session, claim.name.clone()), claim.id);
        let taken = self.taken.clone();
        let reply = inner.withdraw(claim, exit);
        Reply::later(async move {
            reply.await?;
            free(&taken, &key, id);
            Ok(())
        })
    }
}

fn free(taken: &Mutex<HashMap<(SessionId, Name), ClaimId>>, key: &(SessionId, Name), id: ClaimId) {
    let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
    if taken.get(key) == Some(&id) {
        taken.remove(key);
    }
}
