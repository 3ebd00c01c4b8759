//! Where things lie in the directory.

use std::{
    fs::{self, DirBuilder},
    os::unix::fs::{DirBuilderExt, FileExt},
    path::{Path, PathBuf},
};

use bramah_core::{Error, ErrorKind, Name, Result, SessionId};
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::{
    error::{corrupt, io_error, newer},
    guard,
};

/// The version of the directory's layout.
const FORMAT: u32 = 1;
const FORMAT_WORD: &str = "bramah-file ";

/// The longest file name for a ledger; file systems take 255 bytes.
const MAX_FILE_NAME: usize = 240;
/// How much of a long name stays readable.
const PREFIX: usize = 200;

/// The paths of one directory of locks.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) locks: PathBuf,
    pub(crate) sessions: PathBuf,
}

impl Layout {
    /// Checks that the directory may be used, by this user and by this version. With `make`, what is absent of it is
    /// made; without, nothing is.
    pub(crate) fn open(dir: &Path, make: bool) -> Result<Self> {
        // Without a slash at its end: with one, a look at a link would be a look at what it leads to.
        let dir = &dir.components().collect::<PathBuf>();
        guard::check_link(dir)?;
        if !is_there(dir)? {
            if !make {
                let why = "there is no such directory; see whether the path is right";
                return Err(unfit("read", dir, why));
            }
            make_dir(dir)?;
        }
        // Made absolute once: a process that changes its directory must not change its locks.
        let root = fs::canonicalize(dir).map_err(|error| io_error("open", dir, error))?;
        // Once more: another user may have put a link there meanwhile.
        guard::check_link(dir)?;
        check_use(&root)?;
        guard::check_dir(&root)?;
        check_format(&root.join("format"), make)?;
        let layout = Self { locks: root.join("locks"), sessions: root.join("sessions") };
        for dir in [&layout.locks, &layout.sessions] {
            if make {
                make_dir(dir)?;
            }
            guard::check_dir(dir)?;
        }
        Ok(layout)
    }

    /// The ledger of a lock.
    pub(crate) fn ledger(&self, name: &Name) -> PathBuf {
        self.locks.join(file_name(name))
    }

    /// The file whose flock tells whether a session lives.
    pub(crate) fn session(&self, id: SessionId, incarnation: u64) -> PathBuf {
        self.sessions.join(format!("{id}.{incarnation:016x}"))
    }

    /// The claims of a session that somebody asks for.
    pub(crate) fn asked(&self, id: SessionId, incarnation: u64) -> PathBuf {
        self.sessions.join(format!("{id}.{incarnation:016x}.asked"))
    }

    /// The session's mailbox.
    pub(crate) fn mail(&self, id: SessionId, incarnation: u64) -> PathBuf {
        self.sessions.join(format!("{id}.{incarnation:016x}.mail"))
    }
}

/// What a file in `sessions/` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The session itself.
    Life,
    /// What goes with it: its mailbox, or its wishes.
    Beside,
}

/// Which session a file in `sessions/` belongs to, and what it is.
pub(crate) fn parse_session_file(name: &str) -> Option<(SessionId, u64, Part)> {
    let beside = name.strip_suffix(".mail").or_else(|| name.strip_suffix(".asked"));
    let (stem, part) = beside.map_or((name, Part::Life), |stem| (stem, Part::Beside));
    let (id, incarnation) = stem.split_once('.')?;
    let digits = incarnation.len() == 16 && incarnation.bytes().all(|byte| byte.is_ascii_hexdigit());
    let incarnation = u64::from_str_radix(incarnation, 16).ok().filter(|_| digits)?;
    Some((id.parse().ok()?, incarnation, part))
}

/// The file name of a lock: percent-encoded, so that it is injective and never `.` or `..`; what would be too long
/// becomes a prefix, a tilde (which encoding never leaves) and a hash, and the ledger itself tells the full name.
pub(crate) fn file_name(name: &Name) -> String {
    let bytes = name.as_str().as_bytes();
    let mut out = String::with_capacity(bytes.len() + 8);
    for (at, &byte) in bytes.iter().enumerate() {
        let inner = at > 0 && at + 1 < bytes.len();
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => out.push(char::from(byte)),
            b'.' if inner => out.push('.'),
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                out.push('%');
                out.push(char::from(DIGITS[usize::from(byte >> 4)]));
                out.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
        }
    }
    if out.len() > MAX_FILE_NAME {
        out.truncate(PREFIX);
        out.push_str(&format!("~{:032x}", hash128(bytes)));
    }
    out
}

/// Whether a file in `locks/` can be a ledger; editors and network file systems leave others.
pub(crate) fn is_ledger_file(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'%' | b'~' | b'.');
    !name.starts_with('.') && name.bytes().all(plain)
}

/// FNV-1a of 128 bits.
fn hash128(bytes: &[u8]) -> u128 {
    let start = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    bytes.iter().fold(start, |hash: u128, byte| (hash ^ u128::from(*byte)).wrapping_mul((1 << 88) + 0x13b))
}

fn make_dir(dir: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| io_error("make the directory", dir, error))
}

fn is_there(dir: &Path) -> Result<bool> {
    match fs::metadata(dir) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(io_error("open", dir, error)),
    }
}

/// Refuses a directory that is used for something else: its files would mix with ours. A mounted disk has its own one.
fn check_use(root: &Path) -> Result<()> {
    let is_store = || root.join("format").symlink_metadata().is_ok();
    if root.parent().is_none() {
        return Err(unfit(
            "keep locks in",
            root,
            "it is the root of all files; name a directory for locks alone",
        ));
    }
    if is_store() {
        return Ok(());
    }
    let failed = |error| io_error("list", root, error);
    for entry in fs::read_dir(root).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        // Looked for once more: another first user may be at work.
        if name != "lost+found" && !is_store() {
            let why = "other files are in it, and no locks of bramah's; name an empty or an absent directory";
            return Err(unfit("keep locks in", root, why));
        }
    }
    Ok(())
}

fn unfit(doing: &str, dir: &Path, why: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("cannot {doing} {}: {why}", dir.display()))
}

/// Reads the layout's version, or writes it into a new directory. The flock keeps two first users apart; it is held
/// for two system calls.
fn check_format(path: &Path, make: bool) -> Result<()> {
    let failed = |error| io_error("open", path, error);
    let access = if make { OFlags::RDWR | OFlags::CREATE } else { OFlags::RDONLY };
    let absent = || {
        let why = "no lock was ever taken there; see whether the path is right";
        unfit("read", path.parent().unwrap_or(path), why)
    };
    let file = guard::open_regular("the format file", path, access)?.ok_or_else(absent)?;
    let free =
        || (0..1_000).any(|_| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() || pause());
    if !free() {
        let why = "another process keeps it locked; see whether that one is stopped";
        return Err(Error::new(ErrorKind::Unavailable, format!("cannot read {}: {why}", path.display())));
    }
    let mut bytes = [0; 64];
    let len = file.read_at(&mut bytes, 0).map_err(failed)?;
    if len == 0 && !make {
        return Err(absent());
    }
    if len == 0 {
        return file.write_all_at(format!("{FORMAT_WORD}{FORMAT}\n").as_bytes(), 0).map_err(failed);
    }
    let text = std::str::from_utf8(&bytes[..len]).ok();
    match text.and_then(|text| text.trim_end().strip_prefix(FORMAT_WORD)?.parse::<u32>().ok()) {
        Some(FORMAT) => Ok(()),
        Some(found) if found > FORMAT => Err(newer("the directory described by", path, found, FORMAT)),
        _ => Err(corrupt("the format file", path, "is not one of bramah's")),
    }
}

/// A millisecond; never the answer to "is it free?".
fn pause() -> bool {
    std::thread::sleep(std::time::Duration::from_millis(1));
    false
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn encoded(text: &str) -> String {
        file_name(&Name::new(text).unwrap())
    }

    /// The inverse of the encoding, for names that are not cut.
    fn decoded(file: &str) -> String {
        let mut bytes = Vec::new();
        let mut rest = file.as_bytes();
        while let Some((&first, tail)) = rest.split_first() {
            if first == b'%' {
                bytes.push(u8::from_str_radix(std::str::from_utf8(&tail[..2]).unwrap(), 16).unwrap());
                rest = &tail[2..];
            } else {
                bytes.push(first);
                rest = tail;
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn awkward_names_become_plain_files() {
        let cases = [
            (".", "%2E"),
            ("..", "%2E%2E"),
            ("a/b", "a%2Fb"),
            ("a.b", "a.b"),
            (".a.", "%2Ea%2E"),
            ("a~b", "a%7Eb"),
        ];
        for (name, file) in cases {
            assert_eq!(encoded(name), file);
            assert!(is_ledger_file(file));
        }
        assert_ne!(encoded("Orders"), encoded("orders"));
        assert_ne!(encoded("a%2Fb"), encoded("a/b"));
    }

    #[test]
    fn long_names_stay_apart_and_fit() {
        let mut seen = HashMap::new();
        for last in 'a'..='z' {
            for length in [66, 100, 198] {
                let name = format!("{}{last}", "/a".repeat(length / 2).trim_start_matches('/'));
                let file = encoded(&name);
                assert!(file.len() <= MAX_FILE_NAME, "{file}");
                assert_eq!(seen.insert(file, name.clone()), None, "{name}");
            }
            let wide = format!("{}{last}", "ü".repeat(99));
            assert!(encoded(&wide).contains('~'));
            assert_eq!(seen.insert(encoded(&wide), wide.clone()), None, "{wide}");
        }
    }

    #[test]
    fn session_files_are_told_from_others() {
        let layout = Layout { locks: "/l".into(), sessions: "/s".into() };
        let id = SessionId::from_bits(77);
        let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(parse_session_file(&name(layout.session(id, 5))), Some((id, 5, Part::Life)));
        for beside in [layout.mail(id, 5), layout.asked(id, 5)] {
            assert_eq!(parse_session_file(&name(beside)), Some((id, 5, Part::Beside)));
        }
        for other in ["x", ".", "0.1", "00000000000000000000000000000001.+000000000000001"] {
            assert_eq!(parse_session_file(other), None);
        }
    }

    proptest! {
        #[test]
        fn the_encoding_is_injective_and_safe(text in "[^\\x00-\\x1f\\x7f-\\u{9f}/]{1,60}(/[a-zA-Z.~%]{1,9})?") {
            prop_assume!(Name::new(&text).is_ok());
            let file = encoded(&text);
            prop_assert!(file.len() <= MAX_FILE_NAME && is_ledger_file(&file));
            prop_assert!(!file.contains('/') && file != "." && file != "..");
            if !file.contains('~') {
                prop_assert_eq!(decoded(&file), text);
            }
        }
    }
}
