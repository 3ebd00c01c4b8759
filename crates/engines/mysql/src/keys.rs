//! What the server calls a lock in session mode: a name of at most 64 characters, which are the whole server's.

use bramah_core::{Error, ErrorKind, Name, Result};
use sha2::{Digest, Sha512};

use crate::text::quoted;

/// The most characters of a lock's name there.
const MOST: usize = 64;

/// How names become names of the server's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Keys {
    /// `bramah:` and the first 48 hexadecimal digits of the SHA-256 of the database, a slash and the name.
    #[default]
    Sha256,
    /// The name itself, as with_advisory_lock for Ruby has it.
    Plain,
    /// As DistributedLock has them, for .NET: short names in small letters as they are, others with a part of their SHA-512.
    DistributedLock,
}

impl Keys {
    pub(crate) const NAMES: &str = "sha256, plain or distributedlock";

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        match word {
            "sha256" => Some(Self::Sha256),
            "plain" => Some(Self::Plain),
            "distributedlock" => Some(Self::DistributedLock),
            _ => None,
        }
    }

    /// The server's name of a lock, as an expression. The database is asked of the server, which may know it by small letters
    /// alone.
    pub(crate) fn of(self, name: &Name) -> Result<String> {
        let text = name.as_str();
        let refused = |why: &str| Err(Error::new(ErrorKind::Invalid, format!("{name}: {why}")));
        match self {
            Self::Sha256 => Ok(format!(
                "CONCAT('bramah:', LEFT(SHA2(CONCAT(CONVERT(DATABASE() USING utf8mb4), '/', {}), 256), 48))",
                quoted(text)
            )),
            // What MySQL makes of others depends on its tables of small letters and on the character set.
            _ if !text.is_ascii() => refused(
                "with keys=plain and keys=distributedlock a name has ASCII characters alone; rename it",
            ),
            Self::Plain if text.len() > MOST => refused(
                "with keys=plain a name has 64 characters at the most, as GET_LOCK has it; shorten it, or use keys=sha256",
            ),
            Self::Plain => Ok(quoted(text)),
            Self::DistributedLock => Ok(quoted(&distributedlock(text))),
        }
    }
}

/// The name if it will do; or its beginning in small letters, and 160 bits of its SHA-512.
fn distributedlock(text: &str) -> String {
    let small = text.to_ascii_lowercase();
    if small == text && text.len() <= MOST {
        return small;
    }
    let hash = base32(&Sha512::digest(text));
    let kept = small.len().min(MOST - hash.len());
    format!("{}{hash}", small.get(..kept).unwrap_or_default())
}

/// The first twenty bytes as thirty-two letters: five bits each, the lowest first.
fn base32(digest: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bit = |at: usize| usize::from(digest.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1));
    let letter = |first: usize| (0..5).fold(0, |letter, at| letter | bit(first + at) << at);
    (0..32).map(|at| char::from(LETTERS[letter(at * 5)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(keys: Keys, name: &str) -> String {
        keys.of(&Name::new(name).unwrap()).unwrap()
    }

    #[test]
    fn a_name_is_told_from_those_of_other_databases() {
        let want = "CONCAT('bramah:', LEFT(SHA2(CONCAT(CONVERT(DATABASE() USING utf8mb4), '/', _utf8mb4 X'612f62'), 256), 48))";
        assert_eq!(key(Keys::Sha256, "a/b"), want);
    }

    #[test]
    fn plain_names_are_themselves_or_refused() {
        let long = "x".repeat(64);
        assert_eq!(key(Keys::Plain, "My Job"), quoted("My Job"));
        assert_eq!(key(Keys::Plain, &long), quoted(&long));
        for (name, said) in [(format!("{long}x"), "64 characters"), ("é".to_owned(), "ASCII")] {
            let error = Keys::Plain.of(&Name::new(&name).unwrap()).unwrap_err();
            assert!(error.to_string().contains(said), "{name}: {error}");
        }
    }

    #[test]
    fn dotnet_has_small_letters_and_the_sha512() {
        let long = "orders/".to_owned() + &"0123456789".repeat(7);
        for (name, want) in [
            ("orders/42", "orders/42"),
            ("Orders/42", "orders/42p6ipcx5ezmmdv4suukxexpk7qzeoizik"),
            (&long, "orders/01234567890123456789012342alaqy4sztubidngbcr3znxebwttqjla"),
        ] {
            assert_eq!(key(Keys::DistributedLock, name), quoted(want), "{name}");
        }
    }
}
