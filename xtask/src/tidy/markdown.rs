//! Links in Markdown files lead somewhere.

use super::{
    Finding,
    tree::{File, Tree},
};

pub(super) fn links(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files.iter().filter(|file| file.path.ends_with(".md"));
    pages.flat_map(|page| broken(page, tree)).collect()
}

fn broken(page: &File, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut fenced = false;
    for (n, line) in page.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let prose = without_code(line);
            let bad = targets(&prose).into_iter().filter(|target| !leads_somewhere(page, target, tree));
            findings.extend(
                bad.map(|target| Finding::new(page, n, format!("the link to `{target}` leads nowhere"))),
            );
        }
    }
    findings
}

/// The line without what stands between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Where the links of a line lead: `[text](target)`, and `[label]: target` at its beginning.
fn targets(line: &str) -> Vec<&str> {
    let inline = line.split("](").skip(1).map(|rest| rest.split(')').next().unwrap_or_default());
    let labelled = line.strip_prefix('[').and_then(|rest| rest.split_once("]:")).map(|(_, target)| target);
    inline
        .chain(labelled)
        .filter_map(|target| target.split_whitespace().next())
        .map(|target| target.trim_matches(['<', '>']))
        .collect()
}

fn leads_somewhere(page: &File, target: &str, tree: &Tree) -> bool {
    let path = target.split('#').next().unwrap_or_default();
    // Other sites are not ours to check, and a bare fragment stays on the page.
    if path.is_empty() || path.starts_with("mailto:") || path.contains("://") {
        return true;
    }
    resolved(&page.path, path).is_some_and(|path| tree.has(&path))
}

/// The path from the root, unless it leaves the repository.
fn resolved(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut tree = Tree::default();
        tree.add("README.md".into(), Vec::new());
        tree.add("docs/engines/file.md".into(), Vec::new());
        tree.add("docs/page.md".into(), text.into());
        links(&tree).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        assert_eq!(found("x\n[a](no.md)\n"), ["docs/page.md:2: the link to `no.md` leads nowhere"]);
        for bad in [
            "[a](../no.md#x)",
            "[a]: no.md",
            "![a](no.png \"title\")",
            "[a](../../README.md)",
            "[a](<no.md>)",
        ] {
            assert_eq!(found(bad).len(), 1, "{bad}");
        }
        assert_eq!(found("[a](no.md) and [b](nor.md)").len(), 2);
    }

    #[test]
    fn a_link_that_leads_somewhere_is_fine() {
        for good in [
            "[a](../README.md)",
            "[a](engines/file.md#keys)",
            "[a](engines/)",
            "[a](..)",
            "[a]: ./engines/file.md",
            "[a](#below)",
            "[a](https://example.org/no.md)",
            "[a](mailto:a@example.org)",
        ] {
            assert_eq!(found(good), [""; 0], "{good}");
        }
    }

    #[test]
    fn code_has_no_links() {
        assert!(found("`[a](no.md)`\n\n```\n[a](no.md)\n```\n").is_empty());
        assert_eq!(found("```\nx\n```\n[a](no.md)\n").len(), 1);
    }
}
