//! Rules about docs/decisions.

use super::{Finding, tree::File};

const HEADINGS: [&str; 4] = ["Context", "Decision", "Consequences", "What would change our mind"];

pub(super) fn headings(file: &File) -> Vec<Finding> {
    let Some(name) = file.path.strip_prefix("docs/decisions/") else { return Vec::new() };
    let numbered = name.split_once('-').is_some_and(|(number, rest)| {
        number.len() == 4 && number.bytes().all(|b| b.is_ascii_digit()) && rest.ends_with(".md")
    });
    if !numbered {
        return vec![Finding::new(file, 1, "a decision is named NNNN-what-it-is-about.md")];
    }
    let there = |heading: &str| file.text.lines().any(|line| line.strip_prefix("## ") == Some(heading));
    let missing = HEADINGS.into_iter().filter(|heading| !there(heading));
    missing.map(|heading| Finding::new(file, 1, format!("the heading \"## {heading}\" is missing"))).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::tests::over, *};

    #[test]
    fn each_missing_heading_is_found() {
        let good: Vec<_> = HEADINGS.iter().map(|heading| format!("## {heading}\n\nx\n")).collect();
        assert!(over(headings, "docs/decisions/0001-a.md", &good.concat()).is_empty());
        for (n, heading) in HEADINGS.iter().enumerate() {
            let mut bad = good.clone();
            bad.remove(n);
            let found = over(headings, "docs/decisions/0001-a.md", &bad.concat());
            assert_eq!(
                found,
                [format!("docs/decisions/0001-a.md:1: the heading \"## {heading}\" is missing")]
            );
        }
    }

    #[test]
    fn a_decision_without_a_number_is_found() {
        for name in ["a.md", "01-a.md", "000x-a.md", "0001-a.txt"] {
            assert_eq!(over(headings, &format!("docs/decisions/{name}"), "").len(), 1, "{name}");
        }
        assert!(over(headings, "docs/guide.md", "").is_empty());
    }
}
