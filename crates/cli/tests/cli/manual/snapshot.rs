//! Texts that are kept beside the tests, so that a change of them is seen.

use std::{fs, path::PathBuf};

/// Whether a text is as it was kept; else what is different, and how to accept it.
#[must_use]
pub(super) struct Kept(Vec<String>);

impl Kept {
    pub(super) fn all(texts: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(texts.into_iter().filter_map(|(name, text)| differs(&name, &text)).collect())
    }

    #[track_caller]
    pub(super) fn or_fail(self) {
        let how = "if that is meant, accept it: BRAMAH_ACCEPT=1 cargo test -p bramah-cli --test cli manual";
        assert!(self.0.is_empty(), "\n{}\n{how}\n", self.0.join("\n"));
    }
}

fn differs(name: &str, text: &str) -> Option<String> {
    let path = folder().join(name);
    // The version of the day is no change.
    let text = text.replace(concat!("bramah ", env!("CARGO_PKG_VERSION")), "bramah VERSION");
    let kept = fs::read_to_string(&path).unwrap_or_default();
    if kept == text {
        return None;
    }
    if std::env::var_os("BRAMAH_ACCEPT").is_some() {
        fs::create_dir_all(folder()).unwrap();
        fs::write(&path, text).unwrap();
        return None;
    }
    Some(format!("tests/snapshots/{name}:\n{}", diff(&kept, &text)))
}

/// The names of what is kept and starts so.
pub(super) fn names(start: &str) -> Vec<String> {
    let all = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = all.filter(|name| name.starts_with(start)).collect();
    names.sort();
    names
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots")
}

/// The lines from the first that is different to the last, with one before them.
fn diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let tails = old[head..].iter().rev().zip(new[head..].iter().rev());
    let tail = tails.take_while(|(old, new)| old == new).count();
    let part =
        |mark: &str, lines: &[&str]| lines.iter().map(|line| format!("{mark} {line}\n")).collect::<String>();
    let before = part(" ", &old[head.saturating_sub(1)..head]);
    let (gone, come) = (part("-", &old[head..old.len() - tail]), part("+", &new[head..new.len() - tail]));
    format!("  line {}\n{before}{gone}{come}", head + 1)
}

#[test]
fn a_difference_is_shown_by_its_lines() {
    assert_eq!(diff("a\nb\nc\nd\n", "a\nb\nx\ny\nd\n"), "  line 3\n  b\n- c\n+ x\n+ y\n");
    assert_eq!(diff("", "a\n"), "  line 1\n+ a\n");
    assert_eq!(diff("a\na\n", "a\n"), "  line 2\n  a\n- a\n");
}
