//! How members vote, and how votes are taken back.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, PoisonError, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use super::{
    Inner, is_held, is_taken, is_word,
    round::{self, Answers, Stop},
};
use crate::{Claim, Error, Exit, Fence, Moment, Reply, Result, Standing, Wait};

/// Where a claim stands, as far as is known.
struct Ballot {
    /// Who has voted for it.
    voters: Vec<usize>,
    /// Who may have: it did not answer.
    doubtful: Vec<usize>,
    /// The fences that they have.
    fences: Vec<Fence>,
    /// The shortest lease that is left.
    left: Option<Duration>,
}

/// How soon a withdrawal in doubt is repeated first, and how often later.
const HAUNTING: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));

/// With more than this under way the ttl has to do.
const MOST_HAUNTED: usize = 4096;

/// How far ahead of our time a fence is asked for.
const HINT_US: u64 = 10_000;

/// Whatever a member says, nobody asks more often than this.
const SHORTEST_SLEEP: Duration = Duration::from_millis(5);

/// How often those who have a part of the votes are given time to give way.
const GIVING_WAY: usize = 3;

impl Ballot {
    fn count(answers: &Answers<Standing>, members: usize) -> Self {
        let mut ballot = Self { voters: Vec::new(), doubtful: Vec::new(), fences: Vec::new(), left: None };
        for at in 0..members {
            match answers.of(at) {
                Some(Ok(Standing::Held { fence, left })) => {
                    ballot.voters.push(at);
                    ballot.fences.extend(*fence);
                    ballot.left = [ballot.left, *left].into_iter().flatten().min();
                }
                Some(Ok(_)) => {}
                // Who does not take part yet has written nothing.
                Some(Err(error)) if error.retry_after().is_some() => {}
                Some(Err(_)) | None => ballot.doubtful.push(at),
            }
        }
        ballot
    }
}

impl Inner {
    fn count(&self, answers: &Answers<Standing>) -> Ballot {
        Ballot::count(answers, self.members.len())
    }

    pub(super) async fn enter(self: Arc<Self>, claim: Arc<Claim>) -> Result<Standing> {
        let (need, patience, began) = (self.need(), self.patience(claim.ttl), self.clock.now());
        let mut answers = Answers::none(self.members.len());
        let claim = &claim;
        // Most locks are free: what has to be set up to wait is set up by who has to wait.
        self.poll(claim, Wait::No, &mut answers, patience).await;
        if claim.wait != Wait::No && self.refusal(&answers).is_none() && self.is_contested(&answers) {
            answers.forget(|standing| !is_held(standing));
            self.poll(claim, Wait::Watch, &mut answers, patience).await;
            for _ in 0..GIVING_WAY {
                if !self.is_contested(&answers) || !self.is_first(&answers) {
                    break;
                }
                let now = self.clock.now();
                round::rest(self.clock.clone(), now + moment(now.since(began)).min(patience)).await;
                answers.forget(|standing| !is_held(standing));
                self.poll(claim, Wait::Watch, &mut answers, patience).await;
            }
        }
        self.note_dropped(claim.id.session, &answers);
        let votes = answers.count(is_held);
        if votes >= need {
            let ballot = self.count(&answers);
            drop(answers);
            return self.confirm(claim, ballot, patience).await;
        }
        let ballot = self.count(&answers);
        if let Some(error) = self.refusal(&answers) {
            drop(answers);
            self.take_back(claim, ballot, patience).await;
            return Err(error);
        }
        if !self.is_contested(&answers) {
            // Nobody else has it for sure: core asks again under this id, or withdraws it. Unless that will be a while.
            let error = self.too_few("vote", &answers);
            drop(answers);
            if error.retry_after().is_some() {
                self.take_back(claim, ballot, patience).await;
            }
            return Err(error);
        }
        self.take_back(claim, ballot, patience).await;
        if claim.wait == Wait::No {
            return Ok(Standing::Refused);
        }
        let (mut wakes, mut sleep) = (Vec::new(), Duration::from_secs(1));
        for standing in answers.take_good() {
            if let Standing::Queued { wake, sleep: longest, .. } = standing {
                wakes.push(wake);
                sleep = sleep.min(longest);
            }
        }
        let now = self.clock.now();
        let or = (votes > 0).then(|| now + apart(now.since(began), patience));
        Ok(Standing::Queued {
            ahead: None,
            wake: round::so_many_of(wakes, need - votes, self.clock.clone(), or),
            sleep: sleep.max(SHORTEST_SLEEP),
        })
    }

    /// The fence that every member is asked to mint, if it is the largest it knows of: then no one has to be told of another's,
    /// and the second round trip is saved. A little ahead of the time, so that the members' clocks are behind.
    fn hint(&self, claim: &Claim) -> Option<Fence> {
        if !self.fenced || !claim.is_exclusive() {
            return None;
        }
        let least = self.clock.wall_us().saturating_add(HINT_US);
        let next = |last: u64| Some(last.saturating_add(1).max(least));
        let last = self.hints.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        last.ok().and_then(next).map(Fence::new)
    }

    /// Asks the members for their votes who have not given them yet.
    async fn poll(
        &self,
        claim: &Arc<Claim>,
        wait: Wait,
        answers: &mut Answers<Standing>,
        patience: Duration,
    ) {
        let need = self.need();
        let stop = |answers: &Answers<Standing>| {
            Stop::when(answers.count(is_held) >= need || self.is_contested(answers))
        };
        let whom: Vec<usize> = (0..self.members.len()).filter(|&at| answers.of(at).is_none()).collect();
        let mut sent = Vec::with_capacity(whom.len());
        // In the same order to all of them, or each would have seen another largest fence.
        poll_fn(|cx| {
            let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
            let asked = Arc::new(Claim { wait, floor: self.hint(claim), ..(**claim).clone() });
            for &at in &whom {
                let Some(member) = self.members.get(at) else { continue };
                let mut reply = member.engine.claim(asked.clone());
                match Pin::new(&mut reply).poll(cx) {
                    Poll::Ready(answer) => sent.push((at, Reply::now(answer))),
                    Poll::Pending => sent.push((at, reply)),
                }
            }
            Poll::Ready(())
        })
        .await;
        let late = self.gather(answers, sent.into_iter(), patience, stop).await;
        for at in whom {
            let is_clear = answers.of(at).is_some_and(is_word);
            self.flights.doubt(claim.id, at, (!is_clear).then(|| self.clock.now() + claim.ttl));
        }
        self.flights.follow_claim(claim.id, late);
    }

    /// Whether we have the vote of the first of those who answer. Of several who have a part of the votes each, one has
    /// this: it stays, the others give way.
    fn is_first(&self, answers: &Answers<Standing>) -> bool {
        let first = (0..self.members.len()).find(|&at| !self.silent.is(at));
        first.is_some_and(|at| answers.good(at).is_some_and(is_held))
    }

    /// An error that asking again would not change, of so many that the others are not enough.
    fn refusal(&self, answers: &Answers<Standing>) -> Option<Error> {
        if answers.refusals() > self.spare() { answers.refusal() } else { None }
    }

    /// Whether so many have given it to others that the rest is not enough.
    fn is_lost(&self, answers: &Answers<Standing>) -> bool {
        answers.count(is_taken) > self.spare()
    }

    /// Whether it is known that others have it, or a part of it: with those who do not answer it might be enough, but to
    /// stay for that would keep everybody from it who has a part.
    fn is_contested(&self, answers: &Answers<Standing>) -> bool {
        let (votes, taken) = (answers.count(is_held), answers.count(is_taken));
        votes < self.need() && taken > 0 && (self.is_lost(answers) || votes + taken >= self.need())
    }

    /// Enough have voted: the largest fence is written back to them.
    async fn confirm(&self, claim: &Arc<Claim>, ballot: Ballot, patience: Duration) -> Result<Standing> {
        let Ballot { voters, fences, left, .. } = ballot;
        let largest = fences.iter().max().copied();
        let Some(fence) = largest.filter(|_| self.fenced && claim.is_exclusive()) else {
            return Ok(Standing::Held { fence: None, left });
        };
        self.hints.fetch_max(fence.get(), Ordering::Relaxed);
        // All of them have minted what they were asked for: nobody has to be told.
        if fences.iter().filter(|known| **known == fence).count() >= self.need() {
            return Ok(Standing::Held { fence: Some(fence), left });
        }
        let question = Arc::new(Claim { floor: Some(fence), ..claim.asking() });
        let asked =
            voters.iter().filter_map(|&at| Some((at, self.members.get(at)?.engine.claim(question.clone()))));
        let need = self.need();
        let has = |standing: &Standing| matches!(standing, Standing::Held { fence: Some(known), .. } if *known >= fence);
        let stop = |answers: &Answers<Standing>| Stop::when(answers.count(has) >= need);
        let mut known = Answers::none(self.members.len());
        let late = self.gather(&mut known, asked, patience, stop).await;
        self.flights.follow(late);
        if known.count(has) < need {
            return Err(self.too_few("confirm the fence", &known));
        }
        // Not a larger one that a late message has left with one of them: no majority knows that.
        Ok(Standing::Held { fence: Some(fence), left })
    }

    pub(super) async fn question(self: &Arc<Self>, claim: Arc<Claim>) -> Result<Standing> {
        let (need, spare, patience) = (self.need(), self.spare(), self.patience(claim.ttl));
        let gone = |standing: &Standing| !is_held(standing);
        let stop = |answers: &Answers<Standing>| {
            Stop::when(answers.count(is_held) >= need || answers.count(gone) > spare)
        };
        let answers = self.ask_all(patience, stop, |engine| engine.claim(claim.clone())).await;
        if answers.count(is_held) >= need {
            // One of them may know a larger fence than most: then they are told.
            let ballot = self.count(&answers);
            drop(answers);
            return self.confirm(&claim, ballot, patience).await;
        }
        if answers.count(gone) > spare {
            let ballot = self.count(&answers);
            drop(answers);
            self.take_back(&claim, ballot, patience).await;
            return Ok(Standing::Gone);
        }
        Err(self.too_few("say whether it is held", &answers))
    }

    /// Takes a claim out of the members that may have it; those who said so are waited for. Not where it was refused: that
    /// would only wake those who wait, ourselves included. Its id is not used again.
    async fn take_back(self: &Arc<Self>, claim: &Arc<Claim>, ballot: Ballot, patience: Duration) {
        let Ballot { voters, doubtful, .. } = ballot;
        let asked = voters.iter().chain(&doubtful);
        let asked = asked.filter_map(|&at| Some((at, self.withdraw_at(at, claim, Exit::Own)?)));
        let stop = |left: &Answers<()>| Stop::when(voters.iter().all(|&at| left.of(at).is_some()));
        let mut left = Answers::none(self.members.len());
        let late = self.gather(&mut left, asked, patience, stop).await;
        self.flights.follow(late);
    }

    /// Behind whatever of the claim is still on its way there; again and again if it fails.
    fn withdraw_at(self: &Arc<Self>, at: usize, claim: &Arc<Claim>, exit: Exit) -> Option<Reply<()>> {
        let (engine, claim) = (self.members.get(at)?.engine.clone(), claim.clone());
        if let Some(until) = self.flights.undoubt(claim.id, at) {
            self.haunt(at, claim.clone(), until);
        }
        let landing = self.flights.landing(claim.id, at);
        let reply = match landing.is_some() {
            true => Err(None),
            false => engine.withdraw(claim.clone(), exit.clone()).into_now().map_err(Some),
        };
        let inner = self.clone();
        Some(match reply {
            Ok(left) => {
                inner.persist(at, &claim, &exit, &left);
                Reply::now(left)
            }
            Err(reply) => Reply::later(async move {
                if let Some(landing) = landing {
                    landing.await;
                }
                let left = match reply {
                    Some(reply) => reply.await,
                    None => engine.withdraw(claim.clone(), exit.clone()).await,
                };
                inner.persist(at, &claim, &exit, &left);
                left
            }),
        })
    }

    /// What could not be withdrawn is tried again. Not a break: whoever was told that it failed must not have it done later.
    fn persist(&self, at: usize, claim: &Arc<Claim>, exit: &Exit, left: &Result<()>) {
        if left.is_err() && *exit == Exit::Own {
            self.haunt(at, claim.clone(), self.clock.now() + claim.ttl);
        }
    }

    /// A message that entered a claim was not answered: it may lie before a member that stands still, and be carried out when
    /// that goes on, behind a withdrawal over another connection. So that is repeated until its time is up.
    fn haunt(&self, at: usize, claim: Arc<Claim>, until: Moment) {
        let Some(member) = self.members.get(at).cloned() else { return };
        if self.flights.aside() > MOST_HAUNTED {
            return;
        }
        let (clock, mut pause) = (self.clock.clone(), HAUNTING.0);
        self.flights.spawn_aside(async move {
            while clock.now() < until {
                round::rest(clock.clone(), (clock.now() + pause).min(until)).await;
                let _ = member.engine.withdraw(claim.clone(), Exit::Own).await;
                pause = (pause * 2).min(HAUNTING.1);
            }
        });
    }

    /// From everywhere; it is free when so many have it free that somebody else can have it.
    pub(super) async fn withdraw(self: &Arc<Self>, claim: Arc<Claim>, exit: Exit) -> Result<()> {
        self.flights.left(claim.id);
        let asked =
            (0..self.members.len()).filter_map(|at| Some((at, self.withdraw_at(at, &claim, exit.clone())?)));
        let (need, patience) = (self.need(), self.patience(claim.ttl));
        let stop = |left: &Answers<()>| Stop::when(exit == Exit::Own && left.all_good().count() >= need);
        let mut left = Answers::none(self.members.len());
        let late = self.gather(&mut left, asked, patience, stop).await;
        self.flights.follow(late);
        if left.all_good().count() < need {
            return Err(self.too_few("release it", &left));
        }
        Ok(())
    }

    /// The error when too few members did what they were asked. If it is only that some do not take part yet, it says after
    /// how long enough of them will.
    pub(super) fn too_few<T>(&self, what: &str, answers: &Answers<T>) -> Error {
        let mut whys: Vec<String> = self
            .members
            .iter()
            .enumerate()
            .filter_map(|(at, member)| match answers.of(at) {
                Some(Ok(_)) => None,
                Some(Err(error)) if error.retry_after().is_some() => None,
                Some(Err(error)) => Some(format!("{}: {error}", member.name)),
                None => Some(format!("{}: no answer in time", member.name)),
            })
            .collect();
        let young = self.members.iter().enumerate().filter_map(|(at, member)| {
            let error = answers.of(at)?.as_ref().err()?;
            Some((format!("{} in {:.1?}", member.name, error.retry_after()?), error))
        });
        let (young, reasons): (Vec<String>, Vec<&Error>) = young.unzip();
        if let Some(why) = reasons.first() {
            whys.push(format!("not yet: {} ({why})", young.join(", ")));
        }
        let (all, need) = (self.members.len(), self.need());
        let text = format!("fewer than {need} of {all} stores {what}: {}", whys.join("; "));
        let error = Error::new(crate::ErrorKind::Unavailable, text);
        let mut waits: Vec<Duration> =
            answers.all_bad().filter_map(|(_, error)| error.retry_after()).collect();
        waits.sort_unstable();
        let missing = need.saturating_sub(answers.all_good().count());
        match missing.checked_sub(1).and_then(|last| waits.get(last)) {
            Some(&after) => error.until_after(after),
            None => error,
        }
    }
}

/// How long to keep away where several have a part of the votes each: whoever comes back first, and alone, has them all.
/// Sometimes briefly and sometimes long, for nobody knows how many there are; never longer than a member may take.
fn apart(round: Duration, longest: Duration) -> Duration {
    let scale = f64::from(1u32 << fastrand::u32(0..6));
    moment(round).mul_f64(scale * fastrand::f64()).min(longest)
}

/// The time of a round, or a little.
fn moment(round: Duration) -> Duration {
    round.max(Duration::from_micros(200))
}
