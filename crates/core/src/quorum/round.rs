//! One question to several stores at once.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use tokio::runtime::Handle;

use crate::{Clock, Error, ErrorKind, Moment, Reply, Result, Wake, Woken};

/// Whether enough is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Yes,
    No,
}

impl Stop {
    pub(super) fn when(enough: bool) -> Self {
        if enough { Self::Yes } else { Self::No }
    }
}

/// What each member answered so far.
pub(super) struct Answers<T>(Vec<Option<Result<T>>>);

impl<T> Answers<T> {
    pub(super) fn none(members: usize) -> Self {
        Self((0..members).map(|_| None).collect())
    }

    pub(super) fn of(&self, at: usize) -> Option<&Result<T>> {
        self.0.get(at)?.as_ref()
    }

    pub(super) fn good(&self, at: usize) -> Option<&T> {
        self.of(at)?.as_ref().ok()
    }

    pub(super) fn all_good(&self) -> impl Iterator<Item = (usize, &T)> {
        self.0.iter().enumerate().filter_map(|(at, answer)| Some((at, answer.as_ref()?.as_ref().ok()?)))
    }

    pub(super) fn all_bad(&self) -> impl Iterator<Item = (usize, &Error)> {
        self.0.iter().enumerate().filter_map(|(at, answer)| Some((at, answer.as_ref()?.as_ref().err()?)))
    }

    pub(super) fn count(&self, is: impl Fn(&T) -> bool) -> usize {
        self.all_good().filter(|(_, answer)| is(answer)).count()
    }

    /// Forgets good answers that are like this.
    pub(super) fn forget(&mut self, is: impl Fn(&T) -> bool) {
        for answer in &mut self.0 {
            *answer = answer.take().filter(|answer| !answer.as_ref().is_ok_and(&is));
        }
    }

    /// What they said who answered, once.
    pub(super) fn take_good(&mut self) -> impl Iterator<Item = T> {
        self.0.iter_mut().filter_map(|answer| answer.take()?.ok())
    }

    /// An error that asking again would not change.
    pub(super) fn refusal(&self) -> Option<Error> {
        self.final_errors().next().cloned()
    }

    /// How many said such a thing.
    pub(super) fn refusals(&self) -> usize {
        self.final_errors().count()
    }

    fn final_errors(&self) -> impl Iterator<Item = &Error> {
        let is_final = |error: &&Error| !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Lost);
        self.all_bad().map(|(_, error)| error).filter(is_final)
    }

    pub(super) fn put(&mut self, at: usize, answer: Result<T>) {
        if let Some(place) = self.0.get_mut(at) {
            *place = Some(answer);
        }
    }
}

/// A question that a member has not answered when the others were enough.
pub(super) type Late<T> = (usize, Reply<T>);

/// Asks those of them, adds what they say to `answers`, and waits until that is enough, until all have answered, or until
/// time is over. Who has not answered by then is given back: what it was asked must not be dropped half-way.
#[must_use = "what is late must be waited for by somebody"]
pub(super) async fn gather<T>(
    clock: &Clock,
    answers: &mut Answers<T>,
    asked: impl Iterator<Item = Late<T>>,
    patience: Duration,
    mut stop: impl FnMut(&Answers<T>) -> Stop,
) -> Vec<Late<T>> {
    let mut late: Vec<Late<T>> = Vec::new();
    for (at, reply) in asked {
        match reply.into_now() {
            Ok(answer) => answers.put(at, answer),
            Err(reply) => late.push((at, reply)),
        }
    }
    if late.is_empty() || stop(answers) == Stop::Yes {
        return late;
    }
    let mut over = pin!(rest(clock.clone(), clock.now() + patience));
    poll_fn(|cx| {
        late.retain_mut(|(at, reply)| match Pin::new(reply).poll(cx) {
            Poll::Ready(answer) => {
                answers.put(*at, answer);
                false
            }
            Poll::Pending => true,
        });
        if late.is_empty() || stop(answers) == Stop::Yes {
            return Poll::Ready(());
        }
        over.as_mut().poll(cx)
    })
    .await;
    late
}

/// Lets time go by until then. A timer belongs to the runtime that it was made on; core finishes calls of a runtime that has
/// ended on the keeper's, so this one moves along.
pub(super) async fn rest(clock: Clock, until: Moment) {
    let mut home = Handle::current().id();
    let mut sleep = pin!(tokio::time::sleep(until.since(clock.now())));
    poll_fn(|cx| {
        let here = Handle::current().id();
        if here != home {
            home = here;
            sleep.set(tokio::time::sleep(until.since(clock.now())));
        }
        sleep.as_mut().poll(cx)
    })
    .await;
}

/// Waits for everything that is late, at once, and tells who answered after all.
pub(super) async fn finish<T>(mut late: Vec<Late<T>>, answered: impl Fn(usize)) {
    poll_fn(|cx| {
        late.retain_mut(|(at, reply)| match Pin::new(reply).poll(cx) {
            Poll::Ready(answer) => {
                if answer.is_ok() {
                    answered(*at);
                }
                false
            }
            Poll::Pending => true,
        });
        if late.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// How long the first that fires waits for the others.
const GRACE: Duration = Duration::from_millis(2);

/// Fires when so many of them have, a moment after the first of them has, or at `or`. Not only with the many: a store may tell
/// one of several who wait, and another store another one.
pub(super) fn so_many_of(mut wakes: Vec<Wake>, many: usize, clock: Clock, or: Option<Moment>) -> Wake {
    if wakes.is_empty() && or.is_none() {
        return Wake::never();
    }
    let (all, mut until) = (wakes.len(), or);
    Wake::from_future(async move {
        let mut over = pin!(rest(clock.clone(), until.unwrap_or(Moment::NEVER)));
        let mut told = false;
        poll_fn(|cx| {
            wakes.retain_mut(|wake| Pin::new(wake).poll(cx).is_pending());
            let fired = all - wakes.len();
            if fired > 0 && fired >= many.min(all) {
                return Poll::Ready(Woken::Ask);
            }
            if fired > 0 && !told {
                told = true;
                let soon = clock.now() + GRACE;
                until = Some(until.map_or(soon, |until| until.min(soon)));
                over.set(rest(clock.clone(), until.unwrap_or(soon)));
            }
            match until {
                Some(_) => over.as_mut().poll(cx).map(|()| Woken::Ask),
                None => Poll::Pending,
            }
        })
        .await
    })
}
