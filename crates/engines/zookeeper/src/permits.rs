//! Semaphores, as Curator's `InterProcessSemaphoreV2` has them.
//!
//! Who wants permits stands in the line of a mutex, `locks`. The first in it may create nodes in `leases`, one for each permit, as soon
//! as there is room; whoever is behind waits, so that one who wants many is not starved. Creating them and leaving the line is one
//! transaction here. Only the first watches `leases`.

use std::sync::Arc;

use bramah_core::{Claim, Error, ErrorKind, Result, Standing};
use zookeeper_client::{Client, CreateMode, Error as Said, MultiWriteError, MultiWriteResult};

use crate::{
    base::or_none,
    claims::{UNTOLD, conflict},
    entry::{Entry, Node, Seat},
    error::is_answer,
    fence::Floor,
    line::Form,
    names::{self, Kid, Mark},
    record,
    room::Room,
    sentinel,
};

/// The most permits of one claim: each is a node, and all of them are created in one request.
const MOST: u32 = 1000;

/// How many nodes are read to find out the capacity of a semaphore in use.
const SAMPLE: usize = 4;

/// How often a folder may go while we look.
const TRIES: usize = 32;

fn is_lease(mark: Mark) -> bool {
    mark == Mark::Lease
}

impl Room {
    pub(crate) fn check_weight(&self, claim: &Claim) -> Result<()> {
        if claim.weight <= MOST {
            return Ok(());
        }
        let text = format!(
            "{}: {} permits at once are too many for ZooKeeper, where each is a node; {MOST} is the most",
            claim.name, claim.weight
        );
        Err(Error::new(ErrorKind::Invalid, text))
    }

    /// Whether there is no room, for one that wants no place in line.
    pub(crate) async fn look_for_permits(&self, client: &Client, claim: &Claim) -> Result<Option<Standing>> {
        let because = |said: Said| self.because(claim, &said);
        let (line, leases) = (self.line_of(claim), self.leases_of(claim));
        let (sync, waiting, held) =
            (client.sync(self.base.root()), client.list_children(&line), client.list_children(&leases));
        sync.await.map_err(because)?;
        let waiting = or_none(waiting.await).map_err(because)?;
        let held = or_none(held.await).map_err(because)?;
        if let Some(in_use) = self.other_permits(client, claim, "", &waiting).await? {
            return Err(conflict(claim, in_use));
        }
        let (waiting, held) =
            (names::kids(&waiting, |mark| Form::Permits.has(mark)), names::kids(&held, is_lease));
        let in_the_way = match (waiting.last(), held.last()) {
            (Some(kid), _) => format!("{line}/{}", kid.node),
            (None, Some(kid)) if !has_room(claim, held.len()) => format!("{leases}/{}", kid.node),
            _ => return Ok(None),
        };
        self.busy(client, claim, &in_the_way).await.map(Some)
    }

    /// The capacity of a semaphore that is in use, if it is not the claim's. Curator writes down none.
    pub(crate) async fn other_permits(
        &self,
        client: &Client,
        claim: &Claim,
        uuid: &str,
        waiting: &[String],
    ) -> Result<Option<u32>> {
        let because = |said: Said| self.because(claim, &said);
        let (folder, leases) = (self.base.folder(&claim.name), self.leases_of(claim));
        let held = or_none(client.list_children(&leases).await).map_err(because)?;
        let line = |children: &[String], folder: &str| {
            let others = names::kids(children, |_| true).into_iter().filter(|kid| !kid.is_of(uuid));
            others.map(|kid| format!("{folder}/{}", kid.node)).take(SAMPLE).collect::<Vec<_>>()
        };
        let mut nodes = line(&held, &leases);
        nodes.extend(line(waiting, &format!("{folder}/{}", names::LOCKS)));
        let read: Vec<_> = nodes.iter().map(|node| client.get_data(node)).collect();
        for data in read {
            let told = match data.await {
                Ok((data, _)) => record::decode(&claim.name, &data),
                Err(Said::NoNode) => None,
                Err(said) => return Err(because(said)),
            };
            if let Some(told) = told.filter(|told| told.claim.capacity != claim.capacity) {
                return Ok(Some(told.claim.capacity));
            }
        }
        // It is a semaphore of somebody's, and what is wanted is not.
        let is_one = self.base.form(claim.capacity) == Form::Permits;
        Ok((!is_one && !nodes.is_empty()).then_some(UNTOLD))
    }

    /// The first in line takes its permits, if there are enough. None if the line has to be looked at again.
    pub(crate) async fn draw(
        self: &Arc<Self>,
        client: &Client,
        entry: &Arc<Entry>,
        claim: &Arc<Claim>,
        node: &Node,
    ) -> Result<Option<Standing>> {
        let because = |said: Said| self.because(claim, &said);
        let leases = self.leases_of(claim);
        for _ in 0..TRIES {
            let listed = client.list_and_watch_children(&leases).await;
            let (children, changed) = match listed {
                Ok(listed) => listed,
                Err(Said::NoNode) => {
                    self.base.make_folder(client, &leases).await.map_err(because)?;
                    continue;
                }
                Err(said) => return Err(because(said)),
            };
            let held = names::kids(&children, is_lease);
            if !has_room(claim, held.len()) {
                return Ok(Some(self.queued(entry, holders(&held), changed)));
            }
            drop(changed);
            match self.take(client, entry, claim, node, &leases).await {
                Ok(nodes) => {
                    let floor = client.get_data(&self.base.floor()).await;
                    let floor = Floor::read(floor).map_err(because)?;
                    let paths: Vec<String> = nodes.iter().map(|node| node.path.clone()).collect();
                    let standing = self.grant(client, entry, claim, nodes, floor).await?;
                    let watch = |path| self.base.office.spawn(sentinel::watch(self, entry, path));
                    paths.into_iter().for_each(watch);
                    return Ok(Some(standing));
                }
                Err(MultiWriteError::OperationFailed { index: 0, source: Said::NoNode }) => {
                    self.forget(entry);
                    return Ok(Some(Standing::Gone));
                }
                // The folder has gone: it was empty.
                Err(MultiWriteError::OperationFailed { source: Said::NoNode, .. }) => {
                    entry.sit(Seat::Waiting(node.clone()));
                }
                Err(
                    MultiWriteError::OperationFailed { source, .. }
                    | MultiWriteError::RequestFailed { source },
                ) => {
                    if is_answer(&source) {
                        entry.sit(Seat::Waiting(node.clone()));
                    }
                    return Err(because(source));
                }
            }
        }
        Ok(None)
    }

    /// Leaves the line with permits, in one transaction.
    async fn take(
        &self,
        client: &Client,
        entry: &Entry,
        claim: &Claim,
        node: &Node,
        leases: &str,
    ) -> Result<Vec<Node>, MultiWriteError> {
        let prefix = format!("{leases}/_c_{}-{}", entry.uuid, Mark::Lease.word());
        let options = self.base.with(CreateMode::EphemeralSequential);
        // Who and why is told once.
        let brief = record::encode(&Claim { note: "".into(), ..claim.clone() }, None, None);
        let mut writer = client.new_multi_writer();
        writer.add_delete(&node.path, None)?;
        for permit in 0..claim.weight {
            let data = if permit == 0 { self.line(claim) } else { brief.clone() };
            writer.add_create(&prefix, &data, &options)?;
        }
        entry.sit(Seat::Doubt);
        let created = writer.commit().await?;
        let paths = created.into_iter().filter_map(|done| match done {
            MultiWriteResult::Create { path, .. } => Some(path),
            _ => None,
        });
        let mut nodes: Vec<Node> = paths.map(|path| Node { path, czxid: 0 }).collect();
        // The transaction's answer does not tell its number.
        if let Some(first) = nodes.first_mut() {
            let stat = client.check_stat(&first.path).await?.ok_or(Said::NoNode)?;
            first.czxid = stat.czxid;
        }
        Ok(nodes)
    }
}

fn has_room(claim: &Claim, held: usize) -> bool {
    let wanted = u64::from(claim.weight) + u64::try_from(held).unwrap_or(u64::MAX / 2);
    wanted <= u64::from(claim.capacity)
}

/// How many claims these permits belong to.
fn holders(held: &[Kid]) -> usize {
    let mut ids: Vec<Option<u128>> = held.iter().map(Kid::uuid).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.len()
}
