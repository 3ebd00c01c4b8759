//! A program and how it is started.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

/// A program that can be run on this machine, whatever C library the machine has.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    words: Vec<OsString>,
}

impl Program {
    pub(super) fn installed(path: PathBuf) -> Self {
        Self { words: vec![path.clone().into()], path }
    }

    /// A program out of packages, with the loader and the libraries out of the same.
    pub(super) fn unpacked(home: &Path, name: &str) -> Result<Self, String> {
        let path = home.join("usr/bin").join(name);
        if !path.is_file() {
            return Err(format!("no {}; remove {} to get it anew", path.display(), home.display()));
        }
        let folders = libraries(home);
        let loader = folders
            .iter()
            .find_map(|folder| loader(folder))
            .ok_or_else(|| format!("no loader in {0}; remove {0} to get it anew", home.display()))?;
        let joined = std::env::join_paths(&folders)
            .map_err(|why| format!("{} cannot be a path of libraries: {why}", home.display()))?;
        // The programs of Redis are one file that decides by its name what it is.
        let words = vec![
            loader.into(),
            "--library-path".into(),
            joined,
            "--argv0".into(),
            name.into(),
            path.clone().into(),
        ];
        Ok(Self { path, words })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The command that starts it, to which its arguments are added.
    #[must_use]
    pub fn words(&self) -> &[OsString] {
        &self.words
    }
}

/// The folders like `usr/lib/x86_64-linux-gnu`. Debian moved them from `/lib` to `/usr/lib` over time.
fn libraries(home: &Path) -> Vec<PathBuf> {
    let inside = ["lib", "usr/lib"].into_iter().filter_map(|folder| fs::read_dir(home.join(folder)).ok());
    let folders = inside.flatten().filter_map(|entry| Some(entry.ok()?.path()));
    folders.filter(|path| path.to_string_lossy().contains("-linux-gnu")).collect()
}

fn loader(folder: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    entries.find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("ld-linux") && path.is_file()
    })
}
