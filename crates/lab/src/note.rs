//! What tests could run and what not, for the summary of `cargo xtask test`.

use std::{env, fs::OpenOptions, io::Write, path::PathBuf};

use crate::target;

/// The variable that names the file to which notes are appended. Without it they go to standard error.
pub const FILE: &str = "BRAMAH_INTEROP";

/// The kind of a note about a server.
pub const SERVER: &str = "server";

/// The kind of a note about a client of other people.
pub const PEER: &str = "peer";

/// One note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// [`SERVER`] or [`PEER`].
    pub kind: String,
    /// Which one.
    pub name: String,
    /// Why it was not run; nothing when it was.
    pub missing: Option<String>,
}

impl Note {
    fn line(&self) -> String {
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        match &self.missing {
            None => format!("{}\tran\t{}\n", self.kind, flat(&self.name)),
            Some(why) => format!("{}\tmissing\t{}\t{}\n", self.kind, flat(&self.name), flat(why)),
        }
    }

    fn read(line: &str) -> Option<Self> {
        let mut parts = line.split('\t').map(String::from);
        let (kind, word, name) = (parts.next()?, parts.next()?, parts.next()?);
        let missing = match word.as_str() {
            "ran" => None,
            "missing" => Some(parts.next()?),
            _ => return None,
        };
        Some(Self { kind, name, missing })
    }
}

/// Where `cargo xtask test` keeps the notes of a run.
#[must_use]
pub fn usual_file() -> PathBuf {
    target::directory().join("interop.notes")
}

/// The notes in the text of the file, each once.
#[must_use]
pub fn read(text: &str) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    for note in text.lines().filter_map(Note::read) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

pub(crate) fn ran(kind: &str, name: &str) {
    append(&Note { kind: kind.into(), name: name.into(), missing: None });
}

/// Notes it; in CI, where everything must be run, it fails the test.
pub(crate) fn missing(kind: &str, name: &str, why: &str) {
    append(&Note { kind: kind.into(), name: name.into(), missing: Some(why.into()) });
    let ci = env::var_os("CI").is_some_and(|ci| ci == "true");
    assert!(!ci, "{name} was not run, and with CI=true everything must be: {why}");
}

fn append(note: &Note) {
    let line = note.line();
    let written = env::var_os(FILE).is_some_and(|path| {
        // One write, so that the lines of several processes do not mix.
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).is_ok()
    });
    if !written {
        eprint!("{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_read_again_and_counts_once() {
        let ran = Note { kind: PEER.into(), name: "redis-py 6.4.0".into(), missing: None };
        let not =
            Note { kind: SERVER.into(), name: "redis8".into(), missing: Some("no\nnetwork\there".into()) };
        let text = format!("{}{}{}torn li", ran.line(), not.line(), ran.line());
        let flat = Note { missing: Some("no network here".into()), ..not };
        assert_eq!(read(&text), [ran, flat]);
    }
}
