//! Clients as they are easily written. What becomes of them shows that a test would see it if ours did the same.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use bramah_lab::Proxy;
use tokio::task::JoinHandle;
use zookeeper_client::{Acls, Client, CreateMode, Error, SessionState};

use crate::stage::{SOON, ms, soon};

/// One that creates a node without an id, looks where it is in the list, and hears of the end of others.
pub(crate) struct Naive(Client);

impl Naive {
    pub(crate) async fn connect(proxies: &[Proxy], session: Duration) -> Self {
        let hosts: Vec<String> = proxies.iter().map(Proxy::address).collect();
        let connector = Client::connector().with_session_timeout(session);
        Self(soon("a session", connector.connect(&hosts.join(","))).await.unwrap())
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.0.state() == SessionState::SyncConnected
    }

    /// Makes a line that stays when nobody is in it.
    pub(crate) async fn make_folder(&self, name: &str) -> Result<(), Error> {
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        self.0.mkdir(&format!("/faults/{name}"), &options).await
    }

    /// Enters a line. The name of its node.
    pub(crate) async fn create(&self, name: &str) -> Result<String, Error> {
        self.make_folder(name).await?;
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let (_, number) = self.0.create(&format!("/faults/{name}/lock-"), b"", &options).await?;
        Ok(format!("lock-{number}"))
    }

    /// The same, however often the connection is lost.
    pub(crate) async fn create_again(&self, name: &str) -> String {
        let created = async {
            loop {
                match self.create(name).await {
                    Ok(node) => return node,
                    Err(Error::ConnectionLoss) => tokio::time::sleep(ms(20)).await,
                    Err(error) => panic!("{error}"),
                }
            }
        };
        soon("a node", created).await
    }

    pub(crate) async fn delete(&self, name: &str, node: &str) {
        self.0.delete(&format!("/faults/{name}/{node}"), None).await.unwrap();
    }

    /// The line as this client's member knows it.
    pub(crate) async fn line(&self, name: &str) -> Vec<String> {
        let mut nodes = match self.0.list_children(&format!("/faults/{name}")).await {
            // A folder in which nobody is goes after a while.
            Err(Error::NoNode) => Vec::new(),
            nodes => nodes.unwrap(),
        };
        // Ten digits are the last of each.
        nodes.sort_by_key(|node| node[node.len() - 10..].to_owned());
        nodes
    }

    /// What ends when this client is told that a node has.
    pub(crate) async fn end_of(&self, name: &str, node: &str) -> JoinHandle<()> {
        let (there, watcher) = self.0.check_and_watch_stat(&format!("/faults/{name}/{node}")).await.unwrap();
        assert!(there.is_some(), "no node {node}");
        tokio::spawn(async move { drop(watcher.changed().await) })
    }
}

/// What it takes to be a session.
#[derive(Debug)]
pub(crate) struct Ticket {
    id: i64,
    password: [u8; 16],
}

/// The length of a request for a session with a password of 16 bytes: version, last transaction, time-out, id, password, read-only.
const REQUEST: u32 = 4 + 8 + 4 + 8 + 4 + 16 + 1;

impl Ticket {
    /// Out of what a client says when it connects, if it has a session already.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let length = u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?);
        let id = i64::from_be_bytes(bytes.get(20..28)?.try_into().ok()?);
        let password = bytes.get(32..48)?.try_into().ok()?;
        (length == REQUEST && id != 0).then_some(Self { id, password })
    }

    /// Takes the session over at a member and closes it, again if its client was faster and has it back.
    pub(crate) fn close(&self, address: &str) -> Result<(), String> {
        bramah_lab::until("the end of the session", SOON, || match self.try_close(address) {
            Ok(true) => Ok(()),
            Ok(false) => Err("it was there".to_owned()),
            Err(why) => Err(why.to_string()),
        })
    }

    /// Whether it was closed already.
    fn try_close(&self, address: &str) -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(address)?;
        // One that comes while the session is on its way to another member may be left unanswered.
        stream.set_read_timeout(Some(ms(2000)))?;
        let mut request = REQUEST.to_be_bytes().to_vec();
        // The version, and that we have seen nothing.
        request.extend([0; 12]);
        request.extend(10_000_i32.to_be_bytes());
        request.extend(self.id.to_be_bytes());
        request.extend(16_i32.to_be_bytes());
        request.extend(self.password);
        request.push(0);
        stream.write_all(&request)?;
        // The time-out that is granted: none for a session that is not there.
        if answer(&mut stream)?.get(4..8) == Some(&[0; 4]) {
            return Ok(true);
        }
        stream.write_all(&[8_i32, 1, -11].map(i32::to_be_bytes).concat())?;
        answer(&mut stream).map(|_| false)
    }
}

fn answer(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}
