//! Opening what lies in the directory without trusting whoever may have put it there.
//!
//! The directory belongs to one user. A file of another user's making could be a link that leads elsewhere, or a pipe
//! that blocks whoever opens it.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::Path,
};

use bramah_core::{Error, ErrorKind, Result};
use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
    process::geteuid,
};

use crate::error::{corrupt, io_error};

/// Opens a regular file; `None` if it is absent. Does not follow a symbolic link and does not wait for the other end
/// of a pipe. `what` names it in errors.
pub(crate) fn open_regular(what: &str, path: &Path, access: OFlags) -> Result<Option<File>> {
    const SAFELY: OFlags =
        OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
    let file = match open(path, access | SAFELY, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err(corrupt(what, path, "is a symbolic link")),
        Err(Errno::ISDIR | Errno::NXIO | Errno::NODEV) => return Err(not_regular(what, path)),
        Err(error) => return Err(io_error(&format!("open {what}"), path, error)),
    };
    match file.metadata() {
        Ok(found) if found.is_file() => Ok(Some(file)),
        Ok(_) => Err(not_regular(what, path)),
        Err(error) => Err(io_error(&format!("look at {what}"), path, error)),
    }
}

fn not_regular(what: &str, path: &Path) -> Error {
    corrupt(what, path, "is not a regular file")
}

/// Refuses a directory that is a link, that belongs to another user, or that others may write to: they could end locks,
/// or lead us elsewhere. The same for root, whose files in it the owner could not open.
pub(crate) fn check_dir(dir: &Path) -> Result<()> {
    let found = fs::symlink_metadata(dir).map_err(|error| io_error("look at", dir, error))?;
    let us = geteuid().as_raw();
    let shown = dir.display();
    if found.is_symlink() {
        return Err(denied(format!("{shown} is a symbolic link; replace it by a directory")));
    }
    if found.uid() != us {
        return Err(denied(format!(
            "{shown} belongs to user {}, and this is user {us}; run as its owner, or use a directory of your own",
            found.uid()
        )));
    }
    if found.mode() & 0o022 != 0 {
        let mode = found.mode() & 0o7777;
        return Err(denied(format!("others may write to {shown} (mode {mode:04o}); chmod 700 {shown}")));
    }
    Ok(())
}

/// Refuses a path that is another user's link. A link of our own or of root's may lead to the directory.
pub(crate) fn check_link(path: &Path) -> Result<()> {
    let us = geteuid().as_raw();
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() && ![0, us].contains(&found.uid()) => Err(denied(format!(
            "{} is a symbolic link of user {}, and this is user {us}; name the directory itself",
            path.display(),
            found.uid()
        ))),
        // What else there is to say is said when it is opened.
        _ => Ok(()),
    }
}

fn denied(why: String) -> Error {
    Error::new(ErrorKind::Denied, format!("cannot keep locks there: {why}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::samples::Scratch;

    #[test]
    fn only_a_regular_file_is_opened_and_nothing_is_waited_for() {
        let dir = Scratch::new();
        let open = |name: &str, access| open_regular("the ledger", &dir.0.join(name), access);
        assert!(open("absent", OFlags::RDWR).unwrap().is_none());
        assert!(open("plain", OFlags::RDWR | OFlags::CREATE).unwrap().is_some());
        assert!(open("plain", OFlags::RDONLY).unwrap().is_some());
        symlink(dir.0.join("target"), dir.0.join("link")).unwrap();
        fs::create_dir(dir.0.join("dir")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.0.join("socket")).unwrap();
        let fifo = std::process::Command::new("mkfifo").arg(dir.0.join("fifo")).status().unwrap();
        assert!(fifo.success());
        for name in ["link", "dir", "socket", "fifo"] {
            for access in [OFlags::RDONLY, OFlags::RDWR, OFlags::RDWR | OFlags::CREATE] {
                let error = open(name, access).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                assert!(error.to_string().contains(name), "{error}");
            }
        }
        assert!(!dir.0.join("target").exists(), "a link is not followed");
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused() {
        let dir = Scratch::new();
        for (mode, fine) in [(0o700, true), (0o755, true), (0o770, false), (0o702, false), (0o1777, false)] {
            fs::set_permissions(&dir.0, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(check_dir(&dir.0).is_ok(), fine, "{mode:o}");
        }
        let link = dir.0.with_extension("link");
        symlink(&dir.0, &link).unwrap();
        assert!(check_link(&link).is_ok(), "our own link may lead to it");
        let error = check_dir(&link).unwrap_err();
        fs::remove_file(&link).unwrap();
        assert!(error.to_string().contains("symbolic link"), "{error}");
    }
}
