//! Where the kernel does not tell: nothing is watched, and waiters ask often instead.

use std::{path::Path, sync::Arc};

use crate::{
    bells::{Bells, Ear, Recipient},
    mail::Mailbox,
};

/// What would be watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    Change,
    Stir,
}

/// Never started.
#[derive(Debug)]
pub(crate) struct Watcher;

impl Watcher {
    pub(crate) fn start(_: Arc<Bells>) -> std::io::Result<Self> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn death(&self, _: &Path, _: &Path, _: Ear) -> bool {
        false
    }

    pub(crate) fn deliver(&self, _: Arc<Recipient>, _: Arc<Mailbox>) -> Option<u64> {
        None
    }

    pub(crate) fn forget(&self, _: u64) {}

    pub(crate) fn change(&self, _: &Path, _: Sign, _: Ear) -> bool {
        false
    }
}
