//! The packages that a change can reach: those it touches, and all that depend on them.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::cargo::{cargo, root};

/// Files that every package depends on.
const EVERYTHING: [&str; 3] = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"];

/// The package that checks files which belong to no other.
const TIDY: &str = "xtask";

/// A package of the workspace.
#[derive(Debug, Clone)]
struct Package {
    name: String,
    /// Below the root.
    dir: String,
    /// Those of the workspace that it depends on, also for its tests.
    needs: Vec<String>,
    /// What its sources say.
    sources: String,
}

/// The packages that what has changed since the last commit can reach, by name. `None` if that is all of them.
pub(crate) fn packages() -> Result<Option<Vec<String>>, String> {
    let (changed, packages) = (changed()?, workspace()?);
    Ok(reached(&changed, &packages).map(|names| names.into_iter().collect()))
}

fn changed() -> Result<Vec<String>, String> {
    let git = |args: &[&str]| {
        let said = Command::new("git").args(args).current_dir(root()).output();
        let said = said.map_err(|why| format!("git could not be started: {why}"))?;
        if !said.status.success() {
            return Err(format!("git {}: {}", args.join(" "), String::from_utf8_lossy(&said.stderr).trim()));
        }
        Ok(String::from_utf8_lossy(&said.stdout).lines().map(str::to_owned).collect::<Vec<_>>())
    };
    let mut files = git(&["diff", "--name-only", "HEAD"])?;
    files.extend(git(&["ls-files", "--others", "--exclude-standard"])?);
    Ok(files)
}

fn workspace() -> Result<Vec<Package>, String> {
    let said = cargo(["metadata", "--format-version", "1", "--no-deps", "--offline"]).output();
    let said = said.map_err(|why| format!("cargo could not be started: {why}"))?;
    if !said.status.success() {
        return Err(String::from_utf8_lossy(&said.stderr).trim().to_owned());
    }
    let metadata: Value =
        serde_json::from_slice(&said.stdout).map_err(|why| format!("cargo metadata: {why}"))?;
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    Ok(packages.iter().filter_map(|package| read(package, &root())).collect())
}

fn read(package: &Value, root: &Path) -> Option<Package> {
    let dir = Path::new(package["manifest_path"].as_str()?).parent()?.to_owned();
    let needs = package["dependencies"].as_array()?.iter();
    Some(Package {
        name: package["name"].as_str()?.to_owned(),
        needs: needs.filter_map(|need| Some(need["name"].as_str()?.to_owned())).collect(),
        sources: sources(&dir),
        dir: dir.strip_prefix(root).ok()?.to_str()?.to_owned(),
    })
}

/// All Rust below a directory, one after the other.
fn sources(dir: &Path) -> String {
    let mut text = String::new();
    let mut left: Vec<PathBuf> = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        if let Ok(entries) = fs::read_dir(&path) {
            left.extend(entries.flatten().map(|entry| entry.path()));
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap_or_default());
        }
    }
    text
}

fn reached(changed: &[String], packages: &[Package]) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for file in changed {
        if EVERYTHING.contains(&&**file) || file.starts_with(".cargo/") {
            return None;
        }
        // The innermost, for one package may be below another.
        let owner = packages
            .iter()
            .filter(|package| file.strip_prefix(&*package.dir).is_some_and(|rest| rest.starts_with('/')))
            .max_by_key(|package| package.dir.len());
        names.insert(owner.map_or(TIDY, |package| &package.name).to_owned());
        // Tests read pages, scripts and examples of others.
        let readers = packages.iter().filter(|package| package.sources.contains(&**file));
        names.extend(readers.map(|package| package.name.clone()));
    }
    loop {
        let more: Vec<String> = packages
            .iter()
            .filter(|package| !names.contains(&package.name))
            .filter(|package| package.needs.iter().any(|need| names.contains(need)))
            .map(|package| package.name.clone())
            .collect();
        if more.is_empty() {
            return Some(names);
        }
        names.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages() -> Vec<Package> {
        let package = |name: &str, dir: &str, needs: &[&str], sources: &str| Package {
            name: name.to_owned(),
            dir: dir.to_owned(),
            needs: needs.iter().map(|need| (*need).to_owned()).collect(),
            sources: sources.to_owned(),
        };
        vec![
            package("core", "crates/core", &[], ""),
            package(
                "redis",
                "crates/engines/redis",
                &["core"],
                "include_str!(\"../../../docs/engines/redis.md\")",
            ),
            package("cli", "crates/cli", &["redis"], ""),
            package("bench", "crates/bench", &[], ""),
            package("xtask", "xtask", &[], ""),
        ]
    }

    fn of(changed: &[&str]) -> Option<Vec<String>> {
        let changed: Vec<String> = changed.iter().map(|file| (*file).to_owned()).collect();
        reached(&changed, &packages()).map(|names| names.into_iter().collect())
    }

    #[test]
    fn a_change_reaches_those_who_depend_on_it_and_nobody_else() {
        assert_eq!(of(&["crates/engines/redis/src/lib.rs"]).unwrap_or_default(), ["cli", "redis"]);
        assert_eq!(of(&["crates/core/src/lib.rs"]).unwrap_or_default(), ["cli", "core", "redis"]);
        assert_eq!(of(&["crates/bench/src/main.rs"]).unwrap_or_default(), ["bench"]);
        assert_eq!(of(&[]).unwrap_or_default(), [""; 0]);
    }

    #[test]
    fn a_page_reaches_those_whose_sources_name_it_and_tidy() {
        assert_eq!(of(&["docs/engines/redis.md"]).unwrap_or_default(), ["cli", "redis", "xtask"]);
        assert_eq!(of(&["README.md"]).unwrap_or_default(), ["xtask"]);
    }

    #[test]
    fn the_manifest_of_the_workspace_reaches_everything() {
        assert_eq!(of(&["Cargo.lock"]), None);
    }

    #[test]
    fn the_workspace_is_read() {
        let known = workspace().expect("cargo metadata");
        let cli =
            known.iter().find(|package| package.name == "bramah-cli").expect("the command is a package");
        assert_eq!(cli.dir, "crates/cli");
        assert!(cli.needs.iter().any(|need| need == "bramah"), "{:?}", cli.needs);
    }
}
