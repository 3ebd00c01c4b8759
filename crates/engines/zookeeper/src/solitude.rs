//! What spares a claim the look at its line: that nobody else was ever in it since we were.
//!
//! ZooKeeper numbers the children of a folder without a gap, whoever creates them and whatever they are called, for as long as the folder
//! is there. So if a node of ours was the only claim in its folder, and is gone, and the next node that we create there has the next
//! number, then nobody has created any in between, and this one is the only claim as well.
//!
//! That the folder is the same one, and not one that was deleted and made again (which numbers from zero), is known by a watch: it is
//! set before the first of the two nodes is created, and ZooKeeper tells of a change before it answers anything that was done after
//! it. After the end of a connection the client sets its watches again before it asks anything, and hears of what it missed.
//!
//! A watch costs a request. It is set for a name that is used a second time, and given up when the name has not been used for a while.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bramah_core::Moment;

use crate::unchanged::Unchanged;

/// How many folders of a session are known at a time.
const MOST: usize = 1024;

/// How long a folder is known that is not used.
const IDLE: Duration = Duration::from_secs(10);

/// What is known of the folders of a session.
#[derive(Default)]
pub(crate) struct Solitude(Mutex<HashMap<String, Folder>>);

struct Folder {
    used: Moment,
    /// While it has not fired, the folder is the same.
    watch: Option<Unchanged>,
    /// Which of its watches that is.
    watches: u64,
    last: Option<Last>,
}

/// One watch on a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watch(u64);

/// The last node of ours that was the only claim.
struct Last {
    number: i64,
    is_gone: bool,
}

/// What to ask for with the creation of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foresight {
    /// A list of the line behind it. The folder may be watched already.
    List(Option<Watch>),
    /// A watch on the folder before it, and a list behind it.
    Watch,
    /// Nothing, if the node gets this number.
    Number(i64, Watch),
}

impl fmt::Debug for Solitude {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Solitude").field("folders", &self.folders().len()).finish()
    }
}

impl Solitude {
    fn folders(&self) -> MutexGuard<'_, HashMap<String, Folder>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node is about to be created in a folder.
    pub(crate) fn foresee(&self, folder: &str, now: Moment) -> Foresight {
        let mut folders = self.folders();
        if let Some(known) = folders.get_mut(folder) {
            known.used = now;
            if !known.watch.as_mut().is_some_and(Unchanged::holds) {
                known.forget();
                return Foresight::Watch;
            }
            let watch = Watch(known.watches);
            return match &known.last {
                Some(Last { number, is_gone: true }) => Foresight::Number(number + 1, watch),
                _ => Foresight::List(Some(watch)),
            };
        }
        if folders.len() >= MOST {
            folders.retain(|_, known| known.watch.is_some());
        }
        if folders.len() < MOST {
            folders.insert(folder.to_owned(), Folder { used: now, watch: None, watches: 0, last: None });
        }
        Foresight::List(None)
    }

    /// A folder is watched from before the creation that was just answered. None if it was before that.
    pub(crate) fn watched(&self, folder: &str, watch: Unchanged) -> Option<Watch> {
        let mut folders = self.folders();
        let known = folders.get_mut(folder)?;
        if known.watch.as_mut().is_some_and(Unchanged::holds) {
            return None;
        }
        known.forget();
        known.watch = Some(watch);
        known.watches += 1;
        Some(Watch(known.watches))
    }

    /// Whether a node that has just been created is the only claim because of its number: to be asked when the creation was answered.
    pub(crate) fn is_alone(&self, folder: &str, number: i64) -> bool {
        let mut folders = self.folders();
        let Some(known) = folders.get_mut(folder) else { return false };
        let is_next = matches!(known.last, Some(Last { number: last, is_gone: true }) if last + 1 == number);
        if !is_next {
            return false;
        }
        if !known.watch.as_mut().is_some_and(Unchanged::holds) {
            known.forget();
            return false;
        }
        known.last = Some(Last { number, is_gone: false });
        true
    }

    /// A node that was created under this watch was seen to be the only claim.
    pub(crate) fn seen_alone(&self, folder: &str, number: i64, under: Watch) {
        let mut folders = self.folders();
        let known = folders.get_mut(folder).filter(|known| known.watch.is_some() && known.watches == under.0);
        if let Some(known) = known {
            known.last = Some(Last { number, is_gone: false });
        }
    }

    /// A node of ours is gone.
    pub(crate) fn gone(&self, folder: &str, number: i64) {
        let mut folders = self.folders();
        if let Some(last) = folders.get_mut(folder).and_then(|known| known.last.as_mut())
            && last.number == number
        {
            last.is_gone = true;
        }
    }

    /// Gives up what is not used.
    pub(crate) fn tidy(&self, now: Moment) {
        self.folders().retain(|_, known| now.since(known.used) < IDLE);
    }
}

impl Folder {
    fn forget(&mut self) {
        self.watch = None;
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use bramah_core::Clock;
    use tokio::sync::oneshot;

    use super::*;

    fn watch() -> (oneshot::Sender<()>, Unchanged) {
        let (fire, fired) = oneshot::channel::<()>();
        (fire, Unchanged::until(async move { drop(fired.await) }))
    }

    #[test]
    fn the_next_number_counts_under_the_watch_that_the_last_one_was_created_under() {
        let (solitude, now) = (Solitude::default(), Clock::boot().now());
        assert_eq!(solitude.foresee("x", now), Foresight::List(None));
        assert_eq!(solitude.foresee("x", now), Foresight::Watch);
        let (fire, first) = watch();
        let first = solitude.watched("x", first).unwrap();
        assert_eq!(solitude.watched("x", watch().1), None, "one that was set later tells less");
        assert_eq!(solitude.foresee("x", now), Foresight::List(Some(first)));
        solitude.seen_alone("x", 7, first);
        assert!(!solitude.is_alone("x", 8), "it is there still");
        solitude.gone("x", 6);
        assert!(!solitude.is_alone("x", 8), "that was another one");
        solitude.gone("x", 7);
        assert_eq!(solitude.foresee("x", now), Foresight::Number(8, first));
        assert!(!solitude.is_alone("x", 9) && !solitude.is_alone("y", 8));
        assert!(solitude.is_alone("x", 8));
        solitude.gone("x", 8);
        drop(fire);
        assert!(!solitude.is_alone("x", 9), "the folder may be another one");
        // What was seen under a watch that has fired says nothing under the next.
        assert_eq!(solitude.foresee("x", now), Foresight::Watch);
        let (_fire, second) = watch();
        let second = solitude.watched("x", second).unwrap();
        solitude.seen_alone("x", 9, first);
        solitude.gone("x", 9);
        assert_eq!(solitude.foresee("x", now), Foresight::List(Some(second)));
        assert!(!solitude.is_alone("x", 10));
    }

    #[test]
    fn so_many_names_are_known_and_those_in_use_the_longest() {
        let (solitude, now) = (Solitude::default(), Clock::boot().now());
        let name = |n: usize| format!("/{n}");
        for n in 0..3 * MOST {
            solitude.foresee(&name(n), now);
        }
        assert!(solitude.folders().len() <= MOST, "names that were used once");
        solitude.tidy(now + IDLE);
        assert_eq!(solitude.folders().len(), 0);
        let fires: Vec<_> = (0..MOST)
            .map(|n| {
                solitude.foresee(&name(n), now);
                let (fire, watch) = watch();
                solitude.watched(&name(n), watch);
                fire
            })
            .collect();
        assert_eq!(solitude.foresee("/one more", now), Foresight::List(None));
        assert_eq!(solitude.foresee("/one more", now), Foresight::List(None), "there is no room for it");
        solitude.foresee(&name(0), now + IDLE);
        solitude.tidy(now + IDLE);
        assert_eq!(solitude.folders().len(), 1, "the one that was used");
        assert!(!fires[0].is_closed() && fires[1].is_closed());
    }
}
