//! Where cargo builds, and where what was fetched is kept.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
};

/// The directory of cargo's builds: `CARGO_TARGET_DIR`, or `target` of the workspace.
pub(crate) fn directory() -> PathBuf {
    let root = root();
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |set| root.join(set))
}

/// The workspace: the nearest folder with a lock file, seen from the package that runs.
fn root() -> PathBuf {
    // Asked at run time first: a build directory may outlive the checkout it was made from.
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let package = PathBuf::from(package);
    let root = package.ancestors().find(|folder| folder.join("Cargo.lock").is_file());
    root.unwrap_or(&package).to_path_buf()
}

/// Waits until no other process makes the same thing. The lock ends with the file that is returned.
pub(crate) fn lock(path: &Path) -> Result<File, String> {
    let locked = || {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        let file = File::create(path)?;
        file.lock()?;
        Ok(file)
    };
    locked().map_err(|why: std::io::Error| format!("cannot lock {}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_locked_is_nobody_elses_until_the_lock_ends() {
        let scratch = crate::scratch::Scratch::new().unwrap();
        let path = scratch.path().join("deep/down/lock");
        let ours = lock(&path).unwrap();
        let theirs = File::open(&path).unwrap();
        assert!(theirs.try_lock().is_err());
        drop(ours);
        assert!(theirs.try_lock().is_ok());
    }

    #[test]
    fn the_workspace_is_found_from_a_package_in_it() {
        assert!(root().join("crates/lab/Cargo.toml").is_file(), "{}", root().display());
    }
}
