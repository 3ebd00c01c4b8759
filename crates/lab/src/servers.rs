//! The programs: found on `PATH`, or taken out of Debian's packages into cargo's target directory.

mod debian;
mod flavor;
mod program;

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
};

pub use self::{flavor::Flavor, program::Program};
use crate::{note, target};

/// The programs of one flavor, ready to run.
#[derive(Debug, Clone)]
pub struct Server {
    /// Which one.
    pub flavor: Flavor,
    /// The version that it told: `7.0.15`.
    pub version: String,
    /// The server.
    pub server: Program,
    tools: Vec<Program>,
}

impl Server {
    /// A program that belongs to the server, like its command line client: `redis-cli`.
    ///
    /// # Errors
    ///
    /// When the flavor has none of that name.
    pub fn tool(&self, name: &str) -> Result<&Program, String> {
        let position = self.flavor.tools().iter().position(|tool| *tool == name);
        let tool = position.and_then(|position| self.tools.get(position));
        tool.ok_or_else(|| format!("{} has no {name}", self.flavor))
    }

    /// Its command line client.
    pub(crate) fn cli(&self) -> Result<&Program, String> {
        self.tools.first().ok_or_else(|| format!("{} has no command line client", self.flavor))
    }
}

/// What this process has got already, for asking a program its version takes a moment.
static GOT: Mutex<Vec<Server>> = Mutex::new(Vec::new());

/// Gets a flavor: from `PATH` when its version there is the right one, from an earlier call, or from Debian.
///
/// # Errors
///
/// One line that tells why it cannot be had on this machine, and what to do.
pub fn get(flavor: Flavor) -> Result<Server, String> {
    let mut got = GOT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(server) = got.iter().find(|server| server.flavor == flavor) {
        return Ok(server.clone());
    }
    let server = find(flavor, &env::var_os("PATH").unwrap_or_default(), &target::directory())?;
    got.push(server.clone());
    Ok(server)
}

/// Reports that a test was not run because a flavor cannot be had: `cargo xtask test` tells it in a `not run:` line.
///
/// # Panics
///
/// With `CI=true`, where everything must be run.
pub fn missing(flavor: Flavor, why: &str) {
    note::missing(note::SERVER, flavor.name(), why);
}

fn find(flavor: Flavor, path: &OsStr, target: &Path) -> Result<Server, String> {
    let mut folders: Vec<PathBuf> = env::split_paths(path).collect();
    let which = |name| program::file_in(&folders, name);
    let (apt, dpkg) = (which("apt-get"), which("dpkg-deb"));
    if let Some(runtime) = flavor.runtime().filter(|runtime| which(runtime).is_none()) {
        return Err(format!("no {runtime} on PATH to run it; install {runtime}"));
    }
    if flavor.wrapped() {
        // Debian's are not all on the path of everybody.
        folders.extend(flavor.folders(Path::new("/")));
    }
    if let Some(server) = installed(flavor, &folders) {
        return Ok(server);
    }
    let home = target.join("servers").join(flavor.name());
    if !home.is_dir() {
        let tool = |name, found: Option<PathBuf>| {
            found.ok_or_else(|| {
                let (server, major) = (flavor.server(), flavor.majors());
                format!(
                    "no {server} {} on PATH and no {name} to fetch Debian's; install {server}",
                    major.start()
                )
            })
        };
        debian::fetch(flavor, &home, &tool("apt-get", apt)?, &tool("dpkg-deb", dpkg)?)
            .map_err(|why| format!("{flavor} could not be fetched from Debian: {why}"))?;
    }
    let folders = flavor.folders(&home);
    let unpacked = |name: &&'static str| {
        let path = program::file_in(&folders, name)
            .ok_or_else(|| format!("no {name} in {0}; remove {0} to get it anew", home.display()))?;
        if flavor.wrapped() { Ok(Program::installed(path)) } else { Program::unpacked(&home, path, name) }
    };
    let server = unpacked(&flavor.server())?;
    let tools = flavor.tools().iter().map(unpacked).collect::<Result<_, _>>()?;
    let version = version(&server).ok_or_else(|| {
        format!("{flavor} in {} does not run; remove that directory to get it anew", home.display())
    })?;
    Ok(Server { flavor, version, server, tools })
}

/// A server of the machine, when it has everything that is needed.
fn installed(flavor: Flavor, folders: &[PathBuf]) -> Option<Server> {
    // What is beside it is of the same version; Debian links to it from elsewhere.
    let server = program::file_in(folders, flavor.server())?;
    let real = if flavor.wrapped() { server.canonicalize().ok()? } else { server };
    let folders: Vec<PathBuf> =
        real.parent().map(Path::to_path_buf).into_iter().chain(folders.iter().cloned()).collect();
    let tool = |name: &&str| program::file_in(&folders, name).map(Program::installed);
    let tools = flavor.tools().iter().map(tool).collect::<Option<_>>()?;
    let server = Program::installed(real);
    let version = version(&server)?;
    flavor.is(&version).then_some(Server { flavor, version, server, tools })
}

fn version(server: &Program) -> Option<String> {
    let words = server.words();
    let said = Command::new(words.first()?).args(&words[1..]).arg("--version").output().ok()?;
    flavor::version_of(&String::from_utf8_lossy(&said.stdout)).map(String::from)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn every_flavor_can_be_had_and_is_of_its_version() {
        for flavor in Flavor::ALL {
            match get(flavor) {
                Ok(server) => assert!(flavor.is(&server.version), "{server:?}"),
                Err(why) => missing(flavor, &why),
            }
        }
    }

    #[test]
    fn a_machine_without_apt_is_told_what_to_install() {
        let empty = Scratch::new().unwrap();
        let why = find(Flavor::Redis7, empty.path().as_os_str(), empty.path()).unwrap_err();
        assert_eq!(why, "no redis-server 7 on PATH and no apt-get to fetch Debian's; install redis-server");
    }

    #[test]
    fn a_machine_without_java_is_told_what_to_install() {
        let empty = Scratch::new().unwrap();
        let why = find(Flavor::ZooKeeper, empty.path().as_os_str(), empty.path()).unwrap_err();
        assert_eq!(why, "no java on PATH to run it; install java");
    }

    #[test]
    fn a_server_on_the_path_is_taken_only_when_its_version_fits() {
        let bin = Scratch::new().unwrap();
        for name in ["redis-server", "redis-cli"] {
            let file = bin.path().join(name);
            fs::write(&file, "#!/bin/sh\necho 'Redis server v=7.2.4 sha=0:0 malloc=libc bits=64'\n").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let folders = [bin.path().to_path_buf()];
        let found = installed(Flavor::Redis7, &folders).unwrap();
        assert_eq!(found.version, "7.2.4");
        assert!(installed(Flavor::Redis8, &folders).is_none());
        assert!(installed(Flavor::Valkey8, &folders).is_none());
    }
}
