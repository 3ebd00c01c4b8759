//! The next change of one lock, as ZooKeeper tells of it.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use bramah_core::{Name, Result};
use zookeeper_client::{Client, Error as Said, OneshotWatcher};

use crate::{
    desk::Desk,
    names::{self, Kid, LEASES, LOCKS},
};

/// How many claims of a folder have what they say of themselves watched, from the first on: a holder's may change.
const WATCHED: usize = 8;

/// Ends when something about a lock may have changed: who is in its line, or what its first claims say of themselves.
pub(crate) struct Change(Vec<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Change {
    /// Watches the nodes of a lock. What changes from here on is told.
    pub(crate) async fn of(desk: &Desk, name: &Name) -> Result<Self> {
        let client = desk.client().await?;
        let mut change = Self(Vec::new());
        let watched = change.watch(&client, &desk.base.folder(name)).await;
        watched.map_err(|said| desk.base.explain(name.as_str(), &said))?;
        Ok(change)
    }

    async fn watch(&mut self, client: &Client, folder: &str) -> Result<(), Said> {
        let children = self.watch_folder(client, folder).await?;
        for inner in [LOCKS, LEASES] {
            if children.iter().any(|node| node == inner) {
                self.watch_folder(client, &format!("{folder}/{inner}")).await?;
            }
        }
        Ok(())
    }

    /// Watches who is in a folder, or that it comes into being.
    async fn watch_folder(&mut self, client: &Client, folder: &str) -> Result<Vec<String>, Said> {
        let children = match client.list_and_watch_children(folder).await {
            Ok((children, watcher)) => {
                self.add(watcher);
                children
            }
            Err(Said::NoNode) => {
                let (there, watcher) = client.check_and_watch_stat(folder).await?;
                // It has come since. This watch would not tell who enters there, so it is looked again instead.
                if there.is_some() {
                    return Err(Said::NodeExists);
                }
                self.add(watcher);
                return Ok(Vec::new());
            }
            Err(said) => return Err(said),
        };
        let kids: Vec<Kid> = names::kids(&children, |_| true);
        let paths: Vec<String> =
            kids.iter().take(WATCHED).map(|kid| format!("{folder}/{}", kid.node)).collect();
        let asked: Vec<_> = paths.iter().map(|path| client.get_and_watch_data(path)).collect();
        for answer in asked {
            match answer.await {
                Ok((_, _, watcher)) => self.add(watcher),
                // It has left since, which the folder's watch tells.
                Err(Said::NoNode | Said::NoAuth) => {}
                Err(said) => return Err(said),
            }
        }
        Ok(children)
    }

    fn add(&mut self, watcher: OneshotWatcher) {
        self.0.push(Box::pin(async move { drop(watcher.changed().await) }));
    }
}

impl Future for Change {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let has_come =
            |watch: &mut Pin<Box<dyn Future<Output = ()> + Send>>| watch.as_mut().poll(cx).is_ready();
        if self.0.iter_mut().any(has_come) { Poll::Ready(()) } else { Poll::Pending }
    }
}
