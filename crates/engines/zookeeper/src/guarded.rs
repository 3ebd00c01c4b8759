//! Writes to ZooKeeper itself, by who holds a lock there.

use bramah_core::{Error, ErrorKind, Guard, Result};
use zookeeper_client::{Client, Error as Said, MultiWriteError, MultiWriteResult};

use crate::{
    ZooKeeper,
    entry::{Node, Seat},
    error,
};

impl ZooKeeper {
    /// Writes to a node of yours if the lock is held still, in one transaction with that check: a holder that has lost its lock changes
    /// nothing, however late its write comes. The path is from the root of ZooKeeper, not from the chroot. With `version`, only
    /// if the node has that. The answer is its new version.
    ///
    /// # Errors
    /// `Lost` if the lock is not held any more, `Conflict` for another version, `Invalid` for a path that is not there. An
    /// `Unavailable` leaves open whether it was written.
    pub async fn write(&self, guard: &Guard, path: &str, data: &[u8], version: Option<i32>) -> Result<i32> {
        let (name, tag) = (guard.name(), guard.tag());
        let lost =
            || Error::new(ErrorKind::Lost, format!("{name} is not held any more; nothing was written"));
        let held = self.0.all_rooms().into_iter().find_map(|room| {
            let entry = room.entries().values().find(|entry| entry.claim().id.tag() == tag).cloned()?;
            match entry.seat() {
                Seat::Held { nodes, .. } => Some((room, nodes)),
                _ => None,
            }
        });
        let (room, nodes) = held.filter(|_| guard.is_held()).ok_or_else(lost)?;
        let (client, patience) = (room.client()?, room.patience());
        let (path, data) = (path.to_owned(), data.to_owned());
        let (server, at) = (self.0.base.server.clone(), path.clone());
        let silence = move || Err(error::silent(&server, &at, patience));
        let (base, at) = (self.0.base.clone(), path.clone());
        let work = async move {
            match commit(&client, &nodes, &path, &data, version).await {
                Ok(version) => Ok(Ok(version)),
                // One check for each node, and the write after them.
                Err(MultiWriteError::OperationFailed { index, source: Said::NoNode })
                    if index < nodes.len() =>
                {
                    Ok(Err(None))
                }
                Err(
                    MultiWriteError::OperationFailed { source, .. }
                    | MultiWriteError::RequestFailed { source },
                ) => Ok(Err(Some(source))),
            }
        };
        let refuse = |kind, why: &str| Err(Error::new(kind, format!("{at}: {why}")));
        match self.0.base.office.run_within(patience, silence, work).await? {
            Ok(version) => Ok(version),
            Err(None) => Err(lost()),
            Err(Some(Said::BadVersion)) => {
                refuse(ErrorKind::Conflict, "it has another version; read it again")
            }
            Err(Some(Said::NoNode)) => refuse(ErrorKind::Invalid, "there is no such node; create it before"),
            Err(Some(said)) => Err(base.explain(&at, &said)),
        }
    }
}

async fn commit(
    client: &Client,
    nodes: &[Node],
    path: &str,
    data: &[u8],
    version: Option<i32>,
) -> Result<i32, MultiWriteError> {
    let mut writer = client.new_multi_writer();
    for node in nodes {
        writer.add_check_version(&node.path, -1)?;
    }
    writer.add_set_data(path, data, version)?;
    let done = writer.commit().await?;
    let written = done.into_iter().find_map(|one| match one {
        MultiWriteResult::SetData { stat } => Some(stat.version),
        _ => None,
    });
    Ok(written.unwrap_or_default())
}
