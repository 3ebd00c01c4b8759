//! The repository's files.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

/// A text file and its path from the root, with forward slashes.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
}

impl File {
    #[cfg(test)]
    pub(super) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    /// The lines with their numbers, from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// The part of the path behind the last slash.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(super) fn is_lock_file(&self) -> bool {
        self.name() == "Cargo.lock"
    }
}

/// All files that belong to the repository or would with the next commit.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// The text files among them.
    pub(super) files: Vec<File>,
    /// The paths of all.
    pub(super) paths: BTreeSet<String>,
}

impl Tree {
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        // An unpacked archive has no git to ask, nor may a checkout that belongs to another user.
        let listed = match listed_by_git(root) {
            Some(paths) => paths,
            None => walked(root)?,
        };
        let mut tree = Self::default();
        for path in listed {
            // Git also lists what has been deleted since the last commit.
            let Ok(bytes) = fs::read(root.join(&path)) else { continue };
            tree.add(path, bytes);
        }
        Ok(tree)
    }

    pub(super) fn add(&mut self, path: String, bytes: Vec<u8>) {
        self.paths.insert(path.clone());
        if let Ok(text) = String::from_utf8(bytes)
            && !text.contains('\0')
        {
            self.files.push(File { path, text });
        }
    }

    /// Whether there is such a file or folder; the root is the empty path.
    pub(super) fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty() || self.paths.contains(path) || self.paths.iter().any(|p| p.starts_with(&folder))
    }
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let listing = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    if !listing.status.success() {
        return None;
    }
    let paths: BTreeSet<_> =
        String::from_utf8_lossy(&listing.stdout).split_terminator('\0').map(String::from).collect();
    (!paths.is_empty()).then(|| paths.into_iter().collect())
}

fn walked(root: &Path) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let failed = |why| format!("cannot list {}: {why}", root.join(&folder).display());
        for entry in fs::read_dir(root.join(&folder)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if entry.file_type().map_err(failed)?.is_dir() {
                if !matches!(name.as_str(), ".git" | "target") {
                    folders.push(path);
                }
            } else {
                paths.push(path);
            }
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_and_a_walk_find_this_file() {
        let root = crate::cargo::root();
        let this = "xtask/src/tidy/tree.rs".to_owned();
        let walked = walked(&root).unwrap();
        assert!(walked.contains(&this));
        assert!(!walked.iter().any(|path| path.starts_with("target/") || path.starts_with(".git/")));
        assert!(Tree::read(&root).unwrap().paths.contains(&this));
    }

    #[test]
    fn what_is_not_text_is_known_by_path_only() {
        let mut tree = Tree::default();
        tree.add("a/b.png".into(), vec![0, 255]);
        tree.add("a/c.md".into(), b"text\n".to_vec());
        assert_eq!(tree.files.len(), 1);
        assert!(tree.has("a/b.png") && tree.has("a/c.md") && tree.has("a"));
        assert!(!tree.has("b") && !tree.has("a/b"));
    }
}
