//! Redisson itself, in Java, and ours on one server, by turns.
//!
//! It comes with its own settings, and its compiler has been warmed up. Where a lock of its own for each caller is
//! measured, its callers are chains of futures with thread ids of their own or threads, whichever is quicker for it.

mod crowd;
mod machine;
mod pairs;

use super::{
    Result,
    scores::{Goal, Rounds, Scores},
    server::Server,
};

/// The release that is measured.
const VERSION: &str = "4.7.0";

/// Which lock of Redisson's.
#[derive(Clone, Copy)]
enum Kind {
    Plain,
    Fenced,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Plain => "lock",
            Self::Fenced => "fenced",
        }
    }
}

/// The contenders, in the order of [`Field`]'s parts.
const CONTENDERS: [&str; 4] = ["Redisson RLock", "Redisson RFencedLock", "bramah", "bramah, layout=redisson"];
const KINDS: [Kind; 2] = [Kind::Plain, Kind::Fenced];
const LAYOUTS: [&str; 2] = ["native", "redisson"];

/// One figure of all contenders over the rounds.
#[derive(Default)]
struct Field([Rounds; CONTENDERS.len()]);

impl Field {
    fn push(&mut self, contender: usize, value: f64) {
        if let Some(rounds) = self.0.get_mut(contender) {
            rounds.push(value);
        }
    }

    fn print(&self, scores: &Scores, what: &str, unit: &str) {
        for (who, rounds) in CONTENDERS.iter().zip(&self.0) {
            scores.figure(&format!("{who}, {what}"), rounds, unit);
        }
    }

    /// Ours over Redisson's, each like with like: both tell a token where it is `RFencedLock`.
    fn goals(&self, scores: &mut Scores, id: &str, what: &str, better: Better) {
        let [plain, fenced, native, theirs] = &self.0;
        for (layout, ours) in LAYOUTS.iter().zip([native, theirs]) {
            for (kind, redisson) in [("RLock", plain), ("RFencedLock", fenced)] {
                let (ratio, order) = match better {
                    Better::More => (ours.over(redisson), format!("{layout} over {kind}")),
                    Better::Less => (redisson.over(ours), format!("{kind} over {layout}")),
                };
                scores.goal(id, &format!("{what}, {order}"), &ratio, Goal::Above(1.0));
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Better {
    More,
    Less,
}

pub(super) fn run(scores: &mut Scores, rounds: usize) -> Result<()> {
    println!("Redisson {VERSION}, with its own settings");
    pairs::run(scores, &Server::start()?, rounds)?;
    crowd::run(scores, &Server::start()?, rounds)
}
