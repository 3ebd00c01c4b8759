//! Whether what we believe to have is ours.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Weak},
    time::Duration,
};

use bramah_core::{Moment, Renewal, SessionId};
use tokio::time::timeout;

use super::{
    dialect::{Dialect, Rolled},
    entry::{Entry, State},
    link::Link,
    room::Room,
};

/// How often it is looked, at the least: so soon is it noticed that a connection was ended.
const LOOK: Duration = Duration::from_secs(1);

/// How often who is behind a session is written down again.
const SIGN: Duration = Duration::from_secs(20 * 60);

/// What a look found of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Held,
    Waiting,
    Gone,
    Unknown,
}

/// A claim as it was believed to stand before the look.
struct Belief<D: Dialect> {
    entry: Arc<Entry<D>>,
    /// The connection that has it, or waits for it.
    link: Arc<Link<D>>,
    is_held: bool,
}

impl<D: Dialect> Room<D> {
    /// How long until the next look: not beyond the session's end.
    fn pause(&self) -> Duration {
        let left = self.ttl.saturating_sub(self.silence()) + Duration::from_millis(1);
        LOOK.min(self.ttl / 3).min(left)
    }

    /// Looks at every claim of the session, and has every connection that has one say a word, for the server ends those that are
    /// silent. What is not ours any more is given up.
    pub(super) async fn look(self: &Arc<Self>, patience: Duration) -> HashMap<u64, Verdict> {
        let mut verdicts = HashMap::new();
        let mut beliefs = Vec::new();
        let entries: Vec<_> = self.entries().values().cloned().collect();
        for entry in entries {
            let Ok(state) = entry.state.try_lock() else {
                verdicts.insert(entry.claim.id.seq, Verdict::Unknown);
                continue;
            };
            let belief = match &*state {
                State::Held(link) => Some((link.clone(), true)),
                State::Waiting { link: Some(link), .. } => Some((link.clone(), false)),
                // Its connection is being made.
                State::Waiting { link: None, .. } => {
                    verdicts.insert(entry.claim.id.seq, Verdict::Waiting);
                    None
                }
                State::Doubt(_) | State::New => {
                    verdicts.insert(entry.claim.id.seq, Verdict::Unknown);
                    None
                }
                State::Gone => None,
            };
            drop(state);
            beliefs.extend(belief.map(|(link, is_held)| Belief { entry, link, is_held }));
        }
        let until = self.clock.now() + patience;
        let words = self.words(&beliefs, until);
        let rolled = self.roll(patience).await.ok().map(|rolled| {
            let known = rolled.into_iter().filter_map(|one| Some(((one.seq?, one.number), one)));
            known.collect::<HashMap<_, _>>()
        });
        let heard = words.await;
        for belief in beliefs {
            let verdict = judge(&belief, rolled.as_ref(), &heard);
            if verdict == Verdict::Gone && belief.is_held {
                let mut state = belief.entry.state.lock().await;
                if matches!(&*state, State::Held(link) if Arc::ptr_eq(link, &belief.link)) {
                    self.give_up(&belief.entry, &mut state, &belief.link, patience).await;
                }
            }
            verdicts.insert(belief.entry.claim.id.seq, verdict);
        }
        verdicts
    }

    /// Has connections that hold something say a word, all at once. By their numbers: whether they are who they were.
    fn words(
        &self,
        beliefs: &[Belief<D>],
        until: Moment,
    ) -> impl Future<Output = HashMap<i64, bool>> + use<D> {
        let mut links: Vec<Arc<Link<D>>> = Vec::new();
        for belief in beliefs.iter().filter(|belief| belief.is_held) {
            if !links.iter().any(|link| Arc::ptr_eq(link, &belief.link)) {
                links.push(belief.link.clone());
            }
        }
        let told: Vec<_> = links.into_iter().map(|link| (link.send(self.dialect.who()), link)).collect();
        let clock = self.clock.clone();
        async move {
            let mut heard = HashMap::new();
            for (answer, link) in told {
                let left = until.since(clock.now());
                if let Ok(Ok(Ok(rows))) = timeout(left, answer).await {
                    let badge = rows.last().and_then(|row| D::read_badge(row).ok());
                    heard.insert(link.badge().number, badge == Some(link.badge()));
                }
            }
            heard
        }
    }

    /// Renews: every claim is looked at, and the session is heard of.
    pub(crate) async fn renew(self: &Arc<Self>, asked: &[u64], patience: Duration) -> Renewal {
        self.hear();
        let verdicts = self.look(patience).await;
        let session = self.opening.session;
        let id = |seq| bramah_core::ClaimId { session, seq };
        let mut renewal = Renewal::default();
        for seq in asked {
            match verdicts.get(seq) {
                Some(Verdict::Held) => {}
                Some(Verdict::Waiting) => renewal.waiting.push(id(*seq)),
                Some(Verdict::Unknown) => renewal.unknown.push(id(*seq)),
                Some(Verdict::Gone) | None => renewal.gone.push(id(*seq)),
            }
        }
        let asked: HashSet<u64> = asked.iter().copied().collect();
        let strays = self.entries();
        let strays = strays.values().filter(|entry| !asked.contains(&entry.claim.id.seq));
        renewal.stray.extend(strays.map(|entry| Arc::new(entry.claim.asking())));
        renewal
    }
}

fn judge<D: Dialect>(
    belief: &Belief<D>,
    rolled: Option<&HashMap<(u64, i64), Rolled>>,
    heard: &HashMap<i64, bool>,
) -> Verdict {
    if belief.link.is_over() {
        return Verdict::Gone;
    }
    let Some(rolled) = rolled else { return Verdict::Unknown };
    let number = belief.link.badge().number;
    let row = rolled.get(&(belief.entry.claim.id.seq, number));
    if row.is_some_and(|row| row.broken) {
        return Verdict::Gone;
    }
    if !belief.is_held {
        return Verdict::Waiting;
    }
    match (heard.get(&number), row) {
        (None, _) => Verdict::Unknown,
        (Some(true), Some(row)) if row.held => Verdict::Held,
        _ => Verdict::Gone,
    }
}

/// Looks at a session's claims from time to time, so that its process learns soon of what was ended, and ends it when it was not
/// heard of for its ttl.
pub(super) async fn attend<D: Dialect>(room: Weak<Room<D>>, end: impl Fn(SessionId)) {
    let Some(mut signed) = room.upgrade().map(|room| room.clock.now()) else { return };
    loop {
        let Some(pause) = room.upgrade().filter(|room| !room.is_over()).map(|room| room.pause()) else {
            return;
        };
        tokio::time::sleep(pause).await;
        let Some(room) = room.upgrade().filter(|room| !room.is_over()) else { return };
        if !room.is_alive() {
            let claims: Vec<_> = room.entries().values().map(|entry| entry.claim.id).collect();
            end(room.opening.session);
            room.close().await;
            // What cannot be forgotten now is removed when nobody has heard of the session for an hour.
            let text = room.dialect.close(room.opening.session);
            let _ = room.dialect.clone().call(text, room.dialect.terms().timeout).await;
            claims.into_iter().for_each(|id| room.opening.alarm.ring(id));
            return;
        }
        room.drop_old_spares();
        let patience = room.dialect.terms().timeout.min(room.ttl / 3);
        // Also while it has no locks: it may take one later.
        if room.clock.now().since(signed) > SIGN {
            signed = room.clock.now();
            let text = room.dialect.open(room.opening.session, &room.opening.about.encode());
            let _ = room.dialect.clone().call(text, patience).await;
        }
        if room.entries().is_empty() {
            continue;
        }
        for (seq, verdict) in room.look(patience).await {
            if verdict == Verdict::Gone {
                room.opening.alarm.ring(bramah_core::ClaimId { session: room.opening.session, seq });
            }
        }
    }
}
