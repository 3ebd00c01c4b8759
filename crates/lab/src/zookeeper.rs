//! ZooKeeper.

use std::{
    ffi::OsString,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    ops::Deref,
    time::Duration,
};

use rustix::process::Signal;

use crate::{
    daemon::Daemon,
    members::{Members, Role},
    port::Port,
    proxy::Place,
    servers::Flavor,
};

/// How long one question to a member may take. One that is frozen does not answer.
const ANSWER: Duration = Duration::from_secs(1);

/// What every member is told that is not told otherwise: short ticks, so that sessions of half a second can be had, and a
/// leader that is not heard for two seconds is left.
const DEFAULTS: [(&str, &str); 14] = [
    ("tickTime", "200"),
    ("initLimit", "50"),
    ("syncLimit", "10"),
    ("maxSessionTimeout", "60000"),
    // Tests have many sessions from one address.
    ("maxClientCnxns", "0"),
    ("clientPortAddress", "127.0.0.1"),
    ("admin.enableServer", "false"),
    ("4lw.commands.whitelist", "*"),
    ("extendedTypesEnabled", "true"),
    // It outlives the death of a process, and nothing here is to outlive the machine's.
    ("forceSync", "no"),
    ("preAllocSize", "64"),
    // Members that miss each other at the start try again soon.
    ("fastleader.maxNotificationInterval", "1000"),
    ("cnxTimeout", "1000"),
    ("standaloneEnabled", "true"),
];

/// An ensemble of ZooKeeper, in which containers and nodes with a time to live are cleaned up within a second. Sessions of
/// 400 ms to a minute can be had.
///
/// What is asked of a member that does not run is an error.
///
/// ```no_run
/// use bramah_lab::ZooKeeper;
///
/// let zookeeper = ZooKeeper::start(3)?;
/// let leader = zookeeper.leader()?;
/// zookeeper.kill(leader)?;
/// let others: Vec<usize> = (0..3).filter(|member| *member != leader).collect();
/// assert_ne!(zookeeper.await_leader(&others)?, leader);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct ZooKeeper {
    members: Members,
    /// By member: for those that follow, and for elections.
    _ports: Vec<[Port; 2]>,
}

impl ZooKeeper {
    /// Starts so many members and waits until they have a leader. One is a server that stands alone.
    ///
    /// # Errors
    ///
    /// When ZooKeeper cannot be had or does not start.
    pub fn start(members: usize) -> Result<Self, String> {
        Self::with(members, &[])
    }

    /// Starts members with lines of their configuration: `("tickTime", "1000")`.
    ///
    /// # Errors
    ///
    /// When ZooKeeper cannot be had or does not start.
    pub fn with(members: usize, settings: &[(&str, &str)]) -> Result<Self, String> {
        Self::launch(members, settings, |_, _| Ok(String::new()))
    }

    /// Starts two members that vote, and behind them one that observes and does not.
    ///
    /// # Errors
    ///
    /// When ZooKeeper cannot be had or does not start.
    pub fn with_observer() -> Result<Self, String> {
        Self::launch_with(3, 1, &[], |_, _| Ok(String::new()))
    }

    /// `more` tells further lines for the configuration of one member.
    pub(crate) fn launch(
        members: usize,
        settings: &[(&str, &str)],
        more: impl Fn(usize, &Daemon) -> Result<String, String>,
    ) -> Result<Self, String> {
        Self::launch_with(members, 0, settings, more)
    }

    /// The last of the members, so many, observe.
    fn launch_with(
        members: usize,
        observers: usize,
        settings: &[(&str, &str)],
        more: impl Fn(usize, &Daemon) -> Result<String, String>,
    ) -> Result<Self, String> {
        let start = |made: &Self| {
            made.members.run_all(|member| made.run(member))?;
            let all: Vec<usize> = made.indices().collect();
            made.await_leader(&all).map(drop)
        };
        Members::retry(|| Self::prepare(members, observers, settings, &more), start, |made| &made.members)
    }

    fn prepare(
        members: usize,
        observers: usize,
        settings: &[(&str, &str)],
        more: impl Fn(usize, &Daemon) -> Result<String, String>,
    ) -> Result<Self, String> {
        let new = |_| Daemon::new(Flavor::ZooKeeper, Signal::KILL);
        let daemons = (0..members).map(new).collect::<Result<Vec<_>, _>>()?;
        let pair = |_| Ok::<_, String>([Port::free()?, Port::free()?]);
        let ports = (0..members).map(pair).collect::<Result<Vec<_>, _>>()?;
        let mut shared = String::new();
        let told = |name: &str| settings.iter().any(|(told, _)| *told == name);
        for (name, value) in DEFAULTS.iter().filter(|(name, _)| !told(name)).chain(settings) {
            shared += &format!("{name}={value}\n");
        }
        let mut places = Vec::new();
        for (member, [quorum, election]) in ports.iter().enumerate() {
            if members > 1 {
                let (quorum, election) = (quorum.number(), election.number());
                let role = if member + observers < members { "" } else { ":observer" };
                shared += &format!("server.{}=127.0.0.1:{quorum}:{election}{role}\n", member + 1);
            }
            places.extend([quorum, election].map(|port| {
                let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()));
                Place { member, named: at, real: at }
            }));
        }
        for (member, daemon) in daemons.iter().enumerate() {
            let own = format!("clientPort={}\ndataDir={}\n", daemon.port(), daemon.file("data").display());
            daemon.write("zoo.cfg", &(own + &shared + &more(member, daemon)?))?;
            daemon.make_folder("data")?;
            daemon.write("data/myid", &format!("{}\n", member + 1))?;
        }
        Ok(Self { members: Members::new(daemons, &places)?, _ports: ports })
    }

    fn run(&self, member: usize) -> Result<(), String> {
        let daemon = self.members.daemon(member)?;
        let door = self.members.door(member)?;
        let arguments = [
            // The way to the other members. What is exempt by default is just what they are: on this machine.
            "-DsocksProxyHost=127.0.0.1".to_owned(),
            format!("-DsocksProxyPort={}", door.port()),
            "-DsocksNonProxyHosts=".to_owned(),
            "-Dznode.container.checkIntervalMs=500".to_owned(),
            "-Dorg.slf4j.simpleLogger.showDateTime=true".to_owned(),
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS".to_owned(),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain".to_owned(),
            daemon.file("zoo.cfg").display().to_string(),
        ];
        daemon.run(&arguments.map(OsString::from), |_| self.ask(member, "ruok").map(drop))
    }

    /// What clients are given: `127.0.0.1:port,127.0.0.1:port`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.addresses().join(",")
    }

    /// The member that leads now.
    ///
    /// # Errors
    ///
    /// When nobody leads, or two say that they do.
    pub fn leader(&self) -> Result<usize, String> {
        self.members.leader(|member| self.role(member))
    }

    /// Waits until one of these members leads and all of them serve.
    ///
    /// # Errors
    ///
    /// When that does not come about in time.
    pub fn await_leader(&self, among: &[usize]) -> Result<usize, String> {
        self.members.await_among(among, |member| self.role(member))
    }

    fn role(&self, member: usize) -> Result<Role, String> {
        let said = self.ask(member, "srvr")?;
        Ok(match said.lines().find_map(|line| line.strip_prefix("Mode: ")) {
            Some("leader" | "standalone") => Role::Leads,
            Some("follower" | "observer") => Role::Follows,
            _ => Role::Neither(said.lines().next().unwrap_or("it said nothing").into()),
        })
    }

    /// Asks a member one of ZooKeeper's words of four letters: `mntr`.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub fn ask(&self, member: usize, word: &str) -> Result<String, String> {
        let daemon = self.members.daemon(member)?;
        let ask = || {
            let mut stream =
                TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, daemon.port()).into(), ANSWER)?;
            stream.set_read_timeout(Some(ANSWER))?;
            stream.write_all(word.as_bytes())?;
            let mut said = String::new();
            stream.read_to_string(&mut said)?;
            Ok(said)
        };
        match ask() {
            Ok(said) if said.is_empty() => Err(format!("{daemon} said nothing to {word}")),
            said => said.map_err(|why: std::io::Error| format!("{daemon} did not answer {word}: {why}")),
        }
    }

    /// Starts a member again on the same port with the same data, and waits until it answers: not until it serves, which
    /// takes others. One that runs is killed before.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn start_again(&self, member: usize) -> Result<(), String> {
        self.kill(member)?;
        self.run(member)
    }
}

impl Deref for ZooKeeper {
    type Target = Members;

    fn deref(&self) -> &Members {
        &self.members
    }
}
