//! The programs: found on `PATH`, or taken out of Debian's packages into cargo's target directory.

mod debian;
mod flavor;
mod program;

use std::{
    env,
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
    /// Its command line client.
    pub cli: Program,
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

fn find(flavor: Flavor, path: &std::ffi::OsStr, target: &Path) -> Result<Server, String> {
    if let Some(server) = on_path(flavor, path) {
        return Ok(server);
    }
    let home = target.join("servers").join(flavor.name());
    if !home.is_dir() {
        let tool = |name| {
            which(name, path).ok_or_else(|| {
                format!(
                    "no {} {} on PATH and no {name} to fetch Debian's; install {0}",
                    flavor.server(),
                    flavor.major()
                )
            })
        };
        debian::fetch(flavor, &home, &tool("apt-get")?, &tool("dpkg-deb")?)
            .map_err(|why| format!("{flavor} could not be fetched from Debian: {why}"))?;
    }
    let server = Program::unpacked(&home, flavor.server())?;
    let cli = Program::unpacked(&home, flavor.cli())?;
    let version = version(&server).ok_or_else(|| {
        format!("{flavor} in {} does not run; remove that directory to get it anew", home.display())
    })?;
    Ok(Server { flavor, version, server, cli })
}

fn on_path(flavor: Flavor, path: &std::ffi::OsStr) -> Option<Server> {
    let server = Program::installed(which(flavor.server(), path)?);
    let cli = Program::installed(which(flavor.cli(), path)?);
    let version = version(&server)?;
    flavor.is(&version).then_some(Server { flavor, version, server, cli })
}

fn which(name: &str, path: &std::ffi::OsStr) -> Option<PathBuf> {
    env::split_paths(path).map(|folder| folder.join(name)).find(|file| file.is_file())
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
    fn a_server_on_the_path_is_taken_only_when_its_version_fits() {
        let bin = Scratch::new().unwrap();
        for name in ["redis-server", "redis-cli"] {
            let file = bin.path().join(name);
            fs::write(&file, "#!/bin/sh\necho 'Redis server v=7.2.4 sha=0:0 malloc=libc bits=64'\n").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let found = on_path(Flavor::Redis7, bin.path().as_os_str()).unwrap();
        assert_eq!(found.version, "7.2.4");
        assert!(on_path(Flavor::Redis8, bin.path().as_os_str()).is_none());
        assert!(on_path(Flavor::Valkey8, bin.path().as_os_str()).is_none());
    }
}
