//! What the server calls a lock in session mode: one number of 64 bits, or two of 32. The two kinds never meet.

use bramah_core::{Error, ErrorKind, Name, Result};
use sha1_smol::Sha1;
use sha2::{Digest, Sha256};

/// How names become numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Keys {
    /// The first eight bytes of the name's SHA-256, the first of them the highest.
    #[default]
    Sha256,
    /// The name is the number, `42`, or two of them, `1,2`.
    Integer,
    /// As with_advisory_lock has them, for Ruby: the CRC-32 of the name without its highest bit, and zero.
    WithAdvisoryLock,
    /// As DistributedLock has them, for .NET: short names and hexadecimal digits as they are, the SHA-1 of others.
    DistributedLock,
}

/// A lock's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// 1 for one number, 2 for two.
    pub(crate) space: u8,
    /// The number; or the first one in the upper half, and the second in the lower.
    pub(crate) bits: i64,
}

impl Key {
    const fn one(bits: i64) -> Self {
        Self { space: 1, bits }
    }

    fn two(first: i32, second: i32) -> Self {
        Self { space: 2, bits: (i64::from(first) << 32) | i64::from(second.cast_unsigned()) }
    }

    /// As the functions of the server take it.
    pub(crate) fn arguments(self) -> String {
        match self.space {
            1 => self.bits.to_string(),
            _ => format!("{}, {}", self.bits >> 32, (self.bits << 32) >> 32),
        }
    }
}

impl Keys {
    pub(crate) const NAMES: &str = "sha256, integer, with_advisory_lock or distributedlock";

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        match word {
            "sha256" => Some(Self::Sha256),
            "integer" => Some(Self::Integer),
            "with_advisory_lock" => Some(Self::WithAdvisoryLock),
            "distributedlock" => Some(Self::DistributedLock),
            _ => None,
        }
    }

    /// The number of a name.
    pub(crate) fn of(self, name: &Name) -> Result<Key> {
        let text = name.as_str();
        match self {
            Self::Sha256 => Ok(Key::one(i64::from_be_bytes(first_eight(&Sha256::digest(text))))),
            Self::Integer => integer(text).ok_or_else(|| {
                let text = format!(
                    "{name}: with keys=integer a name is a number, as in 42, or two of 32 bits, as in 1,2"
                );
                Error::new(ErrorKind::Invalid, text)
            }),
            Self::WithAdvisoryLock => {
                let sum = crc32(text.as_bytes()) & 0x7fff_ffff;
                Ok(Key::two(sum.cast_signed(), 0))
            }
            Self::DistributedLock => Ok(ascii(text).or_else(|| hexadecimal(text)).unwrap_or_else(|| {
                Key::one(i64::from_le_bytes(first_eight(&Sha1::from(text).digest().bytes())))
            })),
        }
    }
}

fn first_eight(digest: &[u8]) -> [u8; 8] {
    let mut eight = [0; 8];
    eight.iter_mut().zip(digest).for_each(|(to, from)| *to = *from);
    eight
}

/// The checksum of zlib, bit by bit: names are short.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
    !bytes.iter().fold(u32::MAX, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

fn integer(text: &str) -> Option<Key> {
    // One way to write each, so that a number has one name.
    let exact = |text: &str, number: i64| number.to_string() == text;
    match text.split_once(',') {
        None => text.parse().ok().filter(|number| exact(text, *number)).map(Key::one),
        Some((first, second)) => {
            let half = |text: &str| text.parse::<i32>().ok().filter(|half| exact(text, i64::from(*half)));
            Some(Key::two(half(first)?, half(second)?))
        }
    }
}

/// Up to nine characters of seven bits each, then a zero, then ones.
fn ascii(text: &str) -> Option<Key> {
    let short = text.len() <= 9 && text.is_ascii();
    let letters = text.bytes().fold(0_u64, |bits, letter| (bits << 7) | u64::from(letter));
    let bits = (text.len()..9).fold(letters << 1, |bits, _| (bits << 7) | 0x7f);
    short.then_some(Key { space: 2, bits: bits.cast_signed() })
}

/// Sixteen hexadecimal digits, or twice eight with a comma between.
fn hexadecimal(text: &str) -> Option<Key> {
    let half = |text: &str| {
        let digits = text.len() == 8 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        u32::from_str_radix(text, 16).ok().filter(|_| digits).map(u32::cast_signed)
    };
    match (text.split_once(','), text.split_at_checked(8)) {
        (Some((first, second)), _) => Some(Key::two(half(first)?, half(second)?)),
        (None, Some((first, second))) => Some(Key { space: 1, ..Key::two(half(first)?, half(second)?) }),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(keys: Keys, name: &str) -> (u8, String) {
        let key = keys.of(&Name::new(name).unwrap()).unwrap();
        (key.space, key.arguments())
    }

    #[test]
    fn a_name_is_the_start_of_its_sha256() {
        // printf orders/42 | sha256sum
        let want = 0xc4dd_165f_06c3_5f87_u64.cast_signed();
        assert_eq!(key(Keys::Sha256, "orders/42"), (1, want.to_string()));
    }

    #[test]
    fn numbers_are_themselves() {
        for (name, want) in [
            ("42", (1, "42")),
            ("-1", (1, "-1")),
            ("9223372036854775807", (1, "9223372036854775807")),
            ("1,2", (2, "1, 2")),
            ("-7,-8", (2, "-7, -8")),
            ("2147483647,-2147483648", (2, "2147483647, -2147483648")),
        ] {
            assert_eq!(key(Keys::Integer, name), (want.0, want.1.to_owned()), "{name}");
        }
        for name in ["042", "+1", "1, 2", "x", "9223372036854775808", "1,2,3", "2147483648,0", "-0"] {
            let error = Keys::Integer.of(&Name::new(name).unwrap()).unwrap_err();
            assert!(error.to_string().contains("keys=integer"), "{name}: {error}");
        }
    }

    #[test]
    fn ruby_has_the_crc_of_the_name_and_zero() {
        // Zlib.crc32("123456789") is the check value of CRC-32, 0xcbf43926.
        assert_eq!(key(Keys::WithAdvisoryLock, "123456789"), (2, format!("{}, 0", 0x4bf4_3926)));
    }

    #[test]
    fn dotnet_has_short_names_hexadecimal_digits_and_the_sha1() {
        // 'a' is 0x61: seven bits of it, a zero, and fifty-six ones.
        let a = (0x61_u64 << 57) | ((1_u64 << 56) - 1);
        assert_eq!(key(Keys::DistributedLock, "a"), (2, Key { space: 2, bits: a.cast_signed() }.arguments()));
        assert_eq!(key(Keys::DistributedLock, "00000000000000ff"), (1, "255".to_owned()));
        assert_eq!(key(Keys::DistributedLock, "0000000a,ffffffff"), (2, "10, -1".to_owned()));
        // SHA-1 of "abcdefghijklmnopqrstuvwxyz" begins 32d10c7b8cf96570.
        let want = i64::from_le_bytes([0x32, 0xd1, 0x0c, 0x7b, 0x8c, 0xf9, 0x65, 0x70]);
        assert_eq!(key(Keys::DistributedLock, "abcdefghijklmnopqrstuvwxyz"), (1, want.to_string()));
    }
}
