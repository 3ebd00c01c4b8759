//! How long to wait: for a lock, and for a store that does not answer. One rule for every store.

use std::{convert::Infallible, time::Duration};

use bramah::{Clock, Moment, Session};

use crate::{
    args::IfDown,
    exit::{Exit, Failure},
    plan::{Patience, Talk},
    span,
    store::Store,
    waiter::Outage,
};

/// The pause before a store that is down is tried again, at first and at the most.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];
/// How long a store may take to answer in any case: a short wait is for the lock.
const ANSWER: Duration = Duration::from_secs(1);
/// After how long without an answer that is told.
const SILENCE: Duration = Duration::from_secs(2);
/// How often we look whether a store answers again that somebody waits for.
const LOOK: Duration = Duration::from_millis(250);
/// When an endless wait for a store is over, if `--if-down` says what happens then.
const ENDLESS: Duration = Duration::from_secs(10);

/// The wait of one command.
#[derive(Debug)]
pub(crate) struct Wait {
    clock: Clock,
    began: Moment,
    /// `None` for a try, [`Moment::NEVER`] without a limit.
    pub(crate) until: Option<Moment>,
    /// For how long at a time the store may be out of reach.
    outage: Duration,
}

impl Wait {
    /// Begins now. With a limit, that limits the wait for the store, too; without one `if_down` decides.
    pub(crate) fn new(patience: Patience, if_down: IfDown) -> Self {
        let clock = Clock::boot();
        let began = clock.now();
        let until = match patience {
            Patience::None => None,
            Patience::For(wait) => Some(began + wait),
            Patience::Forever => Some(Moment::NEVER),
        };
        let outage = match (patience, if_down) {
            (Patience::Forever, IfDown::Fail | IfDown::Run) => ENDLESS,
            _ => Duration::MAX,
        };
        Self { clock, began, until, outage }
    }

    /// Does `work`, and again while it fails because the store is out of reach and there is time left. Drops it when the
    /// time is up.
    pub(crate) async fn for_store<T>(
        &self,
        store: &Store,
        talk: Talk,
        work: impl AsyncFn() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Some(until) = self.until else { return work().await };
        let now = self.clock.now();
        let until = until.min(now + self.outage).max(now + ANSWER);
        let mut outage = Outage::new(talk, until);
        let (mut last, [mut pause, longest]) = (None, PAUSES);
        loop {
            let done = tokio::select! {
                biased;
                done = work() => done,
                () = self.clock.sleep_until(until) => return Err(last.unwrap_or_else(|| self.silent(store))),
                never = self.tell_silence(&mut outage, store) => match never {},
            };
            match done {
                Err(failure) if failure.exit == Exit::Unreachable => {
                    if self.clock.now() >= until {
                        return Err(failure);
                    }
                    outage.tell(failure.line());
                    last = Some(failure);
                }
                done => return done,
            }
            self.clock.sleep_until((self.clock.now() + pause).min(until)).await;
            pause = (pause * 2).min(longest);
        }
    }

    async fn tell_silence(&self, outage: &mut Outage, store: &Store) -> Infallible {
        self.clock.sleep_until(self.clock.now() + SILENCE).await;
        if !outage.is_told() {
            outage.tell(&format!("{} has not answered yet", store.shown()));
        }
        std::future::pending().await
    }

    /// The failure of a store that has said nothing at all.
    pub(crate) fn silent(&self, store: &Store) -> Failure {
        let waited = span::write(self.clock.now().since(self.began));
        let line =
            format!("{} did not answer within {waited}; is it up, and the way to it open?", store.shown());
        Failure::new(Exit::Unreachable, line)
    }

    /// Ends when the store has not answered a waiter of this session for as long as it may.
    pub(crate) async fn given_up(&self, session: &Session) -> Failure {
        if self.outage == Duration::MAX {
            return std::future::pending().await;
        }
        let mut since = None;
        loop {
            self.clock.nap(LOOK).await;
            // A store that says when it will take part is not down.
            let outage = session.hindrance().filter(|why| why.retry_after().is_none());
            let now = self.clock.now();
            match outage {
                None => since = None,
                Some(why) if now.since(*since.get_or_insert(now)) >= self.outage => return why.into(),
                Some(_) => {}
            }
        }
    }
}
