//! Who sees at once that a hold has ended.

use std::{future::Future, sync::Arc, time::Duration};

use zookeeper_client::Error as Said;

use crate::{entry::Entry, record::REVOKE, room::Room};

/// How soon it is looked again after a connection has ended.
const AGAIN: Duration = Duration::from_millis(200);

/// Has core look at a claim as soon as one of its nodes has gone, held or waiting, for as long as it has that node.
pub(crate) fn watch(room: &Arc<Room>, entry: &Arc<Entry>, path: String) -> impl Future<Output = ()> + use<> {
    // A client that is kept here would keep the session.
    let (room, entry) = (Arc::downgrade(room), Arc::downgrade(entry));
    async move {
        loop {
            let Some(client) = room.upgrade().and_then(|room| room.client().ok()) else { return };
            let watched = client.get_and_watch_data(&path).await;
            drop(client);
            let Some(entry) = entry.upgrade().filter(|entry| entry.has(&path)) else { return };
            match watched {
                Ok((data, _, watcher)) => {
                    if data == REVOKE {
                        let (name, tag) = (&entry.claim().name, entry.claim().id.tag());
                        tracing::warn!(%name, claim = %tag, "another program asks for this lock to be released");
                    }
                    drop(entry);
                    watcher.changed().await;
                }
                Err(Said::NoNode) => {
                    entry.tell_gone();
                    if let Some(room) = room.upgrade() {
                        room.opening.alarm.ring(entry.claim().id);
                    }
                    return;
                }
                // The session's end is told by who attends to it.
                Err(Said::SessionExpired | Said::ClientClosed | Said::AuthFailed) => return,
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }
}
