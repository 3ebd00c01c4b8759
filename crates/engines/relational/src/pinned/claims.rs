//! How a claim is entered, asked about and left.

use std::{sync::Arc, time::Duration};

use bramah_core::{Claim, ClaimId, Error, ErrorKind, Fence, Result, Standing, Wait, Wake, Woken};
use tokio::{sync::oneshot, time::timeout};

use super::{
    dialect::{Dialect, RowOf, Taken},
    entry::{Entry, State},
    link::Link,
    room::Room,
};
use crate::Trouble;

/// The longest time that a waiter trusts to be told, and how often one without a place asks.
const TRUST: Duration = Duration::from_secs(2);
const UNTOLD: Duration = Duration::from_millis(100);

/// How often it is looked whether a wait has begun.
const PLACING: Duration = Duration::from_millis(2);

/// How often a wait that is to end is ended again: the wish may come before the wait.
const AGAIN: Duration = Duration::from_millis(50);

impl<D: Dialect> Room<D> {
    /// The claim's entry, and whether it is new.
    fn admit(&self, claim: &Arc<Claim>) -> Result<(Arc<Entry<D>>, bool)> {
        let key = self.dialect.key(&claim.name)?;
        let mut entries = self.entries();
        if let Some(entry) = entries.get(&claim.id.seq) {
            return Ok((entry.clone(), false));
        }
        let others = || entries.values().filter(|entry| entry.key == key);
        if let Some(other) = others().find(|entry| entry.claim.name != claim.name) {
            return Err(namesake(claim, other.claim.name.as_str()));
        }
        let most = self.dialect.terms().holds;
        if entries.len() >= most {
            let text = format!(
                "{}: this session has {most} locks in session mode, and may not have more: the server's memory for them is \
                 limited; raise holds= in the url, or use mode=table",
                claim.name
            );
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let entry = Arc::new(Entry::new(claim.clone(), key));
        entries.insert(claim.id.seq, entry.clone());
        Ok((entry, true))
    }

    /// Whether another claim of this session has the lock or wants it: the server would take them for one.
    fn has_other(&self, entry: &Entry<D>) -> bool {
        self.entries().values().any(|other| other.claim.id != entry.claim.id && other.key == entry.key)
    }

    /// Enters a claim.
    pub(crate) async fn enter(self: &Arc<Self>, claim: Arc<Claim>, patience: Duration) -> Result<Standing> {
        let (entry, is_new) = self.admit(&claim)?;
        let mut state = entry.state.lock().await;
        match &*state {
            State::New if is_new => {}
            State::Doubt(link) => {
                // It may have it already, and would have it twice.
                let left = Self::say(link, self.dialect.leave(&entry.claim, &entry.key), patience).await;
                match left {
                    Ok(_) => {}
                    Err(_) if link.is_over() => self.bury(link),
                    Err(trouble) => return Err(self.explain(trouble)),
                }
                *state = State::New;
            }
            _ => {
                drop(state);
                return self.standing(&entry, &claim, patience).await;
            }
        }
        let entered = self.enter_anew(&entry, &mut state, patience).await;
        if matches!(*state, State::New) {
            *state = State::Gone;
            self.forget(&entry);
        }
        entered
    }

    async fn enter_anew(
        self: &Arc<Self>,
        entry: &Arc<Entry<D>>,
        state: &mut State<D>,
        patience: Duration,
    ) -> Result<Standing> {
        let taken = match self.has_other(entry) {
            true => Taken::Busy(1),
            false => self.take(entry, state, patience).await?,
        };
        match (taken, entry.claim.wait) {
            (Taken::Held(fence), _) => Ok(held(&entry.claim, fence)),
            (Taken::Conflict(capacity), _) => Err(entry.claim.conflict(capacity)),
            (Taken::Namesake(other), _) => Err(namesake(&entry.claim, &other)),
            (_, Wait::No) => Ok(Standing::Refused),
            (_, Wait::Watch) => {
                let sleep = UNTOLD.mul_f64(0.5 + fastrand::f64() / 2.0);
                let wake = Wake::from_future(async move {
                    tokio::time::sleep(sleep).await;
                    Woken::Ask
                });
                Ok(Standing::Queued { ahead: None, wake, sleep })
            }
            (_, Wait::Line) => self.line_up(entry, state, patience).await,
        }
    }

    /// Takes it if it is free.
    async fn take(&self, entry: &Entry<D>, state: &mut State<D>, patience: Duration) -> Result<Taken> {
        let hub = self.hub().await?;
        // From here on the server may have given it to us, whatever we hear.
        *state = State::Doubt(hub.clone());
        match hub.ask(self.dialect.take(&entry.claim, &entry.key), patience).await {
            Ok(rows) => {
                let taken = self.read(&rows, D::read_taken)?;
                *state = match &taken {
                    Taken::Held(_) => State::Held(hub),
                    _ => State::New,
                };
                Ok(taken)
            }
            Err(trouble) => {
                // What was undone was its record; the lock itself may be had.
                if matches!(trouble, Trouble::Said(_))
                    && Self::say(&hub, self.dialect.leave(&entry.claim, &entry.key), patience).await.is_ok()
                {
                    *state = State::New;
                }
                Err(self.explain(trouble))
            }
        }
    }

    /// Waits for it on a connection of its own. One that is not made within the patience waits when it is: the claim stands in line
    /// a little later than it was told, and its caller does not take the server for dead.
    async fn line_up(
        self: &Arc<Self>,
        entry: &Arc<Entry<D>>,
        state: &mut State<D>,
        patience: Duration,
    ) -> Result<Standing> {
        let wake = entry.wake();
        let (tell, mut told) = oneshot::channel();
        *state = State::Waiting { link: None, leaving: false };
        let (room, waiting) = (self.clone(), entry.clone());
        self.office.spawn(async move {
            // Where nobody waits to be told, it goes on here.
            match tell.send(room.stand(&waiting).await) {
                Ok(()) => {}
                Err(Ok((link, _))) => room.await_turn(&waiting, &link).await,
                Err(Err(_)) => room.settle(&waiting, None, None).await,
            }
        });
        let stood = match timeout(patience, &mut told).await {
            Ok(stood) => stood.ok(),
            Err(_) => {
                told.close();
                told.try_recv().ok()
            }
        };
        match stood {
            Some(Ok((link, ahead))) => {
                self.begin(entry, state, link, patience).await;
                Ok(Standing::Queued { ahead: Some(ahead), wake, sleep: TRUST })
            }
            Some(Err(error)) => {
                *state = State::New;
                Err(error)
            }
            None => Ok(Standing::Queued { ahead: Some(1), wake, sleep: TRUST }),
        }
    }

    /// Begins to wait on this connection. Ends when the server has the claim in its line: what was only sent may be overtaken. Or
    /// when the wait is over already.
    async fn begin(
        self: &Arc<Self>,
        entry: &Arc<Entry<D>>,
        state: &mut State<D>,
        link: Arc<Link<D>>,
        patience: Duration,
    ) {
        let told = link.send(self.dialect.wait(&entry.claim, &entry.key));
        *state = State::Waiting { link: Some(link.clone()), leaving: false };
        let (over, mut is_over) = oneshot::channel::<()>();
        let (room, waiting) = (self.clone(), entry.clone());
        self.office.spawn(async move {
            let answer = told.await.ok().and_then(Result::ok);
            drop(over);
            room.settle(&waiting, Some(&link), answer).await;
        });
        let until = self.clock.now() + patience;
        while self.clock.now() < until {
            let left = until.since(self.clock.now());
            let found = self.dialect.clone().call(self.dialect.find(&entry.claim), left).await;
            // Who cannot look knows no more if it waits.
            if !found.is_ok_and(|rows| rows.is_empty()) || timeout(PLACING, &mut is_over).await.is_ok() {
                return;
            }
        }
    }

    /// Gets a connection and writes down that it will wait, and for what.
    async fn stand(&self, entry: &Entry<D>) -> Result<(Arc<Link<D>>, u32)> {
        let link = self.spare().await?;
        let text = self.dialect.line_up(&entry.claim, &entry.key);
        let stood = Self::say(&link, text, self.dialect.terms().timeout).await;
        let ahead = match stood {
            Ok(rows) => self.read(&rows, D::read_ahead),
            Err(trouble) => Err(self.explain(trouble)),
        };
        match ahead {
            Ok(ahead) => Ok((link, ahead)),
            Err(error) => {
                self.bury(&link);
                Err(error)
            }
        }
    }

    /// Waits on this connection, if it is wanted still.
    async fn await_turn(&self, entry: &Entry<D>, link: &Arc<Link<D>>) {
        let told = {
            let mut state = entry.state.lock().await;
            match &mut *state {
                State::Waiting { link: place, leaving: false } if !self.is_over() => {
                    *place = Some(link.clone());
                    Some(link.send(self.dialect.wait(&entry.claim, &entry.key)))
                }
                _ => None,
            }
        };
        let answer = match told {
            Some(told) => told.await.ok().and_then(Result::ok),
            None => None,
        };
        self.settle(entry, Some(link), answer).await;
    }

    /// A wait has come to its end.
    async fn settle(&self, entry: &Entry<D>, link: Option<&Arc<Link<D>>>, answer: Option<Vec<RowOf<D>>>) {
        let taken = answer.and_then(|rows| self.read(&rows, D::read_taken).ok());
        let mut state = entry.state.lock().await;
        let is_wanted = matches!(*state, State::Waiting { leaving: false, .. }) && !self.is_over();
        match (taken, link) {
            (Some(Taken::Held(fence)), Some(link)) if is_wanted => {
                *state = State::Held(link.clone());
                drop(state);
                entry.tell(Woken::Held(entry.claim.is_exclusive().then_some(fence)));
            }
            (_, link) => {
                *state = State::Gone;
                // It may have been granted in the moment in which it was given up.
                if let Some(link) = link {
                    match Self::say(link, self.dialect.clean(), self.dialect.terms().timeout).await {
                        Ok(_) => self.put_by(link.clone()),
                        Err(_) => self.bury(link),
                    }
                }
                self.forget(entry);
                drop(state);
                entry.tell(Woken::Ask);
            }
        }
    }

    /// Where a claim stands that was entered before.
    pub(crate) async fn standing(
        self: &Arc<Self>,
        entry: &Arc<Entry<D>>,
        claim: &Claim,
        patience: Duration,
    ) -> Result<Standing> {
        let until = self.clock.now() + patience;
        loop {
            let mut settled = std::pin::pin!(entry.settled.notified());
            settled.as_mut().enable();
            let mut state = entry.state.lock().await;
            let number = match &*state {
                State::New | State::Gone => return Ok(Standing::Gone),
                State::Doubt(_) => return Err(self.explain(Trouble::Silent(patience))),
                State::Waiting { link, .. } => link.as_ref().map(|link| link.badge().number),
                State::Held(link) => {
                    let link = link.clone();
                    return self.tend(entry, claim, &mut state, &link, patience).await;
                }
            };
            drop(state);
            let wake = entry.wake();
            let rolled = self.roll(patience).await?;
            // The server has granted it: we are about to hear of it.
            let granted = rolled
                .iter()
                .any(|one| one.seq == Some(claim.id.seq) && Some(one.number) == number && one.held);
            let left = until.since(self.clock.now());
            if granted && timeout(left, settled).await.is_ok() {
                continue;
            }
            return Ok(Standing::Queued { ahead: Some(1), wake, sleep: TRUST });
        }
    }

    async fn tend(
        &self,
        entry: &Entry<D>,
        claim: &Claim,
        state: &mut State<D>,
        link: &Arc<Link<D>>,
        patience: Duration,
    ) -> Result<Standing> {
        match link.ask(self.dialect.tend(claim, &entry.key), patience).await {
            Ok(rows) => match self.read(&rows, D::read_taken)? {
                Taken::Held(fence) => Ok(held(claim, fence)),
                _ => {
                    self.give_up(entry, state, link, patience).await;
                    Ok(Standing::Gone)
                }
            },
            Err(_) if link.is_over() => {
                self.give_up(entry, state, link, patience).await;
                Ok(Standing::Gone)
            }
            Err(trouble) => Err(self.explain(trouble)),
        }
    }

    /// A hold is over, whatever the server still has of it.
    pub(super) async fn give_up(
        &self,
        entry: &Entry<D>,
        state: &mut State<D>,
        link: &Arc<Link<D>>,
        patience: Duration,
    ) {
        *state = State::Gone;
        self.forget(entry);
        if link.is_over() {
            self.bury(link);
            return;
        }
        let text = self.dialect.leave(&entry.claim, &entry.key);
        if Self::say(link, text, patience).await.is_err() {
            self.bury(link);
        }
    }

    /// Leaves a line.
    pub(crate) async fn leave(&self, id: ClaimId, patience: Duration) -> Result<()> {
        let Some(entry) = self.known(id) else { return Ok(()) };
        let mut state = entry.state.lock().await;
        if let State::Waiting { link, leaving } = &mut *state {
            *leaving = true;
            let link = link.clone();
            drop(state);
            self.stop_waiting(&entry, link.as_ref(), patience).await;
            return Ok(());
        }
        let Some(link) = state.link().cloned() else {
            self.forget(&entry);
            return Ok(());
        };
        let text = self.dialect.leave(&entry.claim, &entry.key);
        match Self::say(&link, text, patience).await {
            Ok(_) => {
                let hub = self.hub.lock().await;
                if !Arc::ptr_eq(&hub, &link) {
                    self.put_by(link);
                }
            }
            Err(_) if link.is_over() => self.bury(&link),
            Err(trouble) => return Err(self.explain(trouble)),
        }
        *state = State::Gone;
        self.forget(&entry);
        Ok(())
    }

    /// Ends a wait on the server. A connection that does not let go of it is given up; one that is being made will not begin.
    async fn stop_waiting(&self, entry: &Entry<D>, link: Option<&Arc<Link<D>>>, patience: Duration) {
        let until = self.clock.now() + patience;
        while self.clock.now() < until {
            let mut settled = std::pin::pin!(entry.settled.notified());
            settled.as_mut().enable();
            if !matches!(*entry.state.lock().await, State::Waiting { .. }) {
                return;
            }
            let Some(link) = link else { return };
            let left = until.since(self.clock.now());
            let _ = self.dialect.clone().call(self.dialect.cancel(link.badge()), left).await;
            if timeout(AGAIN, settled).await.is_ok() {
                return;
            }
        }
        if let Some(link) = link {
            self.bury(link);
        }
    }
}

fn namesake(claim: &Claim, other: &str) -> Error {
    let text = format!(
        "{} and {other} are the same lock to the server, for their keys are equal; rename one, or use mode=table",
        claim.name
    );
    Error::new(ErrorKind::Invalid, text)
}

fn held(claim: &Claim, fence: Fence) -> Standing {
    Standing::Held { fence: claim.is_exclusive().then_some(fence), left: None }
}
