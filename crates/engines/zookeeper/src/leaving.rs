//! How a claim is found again, and left.

use std::sync::Arc;

use bramah_core::{Claim, Result};
use zookeeper_client::{Client, Error as Said};

use crate::{
    base::or_none,
    entry::{Entry, Node, Seat},
    fence::{self, Floor},
    line::Form,
    names,
    room::Room,
    sentinel,
};

/// Why a claim is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// To go on with it: one that is held gets its fence.
    Keep,
    /// To remove it: it needs no fence any more.
    Remove,
}

impl Room {
    /// Finds out what became of a claim of which we did not hear.
    pub(crate) async fn find(self: &Arc<Self>, client: &Client, entry: &Arc<Entry>, aim: Aim) -> Result<()> {
        let claim = entry.claim();
        let because = |said: Said| self.because(&claim, &said);
        let (line, leases) = (self.line_of(&claim), self.leases_of(&claim));
        client.sync(self.base.root()).await.map_err(because)?;
        let mut found = [Vec::new(), Vec::new()];
        let is_drawn = self.base.form(claim.capacity) == Form::Permits;
        let folders = [Some(&line), Some(&leases).filter(|_| is_drawn)];
        for (folder, found) in folders.into_iter().zip(&mut found) {
            let Some(folder) = folder else { continue };
            let children = or_none(client.list_children(folder).await).map_err(because)?;
            let own = names::kids(&children, |_| true).into_iter().filter(|kid| kid.is_of(&entry.uuid));
            for kid in own {
                let path = format!("{folder}/{}", kid.node);
                let stat = client.check_stat(&path).await.map_err(because)?;
                let stat = stat.filter(|stat| stat.ephemeral_owner == self.owner);
                found.extend(stat.map(|stat| Node { path, czxid: stat.czxid }));
            }
        }
        let [mut waiting, held] = found;
        let seat = match (waiting.pop(), held.first()) {
            (Some(node), _) => Seat::Waiting(node),
            (None, None) => Seat::New,
            (None, Some(first)) if claim.is_exclusive() && aim == Aim::Keep => {
                // Whether its fence was minted is as unknown as the rest. A newer one does no harm.
                let floor = Floor::read(client.get_data(&self.base.floor()).await).map_err(because)?;
                let fence = self.mint(client, &claim, first, None, floor).await.map_err(because)?;
                // Without one its node has gone meanwhile: whoever asks for it next finds that out.
                Seat::Held { fence: Some(fence.unwrap_or_else(|| fence::of(first))), nodes: held }
            }
            (None, Some(_)) => Seat::Held { nodes: held, fence: None },
        };
        let permits = match &seat {
            Seat::Held { nodes, .. } => nodes.iter().map(|node| node.path.clone()).collect(),
            _ => Vec::new(),
        };
        entry.sit(seat);
        for path in permits {
            self.base.office.spawn(sentinel::watch(self, entry, path));
        }
        Ok(())
    }

    /// Leaves a line.
    pub(crate) async fn leave(self: &Arc<Self>, claim: &Arc<Claim>) -> Result<()> {
        let client = self.client()?;
        // One that we do not know of may have been left by a call of ours that nobody heard of.
        let known = self.entries().get(&claim.id.seq).cloned();
        let entry = known.unwrap_or_else(|| {
            let entry = Entry::new(claim.clone(), self.base.clock.now());
            entry.sit(Seat::Doubt);
            Arc::new(entry)
        });
        let _turn = match entry.turn.try_lock() {
            Ok(turn) => turn,
            Err(_) => {
                // A question is under way and may take as long as a write. The place is given back meanwhile; what came of that is
                // found out below.
                if let Seat::Waiting(node) = entry.seat() {
                    let _ = client.delete(&node.path, None).await;
                }
                entry.turn.lock().await
            }
        };
        if matches!(entry.seat(), Seat::Doubt) {
            self.find(&client, &entry, Aim::Remove).await?;
        }
        self.remove(&client, &entry).await?;
        self.forget(&entry);
        Ok(())
    }

    /// Removes a claim's nodes, those that are there.
    pub(crate) async fn remove(&self, client: &Client, entry: &Entry) -> Result<()> {
        let nodes = match entry.seat() {
            Seat::Waiting(node) => vec![node],
            Seat::Held { nodes, .. } => nodes,
            Seat::New | Seat::Doubt | Seat::Gone => Vec::new(),
        };
        // A sentinel that sees it go has nothing to tell.
        entry.sit(Seat::Doubt);
        let deleted: Vec<_> = nodes.iter().map(|node| client.delete(&node.path, None)).collect();
        for (node, answer) in nodes.iter().zip(deleted) {
            match answer.await {
                Ok(()) | Err(Said::NoNode) => {}
                Err(said) => return Err(self.because(&entry.claim(), &said)),
            }
            if let Some(number) = node.number() {
                self.solitude.gone(node.folder(), number);
            }
        }
        entry.sit(Seat::New);
        Ok(())
    }
}
