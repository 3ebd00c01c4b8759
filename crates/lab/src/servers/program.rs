//! A program and how it is started.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt,
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
    pub(super) fn unpacked(home: &Path, path: PathBuf, name: &str) -> Result<Self, String> {
        let (loader, folders) = loader_of(home)?;
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

/// The first of the folders that has a file of that name.
pub(super) fn file_in(folders: &[PathBuf], name: &str) -> Option<PathBuf> {
    folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Puts a script in the place of a program out of packages, which starts it with the loader and the libraries out of the
/// same: for programs that are started by others. The packages may be moved afterwards.
pub(super) fn wrap(home: &Path, path: &Path) -> Result<(), String> {
    let failed = |why: std::io::Error| format!("cannot wrap {}: {why}", path.display());
    if !fs::read(path).map_err(failed)?.starts_with(b"\x7fELF") {
        return Ok(());
    }
    let (loader, folders) = loader_of(home)?;
    let inside = path.strip_prefix(home).map_or(0, |inside| inside.components().count());
    let up = "../".repeat(inside.saturating_sub(1));
    let from_here = |file: &Path| format!("$here/{up}{}", file.strip_prefix(home).unwrap_or(file).display());
    let libraries: Vec<String> = folders.iter().map(|folder| from_here(folder)).collect();
    let script = format!(
        "#!/bin/sh\nhere=${{0%/*}}\nexec \"{}\" --library-path \"{}\" --argv0 \"$0\" \"$0.elf\" \"$@\"\n",
        from_here(&loader),
        libraries.join(":")
    );
    let mut moved = path.as_os_str().to_owned();
    moved.push(".elf");
    fs::rename(path, moved)
        .and_then(|()| fs::write(path, script))
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)))
        .map_err(failed)
}

/// Puts a script among programs out of packages.
pub(super) fn place(home: &Path, name: &str, script: &str) -> Result<(), String> {
    let path = home.join("usr/bin").join(name);
    fs::create_dir_all(home.join("usr/bin"))
        .and_then(|()| fs::write(&path, script))
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
        .map_err(|why| format!("cannot write {}: {why}", path.display()))
}

/// The loader and the folders of libraries.
fn loader_of(home: &Path) -> Result<(PathBuf, Vec<PathBuf>), String> {
    let folders = libraries(home);
    let loader = folders.iter().find_map(|folder| loader(folder));
    let loader =
        loader.ok_or_else(|| format!("no loader in {0}; remove {0} to get it anew", home.display()))?;
    Ok((loader, folders))
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
