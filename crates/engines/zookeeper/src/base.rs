//! What everything here stands on: the ensemble, where things are in it, and the thread where the work is done.

use std::time::Duration;

use bramah_core::{Clock, Error, Name, Result};
use bramah_remote::{Aging, Office};
use tokio::time::timeout;
use zookeeper_client::{Client, CreateMode, CreateOptions, Error as Said, MultiWriteError};

use crate::{
    Config, error,
    line::Form,
    names,
    sentinel::{Unwatched, YOUNG},
    tls,
};

/// The longest time-out that the protocol can say.
const LONGEST: Duration = Duration::from_millis(i32::MAX as u64);

#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) config: Config,
    /// For errors.
    pub(crate) server: String,
    pub(crate) office: Office,
    pub(crate) clock: Clock,
    /// Claims whose nodes are not watched yet.
    pub(crate) young: Aging<Unwatched>,
}

impl Base {
    pub(crate) fn new(config: Config) -> Result<Self> {
        let server = config.address();
        let office = Office::open("zookeeper")?;
        let young = Aging::new(office.clone(), YOUNG, Unwatched::watch);
        Ok(Self { config, server, office, clock: Clock::boot(), young })
    }

    /// A session with ZooKeeper.
    pub(crate) async fn dial(&self, session: Duration) -> Result<Client> {
        let patience = self.config.connect_timeout;
        let connector = Client::connector().with_session_timeout(session.min(LONGEST));
        let connector = match &self.config.user {
            Some(user) => connector.with_auth("digest", user.as_bytes()),
            None => connector,
        };
        let connected = async {
            match &self.config.tls {
                Some(tls) => tls::connect(connector, tls, &self.server).await,
                None => Ok(connector.connect(&self.server).await),
            }
        };
        match timeout(patience, connected).await.unwrap_or(Ok(Err(Said::Timeout)))? {
            Ok(client) => Ok(client),
            Err(Said::Timeout | Said::NoHosts) => Err(error::silent(&self.server, "a new session", patience)),
            Err(said) => Err(self.explain("a new session", &said)),
        }
    }

    /// Which recipe a lock of this capacity is.
    pub(crate) fn form(&self, capacity: u32) -> Form {
        Form::of(capacity, self.config.mutex)
    }

    /// Where everything is below.
    pub(crate) fn root(&self) -> &str {
        match self.config.chroot.as_str() {
            "" => "/",
            chroot => chroot,
        }
    }

    /// The folder of a lock.
    pub(crate) fn folder(&self, name: &Name) -> String {
        format!("{}{}", self.config.chroot, names::path(name))
    }

    /// The largest fence that was asked for.
    pub(crate) fn floor(&self) -> String {
        format!("{}/{}/floor", self.config.chroot, names::OWN)
    }

    /// How a lock was last ended by force.
    pub(crate) fn broken(&self, name: &Name) -> String {
        format!("{}/{}/broken/{}", self.config.chroot, names::OWN, names::flat(name))
    }

    pub(crate) fn with(&self, mode: CreateMode) -> CreateOptions<'static> {
        mode.with_acls(self.config.acls())
    }

    /// Creates a folder and those that it is in. ZooKeeper removes them when they have been empty for a while, and not the chroot:
    /// Curator does not create its own.
    pub(crate) async fn make_folder(&self, client: &Client, folder: &str) -> Result<(), Said> {
        if !self.config.chroot.is_empty() {
            client.mkdir(&self.config.chroot, &self.with(CreateMode::Persistent)).await?;
        }
        client.mkdir(folder, &self.with(CreateMode::Container)).await
    }

    /// Creates the folder that a node is in, to stay.
    pub(crate) async fn make_parents(&self, client: &Client, node: &str) -> Result<(), Said> {
        match node.rsplit_once('/') {
            Some((folder, _)) if !folder.is_empty() => {
                client.mkdir(folder, &self.with(CreateMode::Persistent)).await
            }
            _ => Ok(()),
        }
    }

    /// Proves that the session lives: a write that changes nothing. A majority has to take it, and the member that answers has then
    /// heard of everything before it. Neither is true of reads, and only the second of `sync`: a leader that was cut off answers that
    /// for as long as it takes itself for one.
    pub(crate) fn prove<'c>(
        &self,
        client: &'c Client,
    ) -> impl Future<Output = Result<(), Said>> + Send + use<'c> {
        let mut writer = client.new_multi_writer();
        let added = writer.add_check_version(self.root(), -1);
        let committed = writer.commit();
        async move {
            added?;
            match committed.await {
                // That the check failed was agreed on by a majority too.
                Ok(_) | Err(MultiWriteError::OperationFailed { .. }) => Ok(()),
                Err(MultiWriteError::RequestFailed { source }) => Err(source),
            }
        }
    }

    pub(crate) fn explain(&self, what: &str, said: &Said) -> Error {
        error::explain(&self.server, what, said)
    }
}

/// The children of a folder, none if it is not there.
pub(crate) fn or_none<T: Default>(answer: Result<T, Said>) -> Result<T, Said> {
    match answer {
        Err(Said::NoNode) => Ok(T::default()),
        answer => answer,
    }
}
