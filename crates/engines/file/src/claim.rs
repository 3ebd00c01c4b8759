//! Entering and asking.

use std::sync::Arc;

use bramah_core::{Claim, Error, ErrorKind, Fence, Keep, Result, Standing, Wait, Wake};

use crate::{
    bells::Ear,
    session::Session,
    state::{Notice, Stamp, State},
    store::{Asker, Store, lost},
    trust::Trust,
    turn::Turn,
    watch::Sign,
};

/// Refuses what no line can hold.
pub(crate) fn check(claim: &Claim) -> Result<()> {
    let wrong =
        |why: String| Err(Error::new(ErrorKind::Invalid, format!("invalid claim on {}: {why}", claim.name)));
    if claim.weight == 0 || claim.weight > claim.capacity {
        return wrong(format!("a weight of {} does not fit a capacity of {}", claim.weight, claim.capacity));
    }
    if claim.note.len() > Claim::MAX_NOTE_BYTES {
        return wrong(format!(
            "its note has {} bytes, the most is {}",
            claim.note.len(),
            Claim::MAX_NOTE_BYTES
        ));
    }
    Ok(())
}

/// Enters the line or asks, once.
pub(crate) fn claim(store: &Store, claim: &Arc<Claim>) -> Result<Turn<Standing>> {
    let session = store.session(claim.id.session)?;
    // What is answered is good for a ttl from now on, so a session that lives by time has to live for as long.
    if session.keep == Keep::Nobody {
        match session.renew(&store.boot) {
            Ok(true) => {}
            Ok(false) => {
                store.lose(&session);
                return Err(lost(claim.id.session));
            }
            // Somebody looks at its file: this is tried again, as where the ledger is in use.
            Err(error) if error.kind() == ErrorKind::Unavailable => return Ok(Turn::Busy),
            Err(error) => return Err(error),
        }
    }
    let mut desk = Desk { store, claim, session: &session, stamp: store.boot.stamp(), notices: Vec::new() };
    let make = (!claim.again).then_some(claim.capacity);
    let standing = match store.visit(&claim.name, make, |state| desk.serve(state))? {
        Turn::Busy => return Ok(Turn::Busy),
        Turn::Done(standing) => standing.unwrap_or(Standing::Gone),
    };
    if matches!(standing, Standing::Held { .. }) {
        store.listen_for_breaks(&session);
    }
    match &standing {
        Standing::Held { .. } | Standing::Queued { ahead: Some(_), .. } if !claim.again => {
            session.claims().insert(claim.id.seq, Arc::clone(claim));
        }
        Standing::Gone => {
            session.claims().remove(&claim.id.seq);
        }
        _ => {}
    }
    store.tell(&desk.notices);
    Ok(Turn::Done(standing))
}

/// One claim at one ledger.
struct Desk<'a> {
    store: &'a Store,
    claim: &'a Claim,
    session: &'a Session,
    stamp: Stamp,
    notices: Vec<Notice>,
}

impl Desk<'_> {
    /// Answers, and whether the ledger changed.
    fn serve(&mut self, state: &mut State) -> Result<(Standing, bool)> {
        let found = state.find(self.claim.id);
        let ours = |at: &usize| {
            state.line.get(*at).is_some_and(|entry| entry.incarnation == self.session.incarnation)
        };
        match (found.filter(ours), found) {
            (Some(at), _) if at < state.line.held() => Ok(self.repeat(state, at)),
            (Some(_), _) => self.wait(state),
            // Entered by an earlier life of the session, which is dead for good.
            (None, _) if self.claim.again => Ok((Standing::Gone, false)),
            (None, Some(at)) => {
                let front = state.front();
                state.take_out(at, &mut self.notices);
                state.advance(front, self.stamp, &mut self.store.lives(), &mut self.notices)?;
                self.enter(state).map(|(standing, _)| (standing, true))
            }
            (None, None) => self.enter(state),
        }
    }

    /// A question about a held claim.
    fn repeat(&self, state: &mut State, at: usize) -> (Standing, bool) {
        let before = state.last;
        if let Some(floor) = self.claim.floor {
            state.raise(floor);
        }
        let mut changed = state.last != before;
        let Some(entry) = state.line.get_mut(at) else { return (Standing::Gone, false) };
        if entry.note != self.claim.note {
            entry.note = self.claim.note.clone();
            changed = true;
        }
        // Only an exclusive claim has a fence to raise.
        let raised = entry.fence.map(|fence| self.claim.floor.map_or(fence, |floor| fence.max(floor)));
        changed |= raised != entry.fence;
        entry.fence = raised;
        (held(raised), changed)
    }

    fn enter(&mut self, state: &mut State) -> Result<(Standing, bool)> {
        let claim = self.claim;
        let mut changed = self.agree(state)?;
        if state.line.would_hold(claim.weight) {
            return Ok((self.join(state), true));
        }
        let mut trust = Trust::FULL;
        let wake = (claim.wait != Wait::No).then(|| self.hang(&mut trust));
        if claim.wait == Wait::Watch {
            trust = trust.and(self.listen_for_changes());
        }
        let ear = Ear::Claim(claim.id);
        let mut ends = Trust::FULL;
        // Also for one that takes no place: a waiter that died with nobody behind it must not keep it out.
        let asker = Asker::Entering;
        changed |= self.store.tend(state, self.stamp, &mut self.notices, asker, |store, state| {
            ends = match claim.wait {
                Wait::Line => store.listen_ahead(state, state.line.len(), ear),
                // It takes no place, so nobody else looks after the holders for it.
                Wait::Watch => store.listen_for_deaths(state, ear),
                Wait::No => Trust::FULL,
            };
        })?;
        trust = trust.and(ends);
        if state.line.would_hold(claim.weight) {
            return Ok((self.join(state), true));
        }
        match (claim.wait, wake) {
            (Wait::Line, Some(wake)) => {
                self.join(state);
                let at = state.line.len() - 1;
                let sleep = trust.sleep(at - state.line.held());
                Ok((Standing::Queued { ahead: u32::try_from(at).ok(), wake, sleep }, true))
            }
            (Wait::Watch, Some(wake)) => {
                Ok((Standing::Queued { ahead: None, wake, sleep: trust.sleep(0) }, changed))
            }
            _ => Ok((Standing::Refused, changed)),
        }
    }

    /// A claim that is in line and waits: looks after the line, then tells where it stands.
    fn wait(&mut self, state: &mut State) -> Result<(Standing, bool)> {
        let id = self.claim.id;
        let mut trust = Trust::FULL;
        let wake = self.hang(&mut trust);
        let mut ends = Trust::FULL;
        let asker = Asker::InLine(id);
        let changed = self.store.tend(state, self.stamp, &mut self.notices, asker, |store, state| {
            let at = state.find(id).filter(|at| *at >= state.line.held());
            ends = at.map_or(Trust::FULL, |at| store.listen_ahead(state, at, Ear::Claim(id)));
        })?;
        trust = trust.and(ends);
        match state.find(id) {
            Some(at) if at < state.line.held() => {
                Ok((held(state.line.get(at).and_then(|entry| entry.fence)), changed))
            }
            Some(at) => {
                let sleep = trust.sleep(at - state.line.held());
                Ok((Standing::Queued { ahead: u32::try_from(at).ok(), wake, sleep }, changed))
            }
            // Passed over: our own session ended while we asked.
            None => Ok((Standing::Gone, changed)),
        }
    }

    /// All claims of a line agree on its capacity; an empty line takes any. Whether the dead had to be dropped for it.
    fn agree(&mut self, state: &mut State) -> Result<bool> {
        if state.line.is_empty() || state.line.capacity() == self.claim.capacity {
            state.line.recapacitate(self.claim.capacity);
            return Ok(false);
        }
        let in_use = state.line.capacity();
        state.drop_dead(&mut self.store.lives())?;
        if !state.line.is_empty() {
            return Err(self.claim.conflict(in_use));
        }
        state.line.recapacitate(self.claim.capacity);
        Ok(true)
    }

    fn join(&self, state: &mut State) -> Standing {
        held(state.enter(self.claim, self.session.incarnation, self.stamp).flatten())
    }

    /// Hangs the bell. The ledger is locked, so nothing can be granted before it hangs.
    fn hang(&self, trust: &mut Trust) -> Wake {
        *trust = trust.and(self.store.listen_for_letters(self.session));
        self.store.bells.hang(Ear::Claim(self.claim.id))
    }

    fn listen_for_changes(&self) -> Trust {
        let (path, ear) = (self.store.layout.ledger(&self.claim.name), Ear::Claim(self.claim.id));
        self.store.watcher().is_some_and(|watcher| watcher.change(&path, Sign::Change, ear)).into()
    }
}

/// The answer to a holder. A fixed lease is ended by its process, which has counted it from its own question on.
fn held(fence: Option<Fence>) -> Standing {
    Standing::Held { fence, left: None }
}
