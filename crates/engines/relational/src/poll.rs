//! One question for everybody who waits, where the database does not tell.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::timeout};

use crate::{Base, Office, Wakes};

/// How soon it is asked after something has happened, and how often if nothing does.
const PAUSE: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(50));

/// Asks for all waiters of the process at once, as long as there are any.
#[derive(Debug, Default)]
pub(crate) struct Poll {
    runs: AtomicBool,
    hint: Notify,
}

impl Poll {
    /// Somebody waits and is not told.
    pub(crate) fn go<B: Base>(self: &Arc<Self>, office: &Office, base: &Arc<B>, wakes: &Arc<Wakes>) {
        if !self.runs.swap(true, Ordering::AcqRel) {
            office.spawn(run(self.clone(), base.clone(), wakes.clone()));
        }
    }

    /// Something happened here, by which somebody of ours may have been granted.
    pub(crate) fn hint(&self) {
        self.hint.notify_one();
    }
}

async fn run<B: Base>(poll: Arc<Poll>, base: Arc<B>, wakes: Arc<Wakes>) {
    let mut pause = PAUSE.0;
    loop {
        if timeout(pause.mul_f64(0.75 + fastrand::f64() / 2.0), poll.hint.notified()).await.is_ok() {
            pause = PAUSE.0;
        }
        let names = wakes.lines();
        if names.is_empty() {
            poll.runs.store(false, Ordering::Release);
            // Somebody may have come in between, and seen that we are here.
            if wakes.lines().is_empty() || poll.runs.swap(true, Ordering::AcqRel) {
                return;
            }
            continue;
        }
        let granted = match base.clone().granted(names, base.timeout()).await {
            Ok(granted) => granted,
            Err(error) => {
                tracing::debug!(%error, "it was not found out who has been granted");
                Vec::new()
            }
        };
        pause = if granted.is_empty() { (pause * 3 / 2).min(PAUSE.1) } else { PAUSE.0 };
        for (id, fence) in granted {
            wakes.granted(id, fence);
        }
    }
}
