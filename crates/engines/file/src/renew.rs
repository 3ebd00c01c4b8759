//! Proving life, and seeing what is left of one's claims.

use std::{collections::HashMap, sync::Arc};

use bramah_core::{Claim, ClaimId, ErrorKind, Name, Renewal, Reply, Result, SessionId, Woken};

use crate::{
    asked,
    bells::Ear,
    session::Session,
    store::{Asker, Store},
    turn::{Backoff, PATIENCE, Turn},
};

/// How many ledgers are looked at before others get the thread.
const CHUNK: usize = 32;

/// Renews the session and looks at each of its claims.
pub(crate) fn renew(store: &Arc<Store>, session: SessionId, claims: &Arc<[Arc<Claim>]>) -> Reply<Renewal> {
    let mut round = match Round::begin(store, session, claims) {
        Ok(Some(round)) => round,
        Ok(None) => {
            let gone = claims.iter().map(|claim| claim.id).collect();
            return Reply::now(Ok(Renewal { gone, ..Renewal::default() }));
        }
        Err(error) => return Reply::now(Err(error)),
    };
    round.step(store);
    if round.is_done() {
        return Reply::now(Ok(round.finish()));
    }
    let store = Arc::clone(store);
    Reply::later(async move {
        // A third of it: the others must hear in time that one could not be asked.
        let deadline = store.boot.clock().now() + PATIENCE / 3;
        let mut backoff = Backoff::new();
        while !round.is_done() && store.boot.clock().now() < deadline {
            if round.todo.is_empty() {
                backoff.sleep(&store).await;
                std::mem::swap(&mut round.todo, &mut round.busy);
            }
            tokio::task::yield_now().await;
            round.step(&store);
        }
        Ok(round.finish())
    })
}

/// One renewal under way.
struct Round {
    session: Arc<Session>,
    /// By ledger, so that a hundred waiters in one line cost one look.
    todo: Vec<(Name, Vec<ClaimId>)>,
    busy: Vec<(Name, Vec<ClaimId>)>,
    asked: Arc<[Arc<Claim>]>,
    renewal: Renewal,
}

impl Round {
    /// Proves that the session lives; `None` if it does not any more.
    fn begin(store: &Store, id: SessionId, asked: &Arc<[Arc<Claim>]>) -> Result<Option<Self>> {
        let session = match store.session(id) {
            Ok(session) => session,
            Err(error) if error.kind() == ErrorKind::Lost => return Ok(None),
            Err(error) => return Err(error),
        };
        if !session.renew(&store.boot)? {
            store.lose(&session);
            return Ok(None);
        }
        let mut groups: HashMap<Name, Vec<ClaimId>> = HashMap::new();
        for claim in asked.iter() {
            groups.entry(claim.name.clone()).or_default().push(claim.id);
        }
        let todo = groups.into_iter().collect();
        Ok(Some(Self {
            session,
            todo,
            busy: Vec::new(),
            asked: Arc::clone(asked),
            renewal: Renewal::default(),
        }))
    }

    fn is_done(&self) -> bool {
        self.todo.is_empty() && self.busy.is_empty()
    }

    /// Looks at some ledgers.
    fn step(&mut self, store: &Store) {
        for (name, ids) in self.todo.split_off(self.todo.len().saturating_sub(CHUNK)) {
            match look(store, &self.session, &name, &ids) {
                Ok(Turn::Done(seen)) => {
                    for id in &seen.gone {
                        self.session.claims().remove(&id.seq);
                    }
                    for id in seen.gone.iter().chain(&seen.up) {
                        store.bells.ring(Ear::Claim(*id), Woken::Ask);
                    }
                    self.renewal.gone.extend(seen.gone);
                }
                Ok(Turn::Busy) => self.busy.push((name, ids)),
                // One damaged ledger must not cost the others: whoever asks about it gets the error itself.
                Err(_) => self.renewal.unknown.extend(ids),
            }
        }
    }

    fn finish(mut self) -> Renewal {
        for (_, ids) in self.todo.iter().chain(&self.busy) {
            self.renewal.unknown.extend(ids);
        }
        let asked: std::collections::HashSet<u64> = self.asked.iter().map(|claim| claim.id.seq).collect();
        let stray = |(seq, claim): (&u64, &Arc<Claim>)| (!asked.contains(seq)).then(|| Arc::clone(claim));
        self.renewal.stray = self.session.claims().iter().filter_map(stray).collect();
        let session = self.session.id;
        self.renewal.asked =
            asked::of(&self.session).into_iter().map(|seq| ClaimId { session, seq }).collect();
        self.renewal
    }
}

/// What a look at one ledger found.
struct Seen {
    /// Not in line any more.
    gone: Vec<ClaimId>,
    /// Held, or next. If one of them still waits to be told, the letter was lost with its sender.
    up: Vec<ClaimId>,
}

/// Looks for these claims in their line. Where one of them waits, the line is looked after.
fn look(store: &Store, session: &Session, name: &Name, ids: &[ClaimId]) -> Result<Turn<Seen>> {
    let mut notices = Vec::new();
    let turn = store.visit(name, None, |state| {
        let mut seen = Seen { gone: Vec::new(), up: Vec::new() };
        let mut waits = false;
        for id in ids {
            let found = state.find(*id);
            let entry = found.and_then(|at| state.line.get(at));
            match (found, entry) {
                (Some(at), Some(entry)) if entry.incarnation == session.incarnation => {
                    waits |= at >= state.line.held();
                    if at <= state.line.held() {
                        seen.up.push(*id);
                    }
                }
                _ => seen.gone.push(*id),
            }
        }
        let changed = waits && store.tend(state, store.boot.stamp(), &mut notices, Asker::None, |_, _| {})?;
        Ok((seen, changed))
    })?;
    store.tell(&notices);
    Ok(match turn {
        Turn::Busy => Turn::Busy,
        Turn::Done(seen) => Turn::Done(seen.unwrap_or_else(|| Seen { gone: ids.to_vec(), up: Vec::new() })),
    })
}
