//! What there is to know of an ensemble before one trusts locks to it: plain facts, for a doctor to judge.

use std::{sync::Arc, time::Duration};

use bramah_core::{ErrorKind, Name, Result, SessionId};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use zookeeper_client::{Client, CreateMode, Error as Said, MultiWriteError};

use crate::{Access, ZooKeeper, base::Base, error, names};

/// How often a question is asked.
const ROUNDS: usize = 5;

/// How long the session lasts that asks.
const SESSION: Duration = Duration::from_secs(10);

/// How short a session is asked for, one after the other until one comes about: for so long the driver waits for it.
const SHORT: [Duration; 3] = [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(4)];

/// More than a member has to say of itself.
const MOST_BYTES: u64 = 64 << 10;

/// An ensemble as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The members that the url names, in its order.
    pub members: Vec<Member>,
    /// What it grants; why nothing, if no session can be had.
    pub service: std::result::Result<Service, String>,
    /// The user of the url.
    pub user: Option<String>,
    /// Who may use what we create.
    pub access: Access,
    /// Whether TLS is spoken.
    pub is_private: bool,
    /// Where everything is below: empty, or a path.
    pub chroot: String,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where it is.
    pub address: String,
    /// What it says of itself.
    pub word: Word,
}

/// What a member says when it is asked for `srvr`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// What it is.
    Told {
        /// `3.9.3`.
        version: String,
        /// What it does in the ensemble.
        role: Role,
    },
    /// It is there, and does not serve: it sees no majority.
    Idle,
    /// It is there, and may not say (`4lw.commands.whitelist`).
    Withheld,
    /// It was not asked: these words are not spoken by TLS here.
    Unasked,
    /// It said nothing, and why.
    Silent(String),
}

/// What a member does in its ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It leads.
    Leader,
    /// It follows the leader.
    Follower,
    /// It follows the leader and does not vote.
    Observer,
    /// There are no others.
    Standalone,
    /// It says something else.
    Other(String),
}

/// What an ensemble grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// How many members vote, named in the url or not; 1 for a server that stands alone, `None` if it may not be read.
    pub voters: Option<usize>,
    /// The shortest session that was granted, and what was asked for; `None` if none came about.
    pub shortest: Option<(Duration, Duration)>,
    /// The longest session that is granted.
    pub longest: Option<Duration>,
    /// Whether the chroot is there; true without one.
    pub has_chroot: bool,
    /// Whether folders can be containers, which ZooKeeper removes when they are empty.
    pub has_containers: bool,
    /// What we may do there.
    pub rights: Rights,
    /// How long a question takes; the median of some.
    pub round_trip: Duration,
}

/// What a user may do below the chroot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Whether it may create the folder of a lock, and claims in it.
    pub lock: bool,
    /// Whether it may write below `/%bramah`, if that is there: how locks were ended by force.
    pub records: bool,
    /// Whether it may list what is in the chroot.
    pub list: bool,
}

/// Looks at the ensemble of a URL. Nothing is written to it.
///
/// # Errors
/// Of an ensemble of which no member is there, and of one that does not take our user or certificate.
pub async fn examine(url: &str) -> Result<Facts> {
    let zookeeper = ZooKeeper::from_url(url)?;
    let base = zookeeper.0.base.clone();
    let config = &base.config;
    // What takes longest are the sessions.
    let patience = config.connect_timeout * 6 + config.timeout * 6;
    let (server, work) = (base.server.clone(), base.clone());
    let silence = move || Err(error::silent(&server, "an examination", patience));
    base.office.run_within(patience, silence, async move { look(&work).await }).await
}

impl ZooKeeper {
    /// Removes the folder of a lock that is not in use, and those that it is in as far as they are empty: what ZooKeeper does after a
    /// while by itself.
    ///
    /// # Errors
    /// Of an ensemble that cannot be reached, or does not allow it.
    pub async fn forget(&self, name: &Name) -> Result<()> {
        let (desk, name) = (self.0.desk.clone(), name.clone());
        let patience = desk.base.config.connect_timeout + desk.base.config.timeout;
        let (server, what) = (desk.base.server.clone(), name.to_string());
        let silence = move || Err(error::silent(&server, &what, patience));
        let office = desk.base.office.clone();
        let work = async move {
            let client = desk.client().await?;
            let mut folder = desk.base.folder(&name);
            while folder.len() > desk.base.config.chroot.len() {
                match client.delete(&folder, None).await {
                    Ok(()) | Err(Said::NoNode) => {}
                    Err(Said::NotEmpty) => return Ok(()),
                    Err(said) => return Err(desk.base.explain(name.as_str(), &said)),
                }
                folder.truncate(folder.rfind('/').unwrap_or_default());
            }
            Ok(())
        };
        office.run_within(patience, silence, work).await
    }
}

async fn look(base: &Arc<Base>) -> Result<Facts> {
    let config = &base.config;
    let asked = config.members.iter().map(|address| {
        let (address, patience, is_private) = (address.clone(), config.timeout, config.tls.is_some());
        tokio::spawn(async move { if is_private { Word::Unasked } else { ask(&address, patience).await } })
    });
    let mut members = Vec::new();
    for (address, asked) in config.members.iter().zip(asked.collect::<Vec<_>>()) {
        let word = asked.await.unwrap_or_else(|_| Word::Silent("the question was given up".to_owned()));
        members.push(Member { address: address.clone(), word });
    }
    let is_there = |member: &Member| matches!(member.word, Word::Told { .. } | Word::Idle | Word::Withheld);
    let service = match service(base).await {
        Ok(service) => Ok(service),
        Err(error) if error.kind() == ErrorKind::Unavailable && members.iter().any(is_there) => {
            Err(error.to_string())
        }
        Err(error) => return Err(error),
    };
    Ok(Facts {
        members,
        service,
        user: config.user.as_ref().and_then(|user| user.split(':').next()).map(str::to_owned),
        access: config.access,
        is_private: config.tls.is_some(),
        chroot: config.chroot.clone(),
    })
}

/// Asks one member for `srvr`, which is allowed if nothing else is.
async fn ask(address: &str, patience: Duration) -> Word {
    let talk = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"srvr").await?;
        let mut said = Vec::new();
        stream.take(MOST_BYTES).read_to_end(&mut said).await?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&said).into_owned())
    };
    match timeout(patience, talk).await {
        Ok(Ok(said)) => read(&said),
        Ok(Err(error)) => Word::Silent(error.to_string()),
        Err(_) => Word::Silent(format!("no answer within {} ms", patience.as_millis())),
    }
}

fn read(said: &str) -> Word {
    let line = |start: &str| said.lines().find_map(|line| line.strip_prefix(start)).map(str::trim);
    if said.contains("not in the whitelist") {
        return Word::Withheld;
    }
    if said.contains("not currently serving requests") {
        return Word::Idle;
    }
    let (Some(version), Some(mode)) = (line("Zookeeper version:"), line("Mode:")) else {
        return Word::Silent("what it says is not what a ZooKeeper says".to_owned());
    };
    let version = version.split(['-', ',', ' ']).next().unwrap_or_default();
    let clean = |text: &str| text.chars().take(40).flat_map(char::escape_debug).collect::<String>();
    let role = match mode {
        "leader" => Role::Leader,
        "follower" => Role::Follower,
        "observer" => Role::Observer,
        "standalone" => Role::Standalone,
        other => Role::Other(clean(other)),
    };
    Word::Told { version: clean(version), role }
}

async fn service(base: &Base) -> Result<Service> {
    let because = |said: Said| base.explain("an examination", &said);
    let client = base.dial(SESSION).await?;
    let mut trips = Vec::new();
    for _ in 0..ROUNDS {
        let sent = base.clock.now();
        base.prove(&client).await.map_err(because)?;
        trips.push(base.clock.now().since(sent));
    }
    trips.sort();
    let (rights, has_containers, has_chroot) = rights(base, &client).await?;
    let voters = client.get_config().await.ok().map(|(config, _)| voters(&String::from_utf8_lossy(&config)));
    let mut shortest = None;
    for asked in SHORT {
        if let Ok(short) = base.dial(asked).await {
            shortest = Some((short.session_timeout(), asked));
            break;
        }
    }
    let longest = base.dial(Duration::MAX).await.ok().map(|long| long.session_timeout());
    Ok(Service {
        voters,
        shortest,
        longest,
        has_chroot,
        has_containers,
        rights,
        round_trip: trips.get(trips.len() / 2).copied().unwrap_or_default(),
    })
}

/// Who votes by the ensemble's own list, which a server that stands alone does not have.
fn voters(config: &str) -> usize {
    let members = config.lines().filter(|line| line.starts_with("server."));
    members.filter(|line| !line.contains(":observer")).count().max(1)
}

/// What we may do, whether folders can be containers, and whether the chroot is there.
async fn rights(base: &Base, client: &Client) -> Result<(Rights, bool, bool)> {
    let because = |said: Said| base.explain("an examination", &said);
    let chroot = base.config.chroot.as_str();
    // What stands above it, from the top.
    let ends = chroot.match_indices('/').skip(1).map(|(at, _)| at).chain([chroot.len()]);
    let above = ends.filter_map(|at| chroot.get(..at)).filter(|path| !path.is_empty());
    let mut missing = Vec::new();
    for path in above {
        if !is_there(client, path).await.map_err(because)? {
            missing.push((path.to_owned(), CreateMode::Persistent));
        }
    }
    let has_chroot = missing.is_empty();
    let trial = format!("bramah-doctor-{}", SessionId::random()?);
    let folder = format!("{chroot}/{trial}");
    let claim = (format!("{folder}/lock-"), CreateMode::EphemeralSequential);
    let lock = [missing, vec![(folder, CreateMode::Container), claim]].concat();
    let (lock, has_containers) = match may(base, client, &lock).await {
        Err(Said::Unimplemented) => (true, false),
        answer => (answer.map_err(because)?, true),
    };
    let mut records = true;
    for folder in [names::OWN.to_owned(), format!("{}/broken", names::OWN)] {
        let folder = format!("{chroot}/{folder}");
        // One that is not there is created when it is needed.
        if is_there(client, &folder).await.map_err(because)? {
            let record = (format!("{folder}/{trial}"), CreateMode::Persistent);
            records &= may(base, client, &[record]).await.map_err(because)?;
        }
    }
    let list = match client.list_children(base.root()).await {
        Err(Said::NoAuth) => false,
        Ok(_) | Err(Said::NoNode) => true,
        Err(said) => return Err(because(said)),
    };
    Ok((Rights { lock, records, list }, has_containers, has_chroot))
}

/// Whether a node is there. One that we may not see is.
async fn is_there(client: &Client, path: &str) -> Result<bool, Said> {
    match client.check_stat(path).await {
        Ok(stat) => Ok(stat.is_some()),
        Err(Said::NoAuth) => Ok(true),
        Err(said) => Err(said),
    }
}

/// Whether these may be created, which they are not: the last part of the transaction is never true, and rights are asked for in order.
async fn may(base: &Base, client: &Client, nodes: &[(String, CreateMode)]) -> Result<bool, Said> {
    let mut writer = client.new_multi_writer();
    for (path, mode) in nodes {
        writer.add_create(path, b"", &base.with(*mode))?;
    }
    writer.add_check_version("/", i32::MAX)?;
    match writer.commit().await {
        Ok(_) => Ok(true),
        Err(MultiWriteError::OperationFailed { index, .. }) if index == nodes.len() => Ok(true),
        // Where one is not there although we believe so, we may not see that.
        Err(MultiWriteError::OperationFailed { source: Said::NoAuth | Said::NoNode, .. }) => Ok(false),
        Err(MultiWriteError::OperationFailed { source, .. } | MultiWriteError::RequestFailed { source }) => {
            Err(source)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_member_says_is_read() {
        let told = "Zookeeper version: 3.9.3-c26634f, built on 2024-10-17 23:21 UTC\nLatency min/avg/max: 0/0/0\nMode: follower\n";
        assert_eq!(read(told), Word::Told { version: "3.9.3".to_owned(), role: Role::Follower });
        let other = "Zookeeper version: 3.9.3\nMode: read-\u{1b}only\n";
        assert_eq!(
            read(other),
            Word::Told { version: "3.9.3".to_owned(), role: Role::Other("read-\\u{1b}only".to_owned()) }
        );
        assert_eq!(read("srvr is not executed because it is not in the whitelist.\n"), Word::Withheld);
        assert_eq!(read("This ZooKeeper instance is not currently serving requests\n"), Word::Idle);
        assert!(matches!(read("HTTP/1.1 400 Bad Request\n"), Word::Silent(_)));
        assert!(matches!(read(""), Word::Silent(_)));
    }

    #[test]
    fn observers_do_not_vote_and_one_alone_does() {
        assert_eq!(voters(""), 1);
        let three = "server.1=a:2888:3888:participant;2181\nserver.2=b:2888:3888:observer;2181\nserver.3=c:2888:3888:participant\nversion=0";
        assert_eq!(voters(three), 2);
    }
}
