//! Asking about a claim and taking it out: where others may be made holders by the way.

use std::time::Duration;

use bramah_core::{ErrorKind, Result};
use redis::Value;

use super::{Protocol, answer::Answer};
use crate::{
    config::Layout,
    driver::Driver,
    layout::{Item, Mark, Way},
};

impl<D: Driver> Protocol<D> {
    /// Asks about a claim. One that waits for a push on a connection that has ended listens on the next one, and then asks
    /// again: a grant in between was pushed to nobody. The answer, and which connection it came over.
    pub(super) async fn question(&self, item: Item<'_>, patience: Duration) -> Result<(Answer, u64)> {
        let Item { place, claim, .. } = item;
        let (answer, wire) = self.ask(item, patience).await?;
        let channel = self.scheme.channel(place.slot, claim.id.session);
        let is_placed = matches!(answer, Answer::Queued { .. }) && self.terms.layout == Layout::Native;
        if !is_placed || self.driver.is_listening(place.slot, &channel) {
            return Ok((answer, wire));
        }
        self.driver.listen(place.slot, channel.into(), patience).await?;
        self.ask(item, patience).await
    }

    /// Asks once; in a cluster without the mark first, which a slot that moves may have on another node.
    async fn ask(&self, item: Item<'_>, patience: Duration) -> Result<(Answer, u64)> {
        if self.driver.is_cluster() {
            let (asked, wire) =
                self.driver.send_named(self.scheme.ask(item, Mark::Unnamed, patience)).await?;
            let answer = Answer::read(&asked, item.claim)?;
            if answer != Answer::Unmarked {
                return Ok((answer, wire));
            }
        }
        let (asked, wire) = self.driver.send_named(self.scheme.ask(item, Mark::Named, patience)).await?;
        Ok((Answer::read(&asked, item.claim)?, wire))
    }

    /// Takes a claim out. In a cluster that must not wait for the mark, which a slot that moves may have on another node: then
    /// the next one is made the holder by its own renewal.
    pub(crate) async fn leave(&self, item: Item<'_>, way: Way<'_>, patience: Duration) -> Result<Value> {
        let send = |way, patience| self.driver.send(self.scheme.leave(item, way, patience));
        if self.terms.layout != Layout::Native || !self.driver.is_cluster() {
            return send(way, patience).await;
        }
        let half = patience / 2;
        if let Way::Line = way {
            match send(Way::Line, half).await {
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    tracing::debug!(%error, "a lock is left without a hand-over");
                    return send(Way::Alone, half).await;
                }
                left => return left,
            }
        }
        let left = send(way, half).await?;
        if matches!(left, Value::Int(3 | 4)) {
            self.lines.note(&item.place.key);
            if let Err(error) = send(Way::Line, half).await {
                tracing::debug!(%error, "a lock was left without a hand-over");
            }
        }
        Ok(left)
    }
}
