//! The signals that we pass on.

use std::{future::poll_fn, io, task::Poll};

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::exit::{Exit, Failure};

/// What a supervisor, a shell or a person sends to have something done: to us it means the command.
const PASSED_ON: [Signal; 7] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2, Signal::WINCH];

/// Listens for them. From here on none of them ends us by itself.
pub(crate) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        // What we were told to ignore (nohup, a background job of a script) stays ignored, for the command as well.
        let ignored = ignored();
        let streams = PASSED_ON
            .into_iter()
            .filter(|signal| ignored & (1 << (signal.as_raw() - 1)) == 0)
            .map(|signal| Ok((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?)))
            .collect::<io::Result<_>>()?;
        Ok(Self { streams })
    }

    /// The next one.
    ///
    /// # Cancel safety
    /// None is lost when this is dropped.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (signal, stream) in &mut self.streams {
                if let Poll::Ready(Some(())) = stream.poll_recv(cx) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The next one that ends a process which does nothing about it.
    ///
    /// # Cancel safety
    /// None is lost when this is dropped.
    pub(crate) async fn next_end(&mut self) -> Signal {
        loop {
            match self.next().await {
                Signal::WINCH => {}
                signal => return signal,
            }
        }
    }

    /// Listens, with an error to show.
    pub(crate) fn heed() -> Result<Self, Failure> {
        Self::listen()
            .map_err(|error| Failure::new(Exit::Unreachable, format!("cannot listen for signals: {error}")))
    }

    /// Does `work` unless a signal comes first: that ends us, and what was begun is given up.
    pub(crate) async fn unless_told<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            signal = self.next_end() => Err(Failure::silent(Exit::Signal(signal.as_raw()))),
            done = work => done,
        }
    }
}

/// The set of signals that this process ignores, signal 1 in the lowest bit; none where the system does not tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
}
