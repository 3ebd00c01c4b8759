//! Where wishes are kept: beside the record of a session, and not in the lock, which other programs may share with us.

use std::{sync::Arc, time::Duration};

use bramah_core::{Claim, ClaimId, SessionId};

use super::{Place, Scheme};
use crate::{driver::Request, script::Script, text};

pub(super) fn script() -> Arc<Script> {
    Arc::new(Script::new("wish", include_str!("../../scripts/wish.lua").to_owned()))
}

impl Scheme {
    /// The key of a session's wishes.
    pub(crate) fn wishes_at(&self, session: SessionId) -> Place {
        let key = format!("{}session:{session}:asked", self.beside);
        let slot = self.slot_of(&key);
        Place { key, slot }
    }

    /// Notes a wish for a claim, for as long as that lives without a renewal.
    pub(crate) fn wish(&self, claim: &Claim, patience: Duration) -> Request {
        let place = self.wishes_at(claim.id.session);
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(self.wish.hash()).arg(1).arg(&place.key);
        cmd.arg(number(claim.id)).arg(text::millis(claim.lease.unwrap_or(claim.ttl)));
        self.request(&place, cmd, &self.wish, patience, false)
    }

    /// Tells the session of a wish, if it listens where the lock is.
    pub(crate) fn tell_of_wish(&self, claim: &Claim, patience: Duration) -> Request {
        let place = self.place(&claim.name);
        let mut cmd = redis::cmd(if self.cluster { "SPUBLISH" } else { "PUBLISH" });
        cmd.arg(self.channel(place.slot, claim.id.session)).arg(format!("w{}", number(claim.id)));
        self.plainly(&place, cmd, patience)
    }

    /// Reads a session's wishes. Not over the keeper's connection: an answer to this would hide that one to a renewal never came.
    pub(crate) fn wishes(&self, session: SessionId, patience: Duration) -> Request {
        let place = self.wishes_at(session);
        let mut cmd = redis::cmd("GET");
        cmd.arg(&place.key);
        self.plainly(&place, cmd, patience)
    }
}

/// The second part of a claim's identity.
fn number(id: ClaimId) -> String {
    text::identity(id).split_off(32)
}
