//! The user as whom databases run, which refuse to run as root.

use std::{fs, os::unix::fs::chown, path::Path, process::Command};

use rustix::process::geteuid;

/// `nobody`, wherever there is one.
const NOBODY: u32 = 65_534;

/// Whom a server is run as when that is not ourselves.
pub(crate) fn other() -> Option<u32> {
    geteuid().is_root().then_some(NOBODY)
}

/// Gives a file or a directory with all that is in it to that user.
pub(crate) fn give(path: &Path) -> Result<(), String> {
    match other() {
        Some(user) => {
            give_to(path, user).map_err(|why| format!("cannot give away {}: {why}", path.display()))
        }
        None => Ok(()),
    }
}

fn give_to(path: &Path, user: u32) -> std::io::Result<()> {
    chown(path, Some(user), Some(user))?;
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            give_to(&entry?.path(), user)?;
        }
    }
    Ok(())
}

/// Makes a command one of that user.
pub(crate) fn become_other(command: &mut Command) -> &mut Command {
    use std::os::unix::process::CommandExt;
    match other() {
        Some(user) => command.uid(user).gid(user),
        None => command,
    }
}
