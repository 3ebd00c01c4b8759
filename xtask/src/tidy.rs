//! A test that reads the repository: what the style guide can check by machine.

mod decisions;
mod layout;
mod manifest;
mod markdown;
mod text;
mod tree;

use std::{
    fmt::{self, Display},
    path::Path,
};

use crate::{Verdict, cargo::root, manifest::members};
use tree::{File, Tree};

/// Something that is not as it should be.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    fn new(file: &File, line: usize, what: impl Into<String>) -> Self {
        Self { path: file.path.clone(), line, what: what.into() }
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Rules that need to see one file only.
const FILE_RULES: &[fn(&File) -> Vec<Finding>] = &[
    text::left_overs,
    text::machine_paths,
    text::registry_hosts,
    text::unsafe_code,
    text::white_space,
    layout::long_files,
    layout::vague_names,
    manifest::complete,
    decisions::headings,
];

/// Rules that need to see all of them.
const TREE_RULES: &[fn(&Tree) -> Vec<Finding>] = &[layout::required_files, markdown::links];

fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let tree = Tree::read(root)?;
    let mut findings: Vec<_> =
        tree.files.iter().flat_map(|file| FILE_RULES.iter().flat_map(move |rule| rule(file))).collect();
    findings.extend(TREE_RULES.iter().flat_map(|rule| rule(&tree)));
    findings.extend(manifest::outsiders(&tree, &members(root)?));
    findings.sort();
    Ok(findings)
}

pub(crate) fn run() -> Result<Verdict, String> {
    let findings = check(&root())?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("{} finding{}", findings.len(), if findings.len() == 1 { "" } else { "s" });
    Ok(if findings.is_empty() { Verdict::Passed } else { Verdict::Failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings of a rule over one file, as they are printed.
    pub(super) fn over(rule: fn(&File) -> Vec<Finding>, path: &str, text: &str) -> Vec<String> {
        rule(&File::new(path, text)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn the_repository_is_tidy() {
        let findings = check(&root()).unwrap();
        let lines: Vec<_> = findings.iter().map(Finding::to_string).collect();
        assert!(lines.is_empty(), "{} findings:\n{}", lines.len(), lines.join("\n"));
    }

    #[test]
    fn a_finding_starts_with_where_it_is() {
        let finding = Finding::new(&File::new("a/b.rs", ""), 7, "what");
        assert_eq!(finding.to_string(), "a/b.rs:7: what");
    }
}
