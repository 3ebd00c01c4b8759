//! Leaving, by oneself or by force.

use std::sync::Arc;

use bramah_core::{Break, Claim, ClaimId, Exit, Result, Woken};

use crate::{
    bells::Ear,
    state::{Notice, Scar, State},
    store::Store,
    turn::Turn,
};

/// The longest text of a break that is kept.
const MAX_TEXT: usize = 1024;

/// Takes the claim out of its line, once. An absent one is success.
pub(crate) fn withdraw(store: &Store, claim: &Claim, exit: &Exit) -> Result<Turn<()>> {
    let mut notices = Vec::new();
    let turn = store.visit(&claim.name, None, |state| {
        let Some(at) = state.find(claim.id) else { return Ok(((), false)) };
        let stamp = store.boot.stamp();
        let front = state.front();
        let removed = state.take_out(at, &mut notices);
        if let Exit::Broken(cause) = exit {
            scar(state, store, claim.id, cause);
            // Whoever waited or held asks, and finds that it is gone.
            if let Some(entry) = removed {
                notices.push(Notice { id: entry.id, incarnation: entry.incarnation, woken: Woken::Ask });
            }
        }
        state.advance(front, stamp, &mut store.lives(), &mut notices)?;
        Ok(((), true))
    })?;
    if let Turn::Busy = turn {
        return Ok(Turn::Busy);
    }
    if *exit == Exit::Own {
        if let Some(session) = store.own_session(claim.id.session) {
            session.claims().remove(&claim.id.seq);
        }
        store.bells.ring(Ear::Claim(claim.id), Woken::Ask);
    }
    store.tell(&notices);
    Ok(Turn::Done(()))
}

/// Records the break and raises the mark: whatever the broken holder still writes is below it.
fn scar(state: &mut State, store: &Store, id: ClaimId, cause: &Break) {
    let stamp = store.boot.stamp();
    state.mint(stamp.wall_us);
    let kept = |text: &str| -> Arc<str> { text[..text.floor_char_boundary(MAX_TEXT.min(text.len()))].into() };
    let (by, reason) = (kept(&cause.by), kept(&cause.reason));
    state.scar = Some(Scar { id, by, reason, at_ns: stamp.now_ns, boot: store.boot.mark });
}
