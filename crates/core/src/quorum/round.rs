//! One question to several stores at once.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
    time::Duration,
};

use tokio::sync::mpsc;

use crate::{Clock, Error, ErrorKind, Reply, Result, Wake, Woken};

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

    /// What they said who answered, once.
    pub(super) fn take_good(&mut self) -> impl Iterator<Item = T> {
        self.0.iter_mut().filter_map(|answer| answer.take()?.ok())
    }

    /// An error that asking again would not change.
    pub(super) fn refusal(&self) -> Option<Error> {
        let is_final = |error: &&Error| !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Lost);
        self.all_bad().map(|(_, error)| error).find(is_final).cloned()
    }
}

/// Asks all of them and waits until it is enough, until all have answered, or until time is over. Who has not answered by
/// then goes on: what it was asked is not dropped half-way.
pub(super) async fn gather<T: Send + 'static>(
    clock: &Clock,
    members: usize,
    asked: impl Iterator<Item = (usize, Reply<T>)>,
    patience: Duration,
    mut stop: impl FnMut(&Answers<T>) -> Stop,
) -> Answers<T> {
    let mut answers = Answers((0..members).map(|_| None).collect());
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut waiting = 0;
    for (at, reply) in asked {
        match reply.into_now() {
            Ok(answer) => answers.put(at, answer),
            Err(reply) => {
                waiting += 1;
                let tell = tell.clone();
                tokio::spawn(async move {
                    // Nobody may want to know any more.
                    let _ = tell.send((at, reply.await));
                });
            }
        }
    }
    drop(tell);
    let until = clock.now() + patience;
    while waiting > 0 && stop(&answers) == Stop::No {
        let answer = tokio::select! {
            biased;
            answer = told.recv() => answer,
            () = clock.sleep_until(until) => None,
        };
        let Some((at, answer)) = answer else { break };
        waiting -= 1;
        answers.put(at, answer);
    }
    answers
}

impl<T> Answers<T> {
    fn put(&mut self, at: usize, answer: Result<T>) {
        if let Some(place) = self.0.get_mut(at) {
            *place = Some(answer);
        }
    }
}

/// Fires when the first of them does.
pub(super) fn first_of(mut wakes: Vec<Wake>) -> Wake {
    if wakes.is_empty() {
        return Wake::never();
    }
    Wake::from_future(poll_fn(move |cx| {
        let rung = wakes.iter_mut().any(|wake| Pin::new(wake).poll(cx).is_ready());
        if rung { Poll::Ready(Woken::Ask) } else { Poll::Pending }
    }))
}
