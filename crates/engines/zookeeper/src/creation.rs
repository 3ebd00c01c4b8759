//! How a claim's node is created.

use std::sync::Arc;

use bramah_core::{Claim, Error, ErrorKind, Result};
use zookeeper_client::{Client, CreateMode, Error as Said, OneshotWatcher, Stat};

use crate::{
    claims::TRIES,
    entry::{Entry, Node, Seat},
    error::is_answer,
    fence::Floor,
    line::Form,
    names::{Kid, LEASES, LOCKS},
    room::Room,
    sentinel::Unwatched,
    solitude::{Foresight, Watch},
};

/// From here on a folder's numbers come near the end of what ZooKeeper can count, where their order breaks.
const LAST_NUMBER: i64 = 2_147_000_000;

impl Room {
    /// Creates a claim's node, and lists its line with it where it is not known that nobody else is in it.
    pub(crate) async fn create(
        self: &Arc<Self>,
        client: &Client,
        entry: &Arc<Entry>,
        claim: &Claim,
    ) -> Result<(Node, Vec<String>, Floor)> {
        let because = |said: Said| self.because(claim, &said);
        let (line, mark) = (self.line_of(claim), self.base.form(claim.capacity).mark(claim));
        let prefix = format!("{line}/_c_{}-{}", entry.uuid, mark.word());
        let (data, options) = (self.line(claim), self.base.with(CreateMode::EphemeralSequential));
        for _ in 0..TRIES {
            let foresight = self.foresee(claim, &line);
            let watched = (foresight == Foresight::Watch).then(|| client.check_and_watch_stat(&line));
            // From here on ZooKeeper may have it, whatever we hear.
            entry.sit(Seat::Doubt);
            let sent = self.base.clock.now();
            let created = client.create(&prefix, &data, &options);
            let listed = match foresight {
                Foresight::Number(..) => None,
                Foresight::List(_) | Foresight::Watch => Some(client.list_children(&line)),
            };
            let floor = self.floor(client);
            match created.await {
                Ok((stat, number)) => {
                    self.prove(sent);
                    let node = Node { path: format!("{prefix}{number}"), czxid: stat.czxid };
                    entry.sit(Seat::Waiting(node.clone()));
                    if !(0..LAST_NUMBER).contains(&number.into_i64()) {
                        self.remove(client, entry).await?;
                        return Err(used_up(claim, &line));
                    }
                    let (room, entry) = (Arc::downgrade(self), Arc::downgrade(entry));
                    self.base.young.add(Unwatched { room, entry, path: node.path.clone() });
                    let under = match (foresight, watched) {
                        (Foresight::List(under), _) => under,
                        (Foresight::Number(_, under), _) => Some(under),
                        (Foresight::Watch, watched) => self.watched(&line, watched).await,
                    };
                    let is_alone = listed.is_none() && self.solitude.is_alone(&line, number.into_i64());
                    let children = match listed {
                        _ if is_alone => vec![node.leaf().to_owned()],
                        Some(listed) => listed.await.map_err(because)?,
                        None => client.list_children(&line).await.map_err(because)?,
                    };
                    if let Some(under) = under.filter(|_| !is_alone && is_only(&children, node.leaf())) {
                        self.solitude.seen_alone(&line, number.into_i64(), under);
                    }
                    return Ok((node, children, floor.await.map_err(because)?));
                }
                Err(Said::NoNode) => {
                    entry.sit(Seat::New);
                    self.base.make_folder(client, &line).await.map_err(because)?;
                }
                Err(said) => {
                    if is_answer(&said) {
                        entry.sit(Seat::New);
                    }
                    return Err(because(said));
                }
            }
        }
        Err(because(Said::NoNode))
    }

    fn foresee(&self, claim: &Claim, line: &str) -> Foresight {
        match self.base.form(claim.capacity) {
            // There is more to be looked at than its line.
            Form::Permits => Foresight::List(None),
            Form::Mutex | Form::Latch | Form::ReadWrite => self.solitude.foresee(line, self.base.clock.now()),
        }
    }

    /// The watch on a folder that is there. That there is none costs a list, and is no error.
    async fn watched(
        &self,
        line: &str,
        asked: Option<impl Future<Output = Result<(Option<Stat>, OneshotWatcher), Said>>>,
    ) -> Option<Watch> {
        let (there, watch) = asked?.await.ok()?;
        there.and_then(|_| self.solitude.watched(line, watch.into()))
    }
}

/// Whether a node is the only claim of any kind among the children of its folder, which is not that of a semaphore either.
fn is_only(children: &[String], node: &str) -> bool {
    let is_other = |child: &String| Kid::parse(child).is_some() || matches!(child.as_str(), LOCKS | LEASES);
    children.iter().filter(|child| *child != node).all(|child| !is_other(child))
}

fn used_up(claim: &Claim, folder: &str) -> Error {
    let text = format!(
        "{}: its folder {folder} has had two thousand million children, and ZooKeeper cannot number more in order; let it be empty for a \
         minute, or delete it",
        claim.name
    );
    Error::new(ErrorKind::Unavailable, text)
}
