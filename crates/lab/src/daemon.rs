//! What the servers of databases have in common: a port and a directory of their own, a log, and a process.

use std::{
    ffi::OsString,
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard},
};

use rustix::process::Signal;

use crate::{
    patience::{PATIENCE, until},
    port::Port,
    processes,
    scratch::Scratch,
    servers::{self, Flavor, Program, Server},
    user,
    watched::{Terms, Watched},
};

/// How often another port is tried.
const PORTS: u32 = 5;

/// A server on a port of its own with a directory of its own. Both go with it.
#[derive(Debug)]
pub(crate) struct Daemon {
    pub(crate) server: Server,
    port: Port,
    ending: Signal,
    running: Mutex<Option<Watched>>,
    scratch: Scratch,
}

impl Daemon {
    /// A server that does not run yet. `ending` is the signal at which it ends at once and leaves nothing behind.
    pub(crate) fn new(flavor: Flavor, ending: Signal) -> Result<Self, String> {
        let server = servers::get(flavor)?;
        let daemon =
            Self { server, port: Port::free()?, ending, running: Mutex::new(None), scratch: Scratch::new()? };
        // Who gets into it is let in by the server without a password.
        fs::set_permissions(daemon.folder(), fs::Permissions::from_mode(0o700))
            .map_err(|why| format!("cannot close {}: {why}", daemon.folder().display()))?;
        user::give(daemon.folder())?;
        Ok(daemon)
    }

    /// Makes and starts one, on another port if somebody else took the first one meanwhile.
    pub(crate) fn retry<T>(
        mut make: impl FnMut() -> Result<T, String>,
        start: impl Fn(&T) -> Result<(), String>,
        daemon: impl Fn(&T) -> &Self,
    ) -> Result<T, String> {
        let mut tried = 0;
        loop {
            tried += 1;
            let made = make()?;
            match start(&made) {
                Ok(()) => return Ok(made),
                Err(why) if tried == PORTS || !daemon(&made).log().contains("in use") => return Err(why),
                Err(_) => {}
            }
        }
    }

    /// Starts it with these arguments and waits until it is `ready`, which is asked with its process id.
    pub(crate) fn run(
        &self,
        arguments: &[OsString],
        ready: impl Fn(u32) -> Result<(), String>,
    ) -> Result<(), String> {
        self.run_after(&[], arguments, ready)
    }

    /// The same with words before its command, such as those of `env`.
    pub(crate) fn run_after(
        &self,
        before: &[OsString],
        arguments: &[OsString],
        ready: impl Fn(u32) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut running = self.running();
        // Two would write to the same files.
        drop(running.take());
        let logged = self.log().len();
        let command = [before, self.server.server.words(), arguments].concat();
        let terms = Terms { user: user::other(), ending: self.ending };
        let mut watched = Watched::start(&command, &self.file("log"), self.folder(), terms)?;
        let pid = watched.pid();
        let ready = until(&self.to_string(), PATIENCE, || match watched.ended() {
            // There is no use in waiting for it.
            Some(status) => Ok(Err(status)),
            None => ready(pid).map(Ok),
        })?;
        ready.map_err(|status| {
            let log = self.log();
            format!("{self} did not start ({status}): {}", complaint(log.get(logged..).unwrap_or(&log)))
        })?;
        *running = Some(watched);
        Ok(())
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    pub(crate) fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// A file in its directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Makes a folder in its directory that is its own.
    pub(crate) fn make_folder(&self, name: &str) -> Result<(), String> {
        let path = self.file(name);
        fs::create_dir(&path).map_err(|why| format!("cannot make {}: {why}", path.display()))?;
        user::give(&path)
    }

    /// Writes a file that it, and nobody else, reads.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.file(name);
        fs::write(&path, text)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o600)))
            .map_err(|why| format!("cannot write {}: {why}", path.display()))?;
        user::give(&path)
    }

    pub(crate) fn log(&self) -> String {
        fs::read(self.file("log"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        let mut running = self.running();
        let watched = running.as_mut()?;
        if watched.ended().is_some() { None } else { Some(watched.pid()) }
    }

    pub(crate) fn freeze(&self) -> Result<(), String> {
        processes::freeze(self.pid().ok_or_else(|| self.not_running())?)
    }

    pub(crate) fn thaw(&self) -> Result<(), String> {
        processes::thaw(self.pid().ok_or_else(|| self.not_running())?)
    }

    /// Ends it by a signal and waits until it has ended.
    pub(crate) fn stop(&self, signal: Signal) -> Result<(), String> {
        // One that is frozen hears nothing, and its children neither.
        let _ = self.thaw();
        let watched = self.running().take().ok_or_else(|| self.not_running())?;
        watched.stop(signal, PATIENCE)
    }

    /// Ends it, however it is. One that does not run is left as it is.
    pub(crate) fn end(&self) {
        if let Some(pid) = self.pid() {
            // What stays frozen is killed, only later.
            let _ = processes::thaw(pid);
        }
        drop(self.running().take());
    }

    fn running(&self) -> MutexGuard<'_, Option<Watched>> {
        self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn not_running(&self) -> String {
        format!("{self} does not run; start_again() starts it")
    }
}

impl std::fmt::Display for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on port {}", self.server.flavor, self.port())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a server that did not start complained about, as one line.
fn complaint(log: &str) -> String {
    let is =
        |line: &&str| ["ERROR", "FATAL", "\"fatal\"", "unrecognized"].iter().any(|word| line.contains(word));
    let complaints: Vec<&str> = log.lines().filter(is).collect();
    if complaints.is_empty() {
        return log.lines().last().unwrap_or("it logged nothing").into();
    }
    complaints.join("; ")
}

/// A command that runs one of the programs.
pub(crate) fn command(program: &Program) -> Result<Command, String> {
    let (first, rest) = program.words().split_first().ok_or("a program without a name")?;
    let mut command = Command::new(first);
    command.args(rest).env("LC_ALL", "C");
    Ok(command)
}

/// Runs a command that is told `input`, and returns what it said.
pub(crate) fn told(command: &mut Command, input: &str) -> Result<String, String> {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default().display().to_string();
    let failed = |why: std::io::Error| format!("{name} could not be run: {why}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut pipe = child.stdin.take();
    let done = std::thread::scope(|scope| {
        // Beside reading, for it may say much before it has heard all. If it ends before, that is seen below.
        scope.spawn(move || pipe.as_mut().map(|pipe| pipe.write_all(input.as_bytes())));
        child.wait_with_output()
    });
    let done = done.map_err(failed)?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).trim_end().to_owned());
    }
    let said = [done.stderr, done.stdout].map(|said| String::from_utf8_lossy(&said).trim().to_owned());
    let said = said.into_iter().find(|said| !said.is_empty()).unwrap_or_else(|| done.status.to_string());
    Err(format!("{name}: {said}"))
}

/// A password that nobody knows yet.
pub(crate) fn password() -> String {
    use std::hash::{BuildHasher, RandomState};
    format!("{:016x}{:016x}", RandomState::new().hash_one(0), RandomState::new().hash_one(1))
}
