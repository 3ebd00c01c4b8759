//! The engine itself: its methods, the larger ones a file each.

use std::{fmt, os::fd::OwnedFd, path::Path, sync::Arc, time::Duration};

use bramah_core::{
    Asking, Capacities, Claim, Engine, Exit, Fencing, Leasing, Liveness, Look, Modes, Opening, Order,
    Profile, Renewal, Reply, Result, Scope, Seats, SessionId, Standing, Strays, Survey, Waking,
};

use crate::{asked, claim, renew, store::Store, survey, turn, withdraw};

/// Locks in a directory, for all processes of one host. Cheap to clone.
///
/// Each value that [`open`](File::open) makes has sessions of its own: two of them in one process exclude each
/// other like two processes do.
#[derive(Clone)]
pub struct File {
    store: Arc<Store>,
    path: Arc<Path>,
}

impl File {
    /// Opens a directory of locks. What is absent of it is made, for its owner alone (mode 0700).
    ///
    /// # Errors
    /// `Denied` when the directory belongs to another user or others may write to it, `Invalid` when the path cannot be
    /// one or other files are in it, `Corrupt` when it is of a newer format or damaged, `Unavailable` when the disk
    /// fails or is full.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::with(dir.as_ref(), true)
    }

    /// Opens a directory of locks that is there. Nothing is made, so a mistyped path is an error.
    ///
    /// # Errors
    /// As [`open`](File::open), and `Invalid` when the directory is absent or no lock was ever taken there.
    pub fn existing(dir: impl AsRef<Path>) -> Result<Self> {
        Self::with(dir.as_ref(), false)
    }

    fn with(dir: &Path, make: bool) -> Result<Self> {
        Ok(Self { store: Arc::new(Store::open(dir, make)?), path: dir.into() })
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("File").field(&self.path).finish()
    }
}

impl Engine for File {
    fn profile(&self) -> Profile {
        Profile {
            modes: Modes::Permits,
            order: Order::Fifo,
            fence: Fencing::Clocked,
            liveness: Liveness::Connection,
            wake: if cfg!(target_os = "linux") { Waking::Pushed } else { Waking::Polled },
            seats: Seats::Many,
            lease: Leasing::Kept,
            capacity: Capacities::Claimed,
            strays: Strays::Listed,
            asking: Asking::Kept,
        }
    }

    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        Reply::now(self.store.open_session(&opening))
    }

    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
        if let Err(error) = claim::check(&claim) {
            return Reply::now(Err(error));
        }
        let name = claim.name.clone();
        turn::attempt(&self.store, &name, move |store| claim::claim(store, &claim))
    }

    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        renew::renew(&self.store, session, &claims)
    }

    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        let name = claim.name.clone();
        turn::attempt(&self.store, &name, move |store| withdraw::withdraw(store, &claim, &exit))
    }

    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        let name = claim.name.clone();
        turn::attempt(&self.store, &name, move |store| asked::ask(store, &claim))
    }

    fn close(&self, session: SessionId) -> Reply<()> {
        Reply::now(self.store.close_session(session))
    }

    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        survey::survey(&self.store, scope, look)
    }

    fn lifelines(&self, session: SessionId) -> Vec<OwnedFd> {
        self.store.own_session(session).map_or_else(Vec::new, |session| session.lifelines())
    }
}

impl From<File> for Arc<dyn Engine> {
    fn from(file: File) -> Self {
        Arc::new(file)
    }
}
