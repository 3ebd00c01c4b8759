//! One server.

use std::{
    ffi::OsString,
    fs,
    path::PathBuf,
    process::Command,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use rustix::process::Signal;

use crate::{
    clock::ShiftedClock,
    patience::{PATIENCE, until},
    port::Port,
    scratch::Scratch,
    servers::{self, Flavor, Server},
    watched::{Terms, Watched},
    wire::{Reply, Wire},
};

/// How often another port is tried.
const PORTS: u32 = 5;

/// How long one question to a server may take.
const ANSWER: Duration = Duration::from_secs(5);

/// What every server is told that is not told otherwise: nothing is kept on disk, and replicas start without delay. (After
/// a sync without a file the master waits for a word of the replica, which may come a second later only.)
const DEFAULTS: [(&str, &str); 5] = [
    ("save", "\"\""),
    ("appendonly", "no"),
    ("enable-debug-command", "local"),
    ("repl-diskless-sync", "no"),
    ("repl-timeout", "10"),
];

/// A server on a port of its own with a directory of its own. Both go with it.
///
/// It may be called from several threads. What is asked of a server that does not run is an error.
#[derive(Debug)]
pub struct Redis {
    server: Server,
    role: Role,
    port: Port,
    /// The port on which the nodes of a cluster speak with each other.
    bus: Option<Port>,
    /// What the command line client needs to be let in.
    entry: Vec<String>,
    password: Option<String>,
    /// What its command is preceded by.
    before: Vec<OsString>,
    running: Mutex<Option<Watched>>,
    scratch: Scratch,
}

/// What kind of server it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Single,
    Sentinel,
    ClusterNode,
    /// Listens for TLS only.
    Tls,
}

impl Redis {
    /// Starts a server that keeps nothing on disk.
    ///
    /// # Errors
    ///
    /// When the flavor cannot be had or the server does not start.
    pub fn start(flavor: Flavor) -> Result<Self, String> {
        Self::with(flavor, &[])
    }

    /// Starts a server with lines of its configuration: `("appendonly", "yes")`.
    ///
    /// # Errors
    ///
    /// When the flavor cannot be had or the server does not start.
    pub fn with(flavor: Flavor, options: &[(&str, &str)]) -> Result<Self, String> {
        Self::launch(flavor, Role::Single, options, Vec::new())
    }

    /// Starts a server whose time of the day is that of `clock`, over all its starts.
    ///
    /// # Errors
    ///
    /// When the flavor cannot be had or the server does not start.
    pub fn on_clock(flavor: Flavor, clock: &ShiftedClock, options: &[(&str, &str)]) -> Result<Self, String> {
        Self::launch_after(clock.words(), flavor, Role::Single, options, Vec::new())
    }

    pub(crate) fn launch(
        flavor: Flavor,
        role: Role,
        options: &[(&str, &str)],
        entry: Vec<String>,
    ) -> Result<Self, String> {
        Self::launch_after(Vec::new(), flavor, role, options, entry)
    }

    fn launch_after(
        before: Vec<OsString>,
        flavor: Flavor,
        role: Role,
        options: &[(&str, &str)],
        entry: Vec<String>,
    ) -> Result<Self, String> {
        if !Flavor::REDIS.contains(&flavor) {
            return Err(format!("{flavor} is not Redis; start it with its own type"));
        }
        let server = servers::get(flavor)?;
        let mut tried = 0;
        loop {
            tried += 1;
            let mut redis = Self::prepare(server.clone(), role, options, entry.clone())?;
            redis.before.clone_from(&before);
            match redis.run() {
                Ok(()) => return Ok(redis),
                Err(why) if tried == PORTS || !redis.log().contains("in use") => return Err(why),
                Err(_) => {}
            }
        }
    }

    fn prepare(
        server: Server,
        role: Role,
        options: &[(&str, &str)],
        mut entry: Vec<String>,
    ) -> Result<Self, String> {
        let bus = if role == Role::ClusterNode { Some(Port::free()?) } else { None };
        let option =
            |name| options.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let password = option("requirepass");
        if let Some(password) = &password {
            entry.extend(["-a".into(), password.clone(), "--no-auth-warning".into()]);
        }
        let redis = Self {
            server,
            role,
            port: Port::free()?,
            bus,
            entry,
            password,
            before: Vec::new(),
            running: Mutex::new(None),
            scratch: Scratch::new()?,
        };
        let written = fs::create_dir_all(redis.data())
            .and_then(|()| fs::write(redis.configuration(), redis.settings(options)));
        written.map_err(|why| format!("cannot write {}: {why}", redis.configuration().display()))?;
        Ok(redis)
    }

    fn settings(&self, options: &[(&str, &str)]) -> String {
        let port = self.port().to_string();
        let data = format!("\"{}\"", self.data().display());
        let mut lines = vec![("bind", "127.0.0.1"), ("dir", data.as_str())];
        let bus = self.bus().to_string();
        match self.role {
            Role::Single | Role::Sentinel => lines.push(("port", &port)),
            Role::Tls => lines.extend([("port", "0"), ("tls-port", port.as_str())]),
            Role::ClusterNode => lines.extend([
                ("port", port.as_str()),
                ("cluster-enabled", "yes"),
                ("cluster-port", bus.as_str()),
                // Beside the data, for a node whose data are wiped is still the same node.
                ("cluster-config-file", "../nodes.conf"),
            ]),
        }
        if self.role != Role::Sentinel {
            lines.extend(DEFAULTS.iter().filter(|(key, _)| !options.iter().any(|(set, _)| set == key)));
        }
        lines.extend(options);
        lines.iter().map(|(key, value)| format!("{key} {value}\n")).collect()
    }

    fn run(&self) -> Result<(), String> {
        let mut command = self.before.clone();
        command.extend_from_slice(self.server.server.words());
        command.push(self.configuration().into());
        if self.role == Role::Sentinel {
            command.push("--sentinel".into());
        }
        let mut running = self.running();
        let mut watched = Watched::start(&command, &self.log_file(), self.scratch.path(), Terms::default())?;
        let pid = watched.pid();
        let ready = until(&format!("{} on port {}", self.server.flavor, self.port()), PATIENCE, || {
            match watched.ended() {
                // There is no use in waiting for it.
                Some(status) => Ok(Err(status)),
                None => self.answers_as(pid).map(Ok),
            }
        })?;
        ready.map_err(|status| {
            let log = self.log();
            let last = log.lines().last().unwrap_or("it logged nothing");
            format!("{} on port {} did not start ({status}): {last}", self.server.flavor, self.port())
        })?;
        *running = Some(watched);
        Ok(())
    }

    /// Whether the one who answers on our port is the process that we started.
    fn answers_as(&self, pid: u32) -> Result<(), String> {
        let info = self.ask(&["INFO", "server"])?;
        if !info.lines().any(|line| line.trim_end() == format!("process_id:{pid}")) {
            return Err(format!("another server answers on port {}", self.port()));
        }
        // Not while it still loads its data.
        self.ask(&["PING"]).map(drop)
    }

    fn ask(&self, words: &[&str]) -> Result<String, String> {
        if self.role == Role::Tls { self.cli(words) } else { self.call(words).map(|reply| reply.text()) }
    }

    /// Its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// `127.0.0.1:port`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// `redis://127.0.0.1:port`, or `rediss://` where it speaks TLS.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.role == Role::Tls { "rediss" } else { "redis" };
        format!("{scheme}://{}", self.address())
    }

    /// Which server it is.
    #[must_use]
    pub fn flavor(&self) -> Flavor {
        self.server.flavor
    }

    /// The version that it told: `7.0.15`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.server.version
    }

    /// Its process, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        let mut running = self.running();
        let watched = running.as_mut()?;
        if watched.ended().is_some() { None } else { Some(watched.pid()) }
    }

    /// Sends it a signal: `Signal::STOP` freezes it, `Signal::CONT` goes on.
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub fn signal(&self, signal: Signal) -> Result<(), String> {
        self.running().as_mut().ok_or_else(|| self.not_running())?.signal(signal)
    }

    /// Kills it, as by `kill -9`, and waits until it is gone. One that does not run is left as it is.
    pub fn kill(&self) {
        drop(self.running().take());
    }

    /// Asks it to end, so that it saves what it is set to save, and waits until it has.
    ///
    /// # Errors
    ///
    /// When it does not run, or does not end.
    pub fn stop(&self) -> Result<(), String> {
        let watched = self.running().take().ok_or_else(|| self.not_running())?;
        watched.stop(Signal::TERM, PATIENCE)
    }

    /// Starts it again on the same port with the same directory: what it persisted is there. One that runs is killed
    /// before.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn restart(&self) -> Result<(), String> {
        self.kill();
        self.run()
    }

    /// Removes its data from the disk, not from a server that runs.
    ///
    /// # Errors
    ///
    /// When the files cannot be removed.
    pub fn wipe(&self) -> Result<(), String> {
        let wiped = fs::remove_dir_all(self.data()).and_then(|()| fs::create_dir_all(self.data()));
        wiped.map_err(|why| format!("cannot wipe {}: {why}", self.data().display()))
    }

    /// Runs a command through the server's own command line client.
    ///
    /// # Errors
    ///
    /// With what the client or the server complained about.
    pub fn cli(&self, words: &[&str]) -> Result<String, String> {
        let program = self.server.cli()?.words();
        let (first, rest) = program.split_first().ok_or("no command line client")?;
        let done = Command::new(first)
            .args(rest)
            .args(["-h", "127.0.0.1", "-p", &self.port().to_string(), "-e"])
            .args(&self.entry)
            .args(words)
            .output()
            .map_err(|why| format!("{} could not be started: {why}", first.display()))?;
        let said = String::from_utf8_lossy(&done.stdout).trim_end().to_owned();
        if done.status.success() {
            return Ok(said);
        }
        let complaint = String::from_utf8_lossy(&done.stderr).trim_end().to_owned();
        Err(format!("{}: {}", words.join(" "), if complaint.is_empty() { said } else { complaint }))
    }

    /// Sends a command over a connection of its own: quicker than [`cli`](Self::cli), and not for TLS.
    ///
    /// # Errors
    ///
    /// When nobody answers, or with the server's error.
    pub fn call(&self, words: &[&str]) -> Result<Reply, String> {
        self.wire()?.call(words)
    }

    /// A connection of one's own, for commands that belong together. Not for TLS.
    ///
    /// # Errors
    ///
    /// When nobody answers, or it does not let us in.
    pub fn wire(&self) -> Result<Wire, String> {
        let mut wire = Wire::connect(&self.address(), ANSWER)?;
        if let Some(password) = &self.password {
            wire.call(&["AUTH", password])?;
        }
        Ok(wire)
    }

    /// What it has logged, over all its starts.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read(self.log_file())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The port of a cluster's nodes among each other, 0 elsewhere.
    pub(crate) fn bus(&self) -> u16 {
        self.bus.as_ref().map_or(0, Port::number)
    }

    fn running(&self) -> MutexGuard<'_, Option<Watched>> {
        self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn not_running(&self) -> String {
        format!("{} on port {} does not run; restart() starts it", self.server.flavor, self.port())
    }

    fn configuration(&self) -> PathBuf {
        self.scratch.path().join("server.conf")
    }

    fn log_file(&self) -> PathBuf {
        self.scratch.path().join("log")
    }

    fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}
