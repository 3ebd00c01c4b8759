//! A place in a line of many: who wants all of a lock needs to know the one ahead, and not the whole line.
//!
//! What is not clear from that alone is looked at as a whole: a line with a key of another program, or of a name below, just ahead of
//! ours, one of another capacity, or one in which ours is not where it is expected.

use std::sync::Arc;

use bramah_core::{Claim, Result, Standing};

use crate::{
    claims::Case,
    engine::Inner,
    layout::{Span, is_child},
    ops::{self, Done},
    proto::etcdserverpb::{RequestOp, TxnRequest},
    queue::Place,
    room::Entry,
};

/// A line of up to so many is read as a whole.
const WHOLE: i64 = 32;

/// What is read of a line, for one that was created at `by` or is the last: the line, or its beginning, the floor, and the last two.
pub(crate) fn reads(claim: &Claim, span: &Span, floor: &[u8], by: Option<i64>) -> Vec<RequestOp> {
    let floor = ops::read(&Span::one(floor));
    match claim.is_exclusive() {
        true => vec![ops::some(span, WHOLE), floor, ops::last_two(span, by)],
        false => vec![ops::read(span), floor],
    }
}

impl Inner {
    /// The answer to one of many, if what was read is enough for it.
    pub(crate) fn stand_behind(&self, case: &Case<'_>, done: &mut Done) -> Option<Standing> {
        if !done.is_cut {
            return None;
        }
        let claim = case.claim;
        let [own, before] = <[_; 2]>::try_from(done.take(2)).ok()?.map(Place::of);
        let value = own.value.as_ref().filter(|value| value.id == claim.id && own.kv.key == case.key)?;
        let is_like_ours = before.value.as_ref().is_some_and(|value| value.capacity == claim.capacity);
        if !case.is_on_lease(&own.kv) || !is_like_ours || !is_child(&case.span.from, &before.kv.key) {
            return None;
        }
        let entry = self.admit(case, own.kv.create_revision)?;
        self.watch_own(case.room, &entry, &case.key, done.revision);
        entry.set_waits(Some((value.clone(), own.kv.mod_revision)));
        let wake = entry.wake();
        self.watch_key(&entry, &before.kv.key, before.kv.create_revision, done.revision);
        Some(Standing::Queued { ahead: None, wake, sleep: crate::claims::LONG_TRUST })
    }

    /// The answer to one that asks although nothing was told: whether it and the one ahead of it are there still.
    pub(crate) async fn still_behind(&self, case: &Case<'_>, entry: &Arc<Entry>) -> Result<Option<Standing>> {
        // Before it is looked whether there is something to wait for: what comes in between rings it.
        let wake = entry.wake();
        let Some((key, create)) = entry.behind() else { return Ok(None) };
        let compare =
            vec![ops::created(&Span::one(&case.key), entry.create), ops::created(&Span::one(&key), create)];
        let done = self.ask(case, TxnRequest { compare, ..TxnRequest::default() }).await?;
        let sleep = crate::claims::LONG_TRUST;
        Ok(done.succeeded.then_some(Standing::Queued { ahead: None, wake, sleep }))
    }
}
