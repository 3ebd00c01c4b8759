//! A database's first files, which take seconds to make: they are made once and copied for every server.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::{FileExt, PermissionsExt},
    path::Path,
};

use crate::{scratch::Scratch, target, user};

/// How much is copied at once.
const PIECE: usize = 64 * 1024;

/// Puts a copy of the files called `name` to `into`. Whoever needs them first has them made by `make` in a directory that
/// is its own; all processes here share the result.
pub(crate) fn copy(
    name: &str,
    into: &Path,
    make: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    let home = target::directory().join("servers/templates").join(name);
    if !home.is_dir() {
        let _lock = target::lock(&home.with_file_name(format!("{name}.lock")))?;
        if !home.is_dir() {
            let scratch = Scratch::new()?;
            user::give(scratch.path())?;
            let made = scratch.path().join("data");
            make(&made)?;
            let partial = home.with_file_name(format!("{name}.partial"));
            let _ = fs::remove_dir_all(&partial);
            duplicate(&made, &partial)?;
            fs::rename(&partial, &home).map_err(|why| format!("cannot make {}: {why}", home.display()))?;
        }
    }
    duplicate(&home, into)?;
    user::give(into)
}

fn duplicate(from: &Path, to: &Path) -> Result<(), String> {
    duplicate_all(from, to)
        .map_err(|why| format!("cannot copy {} to {}: {why}", from.display(), to.display()))
}

fn duplicate_all(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir(to)?;
    // A database wants nobody else to read its files.
    fs::set_permissions(to, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            duplicate_all(&entry.path(), &target)?;
        } else {
            duplicate_file(&entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Leaves out what is zero. That is most of a new database, whose logs are as long as they will ever be.
fn duplicate_file(from: &Path, to: &Path) -> std::io::Result<()> {
    static ZERO: [u8; PIECE] = [0; PIECE];
    let (mut from, to) = (File::open(from)?, File::create_new(to)?);
    to.set_permissions(from.metadata()?.permissions())?;
    let (mut piece, mut at) = (vec![0; PIECE], 0);
    loop {
        let n = from.read(&mut piece)?;
        if n == 0 {
            return to.set_len(at);
        }
        if piece[..n] != ZERO[..n] {
            to.write_all_at(&piece[..n], at)?;
        }
        at += n as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_all_files_and_folders() {
        let scratch = Scratch::new().unwrap();
        let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
        fs::create_dir_all(from.join("deep/down")).unwrap();
        let zeros = vec![0; 3 * PIECE];
        let texts = [b"text".to_vec(), Vec::new(), zeros.clone(), [&zeros[..], b"text", &zeros[..]].concat()];
        for (n, text) in texts.iter().enumerate() {
            fs::write(from.join(format!("deep/down/{n}")), text).unwrap();
        }
        duplicate(&from, &to).unwrap();
        for (n, text) in texts.iter().enumerate() {
            assert!(fs::read(to.join(format!("deep/down/{n}"))).unwrap() == *text, "file {n}");
        }
        assert!(duplicate(&from, &to).unwrap_err().starts_with("cannot copy "));
    }
}
