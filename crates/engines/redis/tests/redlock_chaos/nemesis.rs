//! Who kills masters.

use std::time::Duration;

use bramah_core::Moment;

use crate::{rig::*, stage::*};

/// Kills masters and starts them again, so that at most two of them are down or do not vote yet.
pub(crate) struct Nemesis<'a> {
    masters: &'a Masters,
    ttl: Duration,
    /// Those that are down, and until when.
    down: Vec<(usize, Moment)>,
    pub(crate) restarts: usize,
}

/// How many may be out at once.
const MOST: usize = 2;

impl<'a> Nemesis<'a> {
    pub(crate) fn over(masters: &'a Masters, ttl: Duration) -> Self {
        Self { masters, ttl, down: Vec::new(), restarts: 0 }
    }

    /// Does what is due, perhaps nothing.
    pub(crate) fn act(&mut self) {
        self.restart(|until| until < now());
        let voting = self.voting();
        if self.masters.len() - voting.len() < MOST && fastrand::u8(..8) == 0 {
            let at = voting[fastrand::usize(..voting.len())];
            self.masters[at].kill();
            self.down.push((at, now() + ms(fastrand::u64(..1500))));
        }
    }

    /// Starts all that are down, and tells whether all vote.
    pub(crate) fn peace(&mut self) -> Result<(), String> {
        self.restart(|_| true);
        let voting = self.voting();
        if voting.len() == self.masters.len() { Ok(()) } else { Err(format!("{voting:?} vote")) }
    }

    fn restart(&mut self, due: impl Fn(Moment) -> bool) {
        let all = std::mem::take(&mut self.down);
        let (back, down): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, until)| due(*until));
        self.down = down;
        for (at, _) in back {
            self.masters[at].restart().unwrap();
            self.restarts += 1;
        }
    }

    /// Which of them everybody lets vote, also who asked for their age when they had just started.
    fn voting(&self) -> Vec<usize> {
        let votes = |at: &usize| uptime(&self.masters[*at]).is_ok_and(|age| age >= self.ttl.as_secs() + 3);
        (0..self.masters.len()).filter(votes).collect()
    }
}
