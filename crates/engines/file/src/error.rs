//! What the file system says, in Bramah's words.

use std::{io, path::Path};

use bramah_core::{Error, ErrorKind};
use rustix::io::Errno;

/// The error for a system call that failed on `path` while `doing` something.
pub(crate) fn io_error(doing: &str, path: &Path, error: impl Into<io::Error>) -> Error {
    let error = error.into();
    let (kind, next) = match Errno::from_io_error(&error) {
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
            (ErrorKind::Denied, "run as its owner, or use a directory of your own")
        }
        Some(
            Errno::NOTDIR | Errno::ISDIR | Errno::NAMETOOLONG | Errno::LOOP | Errno::INVAL | Errno::EXIST,
        ) => (ErrorKind::Invalid, "name a directory that can hold files"),
        Some(Errno::NOSPC | Errno::DQUOT) => (ErrorKind::Unavailable, "free some space and try again"),
        Some(Errno::MFILE | Errno::NFILE) => {
            (ErrorKind::Unavailable, "raise the limit of open files and try again")
        }
        Some(Errno::NOENT) => (ErrorKind::Unavailable, "somebody removed it; open the directory anew"),
        // The path has a zero byte in it: no system call was made.
        None if error.kind() == io::ErrorKind::InvalidInput => {
            (ErrorKind::Invalid, "name a directory that can hold files")
        }
        _ => (ErrorKind::Unavailable, "look after the disk and try again"),
    };
    let reason =
        Errno::from_io_error(&error).map_or_else(|| error.to_string(), |errno| describe(errno, &error));
    let shown: String =
        path.to_string_lossy().chars().map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect();
    Error::caused(kind, format!("cannot {doing} {shown}: {reason}; {next}"), error)
}

/// The system's text without the number that `std` appends.
fn describe(errno: Errno, error: &io::Error) -> String {
    let text = error.to_string().to_lowercase();
    let number = format!(" (os error {})", errno.raw_os_error());
    text.strip_suffix(&number).unwrap_or(&text).to_owned()
}

/// The error for something on disk that is damaged, foreign or newer.
pub(crate) fn corrupt(what: &str, path: &Path, why: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("{what} {} {why}; stop all users of it, then move it away", path.display()),
    )
}

/// The error for a format that a later version wrote.
pub(crate) fn newer(what: &str, path: &Path, found: u32, known: u32) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!(
            "{what} {} has format {found}, this version reads {known}; use a newer bramah",
            path.display()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_kind_and_names_the_path() {
        let cases = [
            (Errno::ACCESS, ErrorKind::Denied),
            (Errno::NOSPC, ErrorKind::Unavailable),
            (Errno::IO, ErrorKind::Unavailable),
            (Errno::MFILE, ErrorKind::Unavailable),
            (Errno::NOTDIR, ErrorKind::Invalid),
        ];
        for (errno, kind) in cases {
            let error = io_error("write", Path::new("/x/y"), errno);
            assert_eq!(error.kind(), kind);
            let text = error.to_string();
            assert!(text.starts_with("cannot write /x/y: ") && !text.contains("os error"), "{text}");
            assert!(!text.contains('\n'), "{text}");
        }
    }
}
