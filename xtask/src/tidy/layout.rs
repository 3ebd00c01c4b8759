//! Rules about which files there are.

use super::{
    Finding,
    tree::{File, Tree},
};

/// Past this it is two rooms.
const LINES: usize = 500;

/// Names that do not say what is inside, for files and folders.
const VAGUE: [&str; 8] = ["util", "utils", "helper", "helpers", "common", "manager", "managers", "misc"];

const REQUIRED: [&str; 8] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "docs/stability.md",
];

pub(super) fn long_files(file: &File) -> Vec<Finding> {
    let lines = file.lines().count();
    if !file.is_rust() || lines <= LINES {
        return Vec::new();
    }
    vec![Finding::new(file, LINES + 1, format!("{lines} lines, {LINES} at most: it is two rooms"))]
}

pub(super) fn vague_names(file: &File) -> Vec<Finding> {
    let stem = |part: &str| part.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let vague = file.path.split('/').find(|part| VAGUE.contains(&stem(part).as_str()));
    vague
        .map(|part| Finding::new(file, 1, format!("`{part}` does not say what is inside")))
        .into_iter()
        .collect()
}

pub(super) fn required_files(tree: &Tree) -> Vec<Finding> {
    let missing = REQUIRED.into_iter().filter(|path| !tree.paths.contains(*path));
    missing.map(|path| Finding { path: path.into(), line: 1, what: "is missing".into() }).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::tests::over, *};

    #[test]
    fn a_file_of_more_than_500_lines_is_found() {
        assert!(over(long_files, "a.rs", &"x\n".repeat(LINES)).is_empty());
        assert_eq!(
            over(long_files, "a.rs", &"x\n".repeat(LINES + 1)),
            ["a.rs:501: 501 lines, 500 at most: it is two rooms"]
        );
        assert!(over(long_files, "a.md", &"x\n".repeat(LINES + 1)).is_empty());
    }

    #[test]
    fn a_name_that_says_nothing_is_found() {
        for path in ["src/utils.rs", "src/Helpers.rs", "tests/common/mod.rs", "manager.lua", "docs/misc.md"] {
            assert_eq!(over(vague_names, path, "").len(), 1, "{path}");
        }
        for path in ["src/commons_of_a_kind.rs", "src/line.rs", "docs/common-questions.md"] {
            assert!(over(vague_names, path, "").is_empty(), "{path}");
        }
    }

    #[test]
    fn a_missing_file_is_found() {
        let mut tree = Tree::default();
        assert_eq!(required_files(&tree).len(), REQUIRED.len());
        for path in REQUIRED {
            tree.add(path.into(), Vec::new());
        }
        assert!(required_files(&tree).is_empty());
        tree.paths.remove("SECURITY.md");
        assert_eq!(required_files(&tree)[0].to_string(), "SECURITY.md:1: is missing");
    }
}
