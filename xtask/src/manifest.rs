//! Cargo manifests, as far as the tasks need to read them.

use std::{collections::BTreeSet, fs, path::Path};

use crate::cargo::cargo;

/// A manifest's keys, each as its table and name: `package.description`. An inherited key counts by its name, so
/// `license.workspace = true` is `package.license.workspace` here. Enough of TOML for manifests as we write them.
pub(crate) struct Manifest<'a> {
    keys: Vec<(String, &'a str)>,
}

impl<'a> Manifest<'a> {
    pub(crate) fn read(text: &'a str) -> Self {
        let mut table = String::new();
        let mut keys = Vec::new();
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                table = name.trim_matches(['[', ']']).trim().to_owned();
                keys.push((table.clone(), ""));
            } else if let Some((key, value)) = line.split_once('=')
                && !line.starts_with('#')
            {
                keys.push((format!("{table}.{}", key.trim()), value.trim()));
            }
        }
        Self { keys }
    }

    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.keys.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        let inherited = format!("{key}.workspace");
        self.keys.iter().any(|(name, _)| name == key || *name == inherited)
    }

    /// Whether it is a crate's, and not only a workspace's.
    pub(crate) fn is_package(&self) -> bool {
        self.has("package")
    }

    /// Whether the crate is meant for a registry.
    pub(crate) fn is_published(&self) -> bool {
        self.is_package() && self.value("package.publish") != Some("false")
    }
}

/// The names of the workspace's crates that are meant for a registry.
pub(crate) fn published(root: &Path) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for path in members(root)? {
        let text =
            fs::read_to_string(root.join(&path)).map_err(|why| format!("cannot read {path}: {why}"))?;
        let manifest = Manifest::read(&text);
        if manifest.is_published() {
            let name = manifest.value("package.name").ok_or_else(|| format!("{path} names no package"))?;
            names.push(name.trim_matches('"').to_owned());
        }
    }
    Ok(names)
}

/// The manifests of the workspace's members, as paths from the root.
pub(crate) fn members(root: &Path) -> Result<BTreeSet<String>, String> {
    let listing = cargo(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|why| format!("cargo metadata could not be started: {why}"))?;
    if !listing.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&listing.stderr).trim()));
    }
    Ok(manifest_paths(&String::from_utf8_lossy(&listing.stdout), &format!("{}/", root.display())))
}

pub(crate) fn manifest_paths(metadata: &str, root: &str) -> BTreeSet<String> {
    let paths = metadata.split("\"manifest_path\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    paths.map(|path| path.strip_prefix(root).unwrap_or(path).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_their_table_only() {
        let text =
            "[package]\nname = \"a\"\nlicense.workspace = true\n# readme = \"b\"\n\n[lib]\ntest = false\n";
        let manifest = Manifest::read(text);
        assert_eq!(manifest.value("package.name"), Some("\"a\""));
        assert!(manifest.has("package.license") && manifest.has("lib.test"));
        assert!(!manifest.has("package.readme") && !manifest.has("package.test"));
    }

    #[test]
    fn a_private_crate_and_a_workspace_are_not_published() {
        assert!(Manifest::read("[package]\nname = \"a\"\n").is_published());
        assert!(!Manifest::read("[package]\nname = \"a\"\npublish = false\n").is_published());
        assert!(!Manifest::read("[workspace]\nmembers = []\n").is_published());
    }

    #[test]
    fn this_crate_is_a_member_and_not_published() {
        let root = crate::cargo::root();
        assert!(members(&root).unwrap().contains("xtask/Cargo.toml"));
        let published = published(&root).unwrap();
        assert!(published.contains(&"bramah-core".to_owned()), "{published:?}");
        assert!(!published.contains(&"xtask".to_owned()), "{published:?}");
    }
}
