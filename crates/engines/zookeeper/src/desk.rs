//! A session with ZooKeeper for what needs none of ours: surveys, and holds that are ended by force.

use std::{sync::Arc, time::Duration};

use bramah_core::{Break, Claim, Error, ErrorKind, Result};
use tokio::sync::Mutex;
use zookeeper_client::{Client, CreateMode, Error as Said};

use crate::{
    base::{Base, or_none},
    names::{self, Kid, LEASES, LOCKS, Mark},
    record::{self, REVOKE},
};

/// How long ZooKeeper keeps the session. Nothing hangs from it.
const SESSION: Duration = Duration::from_secs(10);

/// How often somebody else may write to a node that is about to be deleted.
const TRIES: usize = 16;

#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) base: Arc<Base>,
    client: Mutex<Option<Client>>,
}

/// Whose node it is.
#[derive(Clone, Copy, Debug)]
enum Whose {
    /// One of Bramah's.
    Ours,
    /// Another program's, of this kind.
    Theirs(Mark),
}

impl Desk {
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base, client: Mutex::default() }
    }

    /// The session, a new one if the last has ended.
    pub(crate) async fn client(&self) -> Result<Client> {
        let mut client = self.client.lock().await;
        if let Some(client) = client.as_ref().filter(|client| !client.state().is_terminated()) {
            return Ok(client.clone());
        }
        let dialled = self.base.dial(SESSION).await?;
        *client = Some(dialled.clone());
        Ok(dialled)
    }

    /// Ends somebody's claim, and writes down who did and why.
    pub(crate) async fn evict(&self, claim: &Claim, cause: &Break) -> Result<()> {
        let because = |said: Said| self.base.explain(claim.name.as_str(), &said);
        let client = self.client().await?;
        client.sync(self.base.root()).await.map_err(because)?;
        let mut is_done = false;
        for (path, _) in self.nodes_of(&client, claim).await.map_err(because)? {
            is_done |= self.delete(&client, claim, &path).await?;
        }
        if is_done {
            self.write_down(&client, claim, cause).await.map_err(because)?;
        }
        Ok(())
    }

    /// Asks whoever has a claim to let go, as Curator does: its holder watches its node.
    pub(crate) async fn ask(&self, claim: &Claim) -> Result<()> {
        let because = |said: Said| self.base.explain(claim.name.as_str(), &said);
        let client = self.client().await?;
        client.sync(self.base.root()).await.map_err(because)?;
        for (path, whose) in self.nodes_of(&client, claim).await.map_err(because)? {
            if let Whose::Theirs(Mark::Lease | Mark::Latch) = whose {
                return Err(deaf(claim));
            }
            or_none(client.set_data(&path, REVOKE, None).await.map(Some)).map_err(because)?;
        }
        Ok(())
    }

    /// The nodes of a claim, of ours or of another program.
    async fn nodes_of(&self, client: &Client, claim: &Claim) -> Result<Vec<(String, Whose)>, Said> {
        let folder = self.base.folder(&claim.name);
        let folders = [folder.clone(), format!("{folder}/{LOCKS}"), format!("{folder}/{LEASES}")];
        let listed: Vec<_> = folders.iter().map(|folder| client.list_children(folder)).collect();
        let (ours, theirs) = (names::uuid(claim.id), names::hyphened(claim.id.session.bits()));
        let is_theirs = |kid: &Kid| kid.is_of(&theirs) && kid.number().parse() == Ok(claim.id.seq);
        let mut nodes = Vec::new();
        for (folder, children) in folders.iter().zip(listed) {
            let children = or_none(children.await)?;
            let kids = names::kids(&children, |_| true);
            nodes.extend(kids.into_iter().filter_map(|kid| {
                let whose = match &kid {
                    kid if kid.is_of(&ours) => Whose::Ours,
                    kid if is_theirs(kid) => Whose::Theirs(kid.mark),
                    _ => return None,
                };
                Some((format!("{folder}/{}", kid.node), whose))
            }));
        }
        Ok(nodes)
    }

    /// Deletes a node as it was last seen. Whether it was there.
    async fn delete(&self, client: &Client, claim: &Claim, path: &str) -> Result<bool> {
        let because = |said: Said| self.base.explain(claim.name.as_str(), &said);
        for _ in 0..TRIES {
            let Some(stat) = client.check_stat(path).await.map_err(because)? else { return Ok(false) };
            match client.delete(path, Some(stat.version)).await {
                Ok(()) => return Ok(true),
                Err(Said::NoNode) => return Ok(false),
                Err(Said::BadVersion) => {}
                Err(said) => return Err(because(said)),
            }
        }
        let text = format!("{}: its holder writes to it all the time; try again", claim.name);
        Err(Error::new(ErrorKind::Unavailable, text))
    }

    async fn write_down(&self, client: &Client, claim: &Claim, cause: &Break) -> Result<(), Said> {
        let (at, line) = (self.base.broken(&claim.name), record::encode_break(claim.id, cause));
        for _ in 0..TRIES {
            match client.set_data(&at, &line, None).await {
                Ok(_) => return Ok(()),
                Err(Said::NoNode) => {}
                Err(said) => return Err(said),
            }
            match client.create(&at, &line, &self.base.with(CreateMode::Persistent)).await {
                Ok(_) => return Ok(()),
                Err(Said::NodeExists) => {}
                Err(Said::NoNode) => self.base.make_parents(client, &at).await?,
                Err(said) => return Err(said),
            }
        }
        Ok(())
    }
}

fn deaf(claim: &Claim) -> Error {
    let text = format!(
        "{}: its holder is a semaphore or a LeaderLatch of another program, which hears no wishes; wait for it, or break the hold",
        claim.name
    );
    Error::new(ErrorKind::Unsupported, text)
}
