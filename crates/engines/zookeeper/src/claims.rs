//! How a claim is entered, asked about and left.
//!
//! Requests of one session are carried out in the order in which they were sent, so several are sent at once: a list that was asked for
//! behind a creation has the new node in it. What was listed may be old, which is harmless behind our own node: all that can be
//! missing is that somebody has left.

use std::{sync::Arc, time::Duration};

use bramah_core::{Claim, Error, ErrorKind, Fence, Result, Standing, Wait};
use zookeeper_client::{Client, Error as Said, OneshotWatcher};

use crate::{
    base::or_none,
    entry::{Entry, Node, Seat},
    fence::Floor,
    leaving::Aim,
    line::{Form, Verdict, judge},
    names::{self, Kid, LEASES, LOCKS},
    record,
    room::Room,
};

/// The longest time that a waiter trusts to be told.
const TRUST: Duration = Duration::from_secs(4);

/// The same for one that has more than [`MANY`] ahead of it: it is not its turn for a while.
const LONG_TRUST: Duration = Duration::from_secs(30);
const MANY: usize = 32;

/// The capacity of a semaphore that does not tell it.
pub(crate) const UNTOLD: u32 = 0;

/// How often a folder may go, or the node before ours, while we look.
pub(crate) const TRIES: usize = 32;

impl Room {
    /// The folder of the nodes with which claims enter.
    pub(crate) fn line_of(&self, claim: &Claim) -> String {
        let folder = self.base.folder(&claim.name);
        match self.base.form(claim.capacity) {
            Form::Mutex | Form::Latch | Form::ReadWrite => folder,
            Form::Permits => format!("{folder}/{LOCKS}"),
        }
    }

    pub(crate) fn leases_of(&self, claim: &Claim) -> String {
        format!("{}/{LEASES}", self.base.folder(&claim.name))
    }

    pub(crate) fn because(&self, claim: &Claim, said: &Said) -> Error {
        self.base.explain(claim.name.as_str(), said)
    }

    /// What its nodes say of a claim.
    pub(crate) fn line(&self, claim: &Claim) -> Vec<u8> {
        record::encode(claim, None, Some(&self.opening.about))
    }

    /// Enters a claim.
    pub(crate) async fn enter(self: &Arc<Self>, claim: &Arc<Claim>) -> Result<Standing> {
        let client = self.client()?;
        let entry = self.admit(claim);
        let _turn = entry.turn.lock().await;
        if matches!(entry.seat(), Seat::Doubt) {
            self.find(&client, &entry, Aim::Keep).await?;
        }
        if !matches!(entry.seat(), Seat::New) {
            return self.standing(&client, &entry, claim).await;
        }
        let entered = self.enter_anew(&client, &entry, claim).await;
        if matches!(entry.seat(), Seat::New) {
            self.forget(&entry);
        }
        entered
    }

    async fn enter_anew(
        self: &Arc<Self>,
        client: &Client,
        entry: &Arc<Entry>,
        claim: &Arc<Claim>,
    ) -> Result<Standing> {
        let form = self.base.form(claim.capacity);
        if form == Form::Permits {
            self.check_weight(claim)?;
        }
        for _ in 0..TRIES {
            if claim.wait != Wait::Line
                && let Some(busy) = self.look(client, claim).await?
            {
                return Ok(busy);
            }
            let (node, children, floor) = self.create(client, entry, claim).await?;
            entry.sit(Seat::Waiting(node.clone()));
            if let Some(in_use) = self.in_use_otherwise(client, claim, &entry.uuid, &children).await? {
                self.remove(client, entry).await?;
                return Err(conflict(claim, in_use));
            }
            let settled = self.settle(client, entry, claim, &node, &children, floor).await?;
            let standing = match settled {
                Some(standing) => standing,
                None => self.standing(client, entry, claim).await?,
            };
            match (standing, claim.wait) {
                (Standing::Queued { .. }, Wait::No) => {
                    self.remove(client, entry).await?;
                    return Ok(Standing::Refused);
                }
                (Standing::Queued { .. }, Wait::Watch) => self.remove(client, entry).await?,
                (standing, _) => return Ok(standing),
            }
        }
        Err(self.because(claim, &Said::Throttled))
    }

    /// Whether the lock is busy, for one that wants no place in line.
    async fn look(&self, client: &Client, claim: &Claim) -> Result<Option<Standing>> {
        let form = self.base.form(claim.capacity);
        if form == Form::Permits {
            return self.look_for_permits(client, claim).await;
        }
        let because = |said: Said| self.because(claim, &said);
        let line = self.line_of(claim);
        let (sync, children) = (client.sync(self.base.root()), client.list_children(&line));
        sync.await.map_err(because)?;
        let children = or_none(children.await).map_err(because)?;
        if let Some(in_use) = self.in_use_otherwise(client, claim, "", &children).await? {
            return Err(conflict(claim, in_use));
        }
        let kids = names::kids(&children, |mark| form.has(mark));
        let in_the_way = |kid: &&Kid| claim.is_exclusive() || kid.mark == names::Mark::Write;
        match kids.iter().rfind(in_the_way) {
            Some(kid) => self.busy(client, claim, &format!("{line}/{}", kid.node)).await.map(Some),
            None => Ok(None),
        }
    }

    /// Refuses, or has it told when this node goes.
    pub(crate) async fn busy(&self, client: &Client, claim: &Claim, node: &str) -> Result<Standing> {
        if claim.wait == Wait::No {
            return Ok(Standing::Refused);
        }
        let watched = client.check_and_watch_stat(node).await;
        let (there, watcher) = watched.map_err(|said| self.because(claim, &said))?;
        let wake = self.base.office.wake(async move {
            if there.is_some() {
                watcher.changed().await;
            }
        });
        Ok(Standing::Queued { ahead: None, wake, sleep: TRUST })
    }

    /// The capacity that the name is in use with, if it is another: `children` are those of the folder in which the claim enters.
    async fn in_use_otherwise(
        &self,
        client: &Client,
        claim: &Claim,
        uuid: &str,
        children: &[String],
    ) -> Result<Option<u32>> {
        let because = |said: Said| self.because(claim, &said);
        let form = self.base.form(claim.capacity);
        let folder = self.base.folder(&claim.name);
        if form == Form::Permits {
            let around = or_none(client.list_children(&folder).await).map_err(because)?;
            let other =
                around.iter().filter_map(|node| Kid::parse(node)).find_map(|kid| capacity_of(kid.mark));
            return match other {
                Some(capacity) => Ok(Some(capacity)),
                None => self.other_permits(client, claim, uuid, children).await,
            };
        }
        let kids = children.iter().filter_map(|node| Kid::parse(node));
        let other = kids.filter(|kid| !form.has(kid.mark)).find_map(|kid| capacity_of(kid.mark));
        if other.is_some() || !children.iter().any(|node| matches!(node.as_str(), LOCKS | LEASES)) {
            return Ok(other);
        }
        let locks = or_none(client.list_children(&format!("{folder}/{LOCKS}")).await).map_err(because)?;
        self.other_permits(client, claim, uuid, &locks).await
    }

    /// What follows from a list of the line. None if it changed meanwhile, and has to be looked at again.
    async fn settle(
        self: &Arc<Self>,
        client: &Client,
        entry: &Arc<Entry>,
        claim: &Arc<Claim>,
        node: &Node,
        children: &[String],
        floor: Floor,
    ) -> Result<Option<Standing>> {
        let because = |said: Said| self.because(claim, &said);
        let form = self.base.form(claim.capacity);
        let Some(kids) = names::kids_until(children, node.leaf(), |mark| form.has(mark)) else {
            return Ok(None);
        };
        let (ahead, last) = match judge(&kids, kids.len().saturating_sub(1)) {
            Verdict::First if form == Form::Permits => return self.draw(client, entry, claim, node).await,
            Verdict::First => {
                return self.grant(client, entry, claim, vec![node.clone()], floor).await.map(Some);
            }
            Verdict::Behind { ahead, last } => (ahead, last),
        };
        let Some(before) = kids.get(last) else { return Ok(None) };
        let before = format!("{}/{}", self.line_of(claim), before.node);
        let (there, left) = client.check_and_watch_stat(&before).await.map_err(because)?;
        if there.is_none() {
            return Ok(None);
        }
        let standing = self.queued(entry, ahead, left);
        entry.set_behind(Some((before, ahead)));
        Ok(Some(standing))
    }

    /// A claim that waits until somebody leaves, or until its own node goes.
    pub(crate) fn queued(&self, entry: &Arc<Entry>, ahead: usize, left: OneshotWatcher) -> Standing {
        let (gone, entry) = (entry.gone(), Arc::downgrade(entry));
        if let Some(entry) = entry.upgrade() {
            entry.set_behind(None);
        }
        let wake = self.base.office.wake(async move {
            tokio::select! {
                _ = left.changed() => {}
                () = gone => {}
            }
            if let Some(entry) = entry.upgrade() {
                entry.set_behind(None);
            }
        });
        let sleep = if ahead > MANY { LONG_TRUST } else { TRUST };
        Standing::Queued { ahead: u32::try_from(ahead).ok(), wake, sleep }
    }

    /// The answer to one that asks although nothing was told: whether it and the one ahead of it are there still. None if that is not
    /// so, or not known.
    async fn still_behind(
        &self,
        client: &Client,
        entry: &Arc<Entry>,
        claim: &Claim,
        node: &Node,
    ) -> Result<Option<Standing>> {
        let because = |said: Said| self.because(claim, &said);
        let Some((before, ahead)) = entry.behind() else { return Ok(None) };
        let sent = self.base.clock.now();
        let proof = self.base.prove(client);
        let (own, other) = (client.check_stat(&node.path), client.check_and_watch_stat(&before));
        proof.await.map_err(because)?;
        self.prove(sent);
        let own = own.await.map_err(because)?;
        let (there, left) = other.await.map_err(because)?;
        if own.is_none_or(|own| own.ephemeral_owner != self.owner) || there.is_none() {
            entry.set_behind(None);
            return Ok(None);
        }
        let standing = self.queued(entry, ahead, left);
        entry.set_behind(Some((before, ahead)));
        Ok(Some(standing))
    }

    /// It is held.
    pub(crate) async fn grant(
        self: &Arc<Self>,
        client: &Client,
        entry: &Arc<Entry>,
        claim: &Arc<Claim>,
        nodes: Vec<Node>,
        floor: Floor,
    ) -> Result<Standing> {
        let fence = match nodes.first().filter(|_| claim.is_exclusive()) {
            Some(node) => {
                let minted = self.mint(client, &entry.claim(), node, None, floor).await;
                match minted.map_err(|said| self.because(claim, &said))? {
                    Some(fence) => Some(fence),
                    None => {
                        self.forget(entry);
                        return Ok(Standing::Gone);
                    }
                }
            }
            None => None,
        };
        entry.sit(Seat::Held { nodes, fence });
        Ok(Standing::Held { fence, left: None })
    }

    /// Where a claim stands that was entered before.
    pub(crate) async fn ask(self: &Arc<Self>, claim: &Arc<Claim>) -> Result<Standing> {
        let client = self.client()?;
        let Some(entry) = self.known(claim.id).filter(|entry| !entry.is_void()) else {
            return Ok(Standing::Gone);
        };
        let _turn = entry.turn.lock().await;
        if matches!(entry.seat(), Seat::Doubt) {
            self.find(&client, &entry, Aim::Keep).await?;
        }
        self.standing(&client, &entry, claim).await
    }

    async fn standing(
        self: &Arc<Self>,
        client: &Client,
        entry: &Arc<Entry>,
        claim: &Arc<Claim>,
    ) -> Result<Standing> {
        let because = |said: Said| self.because(claim, &said);
        for _ in 0..TRIES {
            let node = match entry.seat() {
                Seat::New | Seat::Gone | Seat::Doubt => {
                    self.forget(entry);
                    return Ok(Standing::Gone);
                }
                Seat::Held { nodes, fence } => return self.confirm(client, entry, claim, nodes, fence).await,
                Seat::Waiting(node) => node,
            };
            if let Some(standing) = self.still_behind(client, entry, claim, &node).await? {
                return Ok(standing);
            }
            let line = self.line_of(claim);
            let sent = self.base.clock.now();
            let proof = self.base.prove(client);
            let (children, floor) = (client.list_children(&line), self.floor(client));
            proof.await.map_err(because)?;
            self.prove(sent);
            let children = or_none(children.await).map_err(because)?;
            if !children.iter().any(|child| child == node.leaf()) {
                self.forget(entry);
                return Ok(Standing::Gone);
            }
            let floor = floor.await.map_err(because)?;
            if let Some(standing) = self.settle(client, entry, claim, &node, &children, floor).await? {
                return Ok(standing);
            }
        }
        Err(because(Said::Throttled))
    }

    /// A hold is asked about: it is there, and what it says of itself is brought up to date.
    async fn confirm(
        &self,
        client: &Client,
        entry: &Entry,
        claim: &Claim,
        nodes: Vec<Node>,
        fence: Option<Fence>,
    ) -> Result<Standing> {
        let because = |said: Said| self.because(claim, &said);
        let sent = self.base.clock.now();
        let proof = self.base.prove(client);
        let there: Vec<_> = nodes.iter().map(|node| client.check_stat(&node.path)).collect();
        let floor = self.floor(client);
        proof.await.map_err(because)?;
        self.prove(sent);
        for stat in there {
            if stat.await.map_err(because)?.is_none_or(|stat| stat.ephemeral_owner != self.owner) {
                self.remove(client, entry).await?;
                self.forget(entry);
                return Ok(Standing::Gone);
            }
        }
        let floor = floor.await.map_err(because)?;
        let Some(node) = nodes.first() else { return Ok(Standing::Gone) };
        let known = entry.claim();
        if known.note != claim.note {
            let renamed = Claim { note: claim.note.clone(), ..(*known).clone() };
            let raised = fence.filter(|fence| *fence != crate::fence::of(node));
            let line = record::encode(&renamed, raised, Some(&self.opening.about));
            client.set_data(&node.path, &line, None).await.map_err(because)?;
            entry.rename(Arc::new(renamed));
        }
        let Some(last) = fence else { return Ok(Standing::Held { fence: None, left: None }) };
        let wanted = Claim { floor: claim.floor, ..(*entry.claim()).clone() };
        match self.mint(client, &wanted, node, Some(last), floor).await.map_err(because)? {
            Some(fence) => {
                entry.sit(Seat::Held { nodes, fence: Some(fence) });
                Ok(Standing::Held { fence: Some(fence), left: None })
            }
            None => {
                self.forget(entry);
                Ok(Standing::Gone)
            }
        }
    }
}

/// The capacity that a node with this mark goes with.
fn capacity_of(mark: names::Mark) -> Option<u32> {
    match mark {
        names::Mark::Lock | names::Mark::Latch => Some(1),
        names::Mark::Read | names::Mark::Write => Some(bramah_core::line::WHOLE),
        names::Mark::Lease => None,
    }
}

/// The error for a name that is in use as something else.
pub(crate) fn conflict(claim: &Claim, in_use: u32) -> Error {
    if in_use == UNTOLD {
        let text = format!("{} is in use as a semaphore by another program; use another name", claim.name);
        return Error::new(ErrorKind::Conflict, text);
    }
    if in_use != claim.capacity {
        return claim.conflict(in_use);
    }
    let text = format!(
        "{} is in use with another mutex= in the url, lock here and latch there; use the same everywhere, or another name",
        claim.name
    );
    Error::new(ErrorKind::Conflict, text)
}
