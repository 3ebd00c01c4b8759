//! Who sees at once that a hold has ended.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, Weak},
    task::Poll,
    time::Duration,
};

use zookeeper_client::Error as Said;

use crate::{
    entry::{Entry, Seat},
    fence,
    record::{self, REVOKE},
    room::Room,
};

/// How old a claim is before its node is watched. Most locks are held for less long, and what has gone until then is seen then.
pub(crate) const YOUNG: Duration = Duration::from_millis(30);

/// The node of a claim that is to be watched if the claim lasts.
pub(crate) struct Unwatched {
    pub(crate) room: Weak<Room>,
    pub(crate) entry: Weak<Entry>,
    pub(crate) path: String,
}

impl Unwatched {
    /// Has it told when the node goes that nobody here has removed.
    pub(crate) fn watch(self) {
        let (Some(room), Some(entry)) = (self.room.upgrade(), self.entry.upgrade()) else { return };
        if !entry.has(&self.path) {
            return;
        }
        let (watch, entry, path) = (watch(&room, &entry, self.path.clone()), self.entry, self.path);
        room.base.office.spawn(async move {
            let mut watch = pin!(watch);
            // That it has gone because it was left is no reason for a question.
            let is_kept = || entry.upgrade().is_some_and(|entry| entry.has(&path));
            poll_fn(|cx| if is_kept() { watch.as_mut().poll(cx) } else { Poll::Ready(()) }).await;
        });
    }
}

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
                Ok((data, stat, watcher)) => {
                    if data == REVOKE {
                        if let Some(room) = room.upgrade() {
                            room.opening.alarm.ask(entry.claim().id);
                        }
                        restore(&room, &entry, &path, stat.version).await;
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

/// Writes down again who has the lock: the wish was written over it.
async fn restore(room: &Weak<Room>, entry: &Entry, path: &str, version: i32) {
    let Some((room, client)) = room.upgrade().and_then(|room| Some((room.clone(), room.client().ok()?)))
    else {
        return;
    };
    let raised = match entry.seat() {
        Seat::Held { nodes, fence } => {
            fence.filter(|fence| nodes.first().is_some_and(|node| fence::of(node) != *fence))
        }
        _ => None,
    };
    let line = record::encode(&entry.claim(), raised, Some(&room.opening.about));
    // Somebody may have been faster: then that is looked at next.
    let _ = client.set_data(path, &line, Some(version)).await;
}
