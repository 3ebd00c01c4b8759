//! Rules about Cargo manifests.

use std::collections::BTreeSet;

use super::{
    Finding,
    tree::{File, Tree},
};
use crate::manifest::Manifest;

/// What a registry, or a reader there, wants to know of a crate.
const PUBLISHED: [&str; 5] = ["description", "license", "repository", "keywords", "rust-version"];

pub(super) fn complete(file: &File) -> Vec<Finding> {
    let manifest = Manifest::read(&file.text);
    if file.name() != "Cargo.toml" || !manifest.is_package() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if manifest.is_published() {
        let missing = PUBLISHED.into_iter().filter(|key| !manifest.has(&format!("package.{key}")));
        findings.extend(missing.map(|key| Finding::new(file, 1, format!("a published crate needs `{key}`"))));
    }
    if manifest.value("lints.workspace") != Some("true") {
        findings.push(Finding::new(file, 1, "the workspace's lints are not on: `[lints] workspace = true`"));
    }
    findings
}

/// Packages that lie in the tree and not in the workspace: `--workspace` would never test them.
pub(super) fn outsiders(tree: &Tree, members: &BTreeSet<String>) -> Vec<Finding> {
    let manifests = tree.files.iter().filter(|file| file.name() == "Cargo.toml");
    manifests
        .filter(|file| Manifest::read(&file.text).is_package() && !members.contains(&file.path))
        .map(|file| Finding::new(file, 1, "not a member of the workspace: nothing builds or tests it"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{super::tests::over, *};
    use crate::manifest::manifest_paths;

    const GOOD: &str = "\
[package]
name = \"a\"
description = \"x\"
license.workspace = true
repository.workspace = true
keywords.workspace = true
rust-version.workspace = true

[lints]
workspace = true
";

    #[test]
    fn each_missing_key_is_found() {
        assert!(over(complete, "crates/a/Cargo.toml", GOOD).is_empty());
        for key in PUBLISHED {
            let bad: String =
                GOOD.lines().filter(|line| !line.starts_with(key)).map(|line| format!("{line}\n")).collect();
            let found = over(complete, "crates/a/Cargo.toml", &bad);
            assert_eq!(found, [format!("crates/a/Cargo.toml:1: a published crate needs `{key}`")]);
        }
    }

    #[test]
    fn lints_that_are_off_are_found_even_in_a_crate_that_is_not_published() {
        let private = "[package]\nname = \"a\"\npublish = false\n";
        assert_eq!(over(complete, "Cargo.toml", private).len(), 1);
        assert!(over(complete, "Cargo.toml", &format!("{private}[lints]\nworkspace = true\n")).is_empty());
        // The same words in another table, or in a comment, do not count.
        assert_eq!(over(complete, "Cargo.toml", &format!("{private}[x]\nworkspace = true\n")).len(), 1);
        assert_eq!(over(complete, "Cargo.toml", &format!("{private}[lints]\n#workspace = true\n")).len(), 1);
    }

    #[test]
    fn a_workspace_without_a_package_needs_nothing() {
        assert!(over(complete, "Cargo.toml", "[workspace]\nmembers = []\n").is_empty());
    }

    #[test]
    fn a_package_outside_of_the_workspace_is_found() {
        let mut tree = Tree::default();
        tree.add("Cargo.toml".into(), b"[workspace]\n".to_vec());
        tree.add("a/Cargo.toml".into(), GOOD.into());
        tree.add("b/Cargo.toml".into(), GOOD.into());
        let metadata = "{\"packages\":[{\"manifest_path\":\"/x y/a/Cargo.toml\",\"metadata\":null}]}";
        let found = outsiders(&tree, &manifest_paths(metadata, "/x y/"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "b/Cargo.toml");
    }
}
