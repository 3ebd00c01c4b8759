//! etcd.

use std::{
    ffi::OsString,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    ops::Deref,
    sync::Mutex,
    time::Duration,
};

use rustix::process::Signal;

use crate::{
    daemon::{Daemon, command, password, told},
    members::{Members, Role},
    patience::{PATIENCE, until},
    port::Port,
    proxy::Place,
    servers::Flavor,
};

/// How long one question to a member may take. One that is frozen does not answer.
const ANSWER: Duration = Duration::from_secs(1);

/// What every member is told that is not told otherwise: a leader that is not heard for half a second is replaced, and a
/// lease of one second can be had.
const DEFAULTS: [(&str, &str); 4] =
    [("heartbeat-interval", "50"), ("election-timeout", "500"), ("logger", "zap"), ("log-outputs", "stderr")];

/// A cluster of etcd.
///
/// What is asked of a member that does not run is an error.
///
/// ```no_run
/// use bramah_lab::{Etcd, servers::Flavor};
///
/// let etcd = Etcd::start(Flavor::Etcd35, 3)?;
/// etcd.ctl(&["put", "key", "value"])?;
/// etcd.isolate(etcd.leader()?);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct Etcd {
    members: Members,
    /// By member: for the other members, and for questions about its health.
    ports: Vec<[Port; 2]>,
    flags: Vec<String>,
    access: Access,
    /// Of the user `root`, once users are asked who they are.
    password: Mutex<Option<String>>,
}

/// How clients come in.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) scheme: &'static str,
    /// What the server is told about it.
    pub(crate) server: Vec<String>,
    /// What its command line client is told about it.
    pub(crate) client: Vec<String>,
}

impl Etcd {
    /// Starts so many members of a [`Flavor::Etcd34`] or a [`Flavor::Etcd35`], and waits until they have a leader.
    ///
    /// # Errors
    ///
    /// When the flavor cannot be had or does not start.
    pub fn start(flavor: Flavor, members: usize) -> Result<Self, String> {
        Self::with(flavor, members, &[])
    }

    /// Starts members with flags of their own: `("max-txn-ops", "10")`.
    ///
    /// # Errors
    ///
    /// When the flavor cannot be had or does not start.
    pub fn with(flavor: Flavor, members: usize, flags: &[(&str, &str)]) -> Result<Self, String> {
        let access = Access { scheme: "http", server: Vec::new(), client: Vec::new() };
        Self::launch(flavor, members, flags, &access)
    }

    pub(crate) fn launch(
        flavor: Flavor,
        members: usize,
        flags: &[(&str, &str)],
        access: &Access,
    ) -> Result<Self, String> {
        if !Flavor::ETCD.contains(&flavor) {
            return Err(format!("{flavor} is not etcd; start it with its own type"));
        }
        let start = |made: &Self| {
            made.members.run_all(|member| made.run(member))?;
            let all: Vec<usize> = made.indices().collect();
            made.await_leader(&all).map(drop)
        };
        Members::retry(|| Self::prepare(flavor, members, flags, access), start, |made| &made.members)
    }

    fn prepare(
        flavor: Flavor,
        members: usize,
        flags: &[(&str, &str)],
        access: &Access,
    ) -> Result<Self, String> {
        let new = |_| Daemon::new(flavor, Signal::KILL);
        let daemons = (0..members).map(new).collect::<Result<Vec<_>, _>>()?;
        let pair = |_| Ok::<_, String>([Port::free()?, Port::free()?]);
        let ports = (0..members).map(pair).collect::<Result<Vec<_>, _>>()?;
        let mut places = Vec::new();
        for (member, [peer, _]) in ports.iter().enumerate() {
            let real = SocketAddr::from((Ipv4Addr::LOCALHOST, peer.number()));
            places.push(Place { member, named: named(member)?, real });
        }
        let told = |name: &str| flags.iter().any(|(told, _)| *told == name);
        let flags = DEFAULTS.iter().filter(|(name, _)| !told(name)).chain(flags);
        Ok(Self {
            members: Members::new(daemons, &places)?,
            ports,
            flags: flags.map(|(name, value)| format!("--{name}={value}")).collect(),
            access: access.clone(),
            password: Mutex::new(None),
        })
    }

    fn run(&self, member: usize) -> Result<(), String> {
        let daemon = self.members.daemon(member)?;
        let client = format!("{}://{}", self.access.scheme, daemon.address());
        let [peer, metrics] = self.ports(member)?;
        let all = self.indices().map(|one| Ok(format!("m{one}=http://{}", named(one)?)));
        let all = all.collect::<Result<Vec<_>, String>>()?.join(",");
        let mut arguments = vec![
            format!("--name=m{member}"),
            format!("--data-dir={}", daemon.file("data").display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
            format!("--listen-metrics-urls=http://127.0.0.1:{metrics}"),
            format!("--initial-advertise-peer-urls=http://{}", named(member)?),
            format!("--initial-cluster={all}"),
        ];
        arguments.extend(self.flags.iter().chain(&self.access.server).cloned());
        let arguments: Vec<OsString> = arguments.into_iter().map(OsString::from).collect();
        // The way to the other members.
        let door = format!("HTTP_PROXY=socks5://{}", self.members.door(member)?);
        let before = ["env", "-u", "NO_PROXY", "-u", "no_proxy", &door].map(OsString::from);
        daemon.run_after(&before, &arguments, |_| self.fetch(member, "/metrics").map(drop))
    }

    fn ports(&self, member: usize) -> Result<[u16; 2], String> {
        let [peer, metrics] = self.ports.get(member).ok_or_else(|| format!("no member {member}"))?;
        Ok([peer.number(), metrics.number()])
    }

    /// Which of the two it is.
    #[must_use]
    pub fn flavor(&self) -> Flavor {
        self.members.daemon(0).map_or(Flavor::Etcd34, |daemon| daemon.server.flavor)
    }

    /// What clients are given, by member: `http://127.0.0.1:port`.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.addresses().iter().map(|address| format!("{}://{address}", self.access.scheme)).collect()
    }

    /// The member that leads now.
    ///
    /// # Errors
    ///
    /// When nobody leads, or two say that they do.
    pub fn leader(&self) -> Result<usize, String> {
        self.members.leader(|member| self.role(member))
    }

    /// Waits until one of these members leads and all of them are healthy.
    ///
    /// # Errors
    ///
    /// When that does not come about in time.
    pub fn await_leader(&self, among: &[usize]) -> Result<usize, String> {
        self.members.await_among(among, |member| {
            let role = self.role(member)?;
            let health = self.fetch(member, "/health")?;
            if health.contains("\"health\":\"true\"") { Ok(role) } else { Ok(Role::Neither(health)) }
        })
    }

    fn role(&self, member: usize) -> Result<Role, String> {
        let metrics = self.fetch(member, "/metrics")?;
        let is = |line: &str| metrics.lines().any(|told| told == line);
        Ok(match (is("etcd_server_is_leader 1"), is("etcd_server_has_leader 1")) {
            (true, true) => Role::Leads,
            (false, true) => Role::Follows,
            _ => Role::Neither("it knows no leader".into()),
        })
    }

    /// What a member tells whoever looks after it.
    fn fetch(&self, member: usize, path: &str) -> Result<String, String> {
        let [_, port] = self.ports(member)?;
        let fetch = || {
            let mut stream = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), ANSWER)?;
            stream.set_read_timeout(Some(ANSWER))?;
            stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
            let mut said = String::new();
            stream.read_to_string(&mut said)?;
            Ok(said)
        };
        let said: Result<String, std::io::Error> = fetch();
        let said = said.map_err(|why| format!("member {member} did not answer {path}: {why}"))?;
        Ok(said.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or(said))
    }

    /// Runs etcdctl, which is told all members, and returns what it said.
    ///
    /// # Errors
    ///
    /// With what it complained about.
    pub fn ctl(&self, arguments: &[&str]) -> Result<String, String> {
        told(self.etcdctl(&self.endpoints().join(","))?.args(arguments), "")
    }

    /// Runs etcdctl, which is told one member.
    ///
    /// # Errors
    ///
    /// With what it complained about.
    pub fn ctl_at(&self, member: usize, arguments: &[&str]) -> Result<String, String> {
        let endpoints = self.endpoints();
        let endpoint = endpoints.get(member).ok_or_else(|| format!("no member {member}"))?;
        told(self.etcdctl(endpoint)?.args(arguments), "")
    }

    /// A command that runs etcdctl.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn etcdctl(&self, endpoints: &str) -> Result<std::process::Command, String> {
        let mut ctl = command(self.members.daemon(0)?.server.cli()?)?;
        ctl.env("ETCDCTL_API", "3").arg(format!("--endpoints={endpoints}")).args(&self.access.client);
        if let Some(password) = self.password() {
            // Not among the arguments, which everybody can read.
            ctl.env("ETCDCTL_USER", format!("root:{password}"));
        }
        Ok(ctl)
    }

    /// From now on clients have to say who they are. There is a user `root`, who may do everything; returned is its
    /// password.
    ///
    /// # Errors
    ///
    /// When the cluster refuses.
    pub fn enable_auth(&self) -> Result<String, String> {
        let password = password();
        let endpoints = self.endpoints().join(",");
        let mut add = self.etcdctl(&endpoints)?;
        told(add.args(["user", "add", "root", "--interactive=false"]), &format!("{password}\n"))?;
        self.ctl(&["role", "add", "root"])?;
        self.ctl(&["user", "grant-role", "root", "root"])?;
        self.ctl(&["auth", "enable"])?;
        *self.password.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(password.clone());
        // Each member learns it when it gets to that place of the log.
        for member in self.indices() {
            until("users that are asked", PATIENCE, || self.ctl_at(member, &["user", "list"]))?;
        }
        Ok(password)
    }

    fn password(&self) -> Option<String> {
        self.password.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Starts a member again on the same port with the same data, and waits until it answers: not until it is healthy,
    /// which takes others. One that runs is killed before.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn start_again(&self, member: usize) -> Result<(), String> {
        self.kill(member)?;
        self.run(member)
    }
}

impl Deref for Etcd {
    type Target = Members;

    fn deref(&self) -> &Members {
        &self.members
    }
}

/// Where the other members believe one to be. Nobody is really there, for these addresses are for documents; and they are
/// not those of this machine, to which etcd would go without asking the way.
fn named(member: usize) -> Result<SocketAddr, String> {
    let last = u8::try_from(member + 1).map_err(|_| format!("too many members: {member}"))?;
    Ok((Ipv4Addr::new(192, 0, 2, last), 2380).into())
}
