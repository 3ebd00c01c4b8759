//! What a permit is called.

use std::{fmt, str::FromStr};

use bramah_core::{Error, ErrorKind, Result};

/// The id of a permit: 16 random bytes in the store, and to people and in Redisson's methods 32 hexadecimal digits.
///
/// ```
/// use bramah_redis::redisson::PermitId;
///
/// let id: PermitId = "000102030405060708090a0b0c0d0e0f".parse()?;
/// assert_eq!(id.to_string(), "000102030405060708090a0b0c0d0e0f");
/// # Ok::<(), bramah_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PermitId(u128);

impl PermitId {
    /// A new one from the operating system's generator.
    pub(crate) fn random() -> Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| {
            Error::caused(ErrorKind::Unavailable, format!("no randomness for a permit's id: {error}"), error)
        })?;
        Ok(Self(u128::from_be_bytes(bytes)))
    }

    /// As it is in the store.
    pub fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PermitId({self})")
    }
}

impl FromStr for PermitId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u128::from_str_radix(text, 16) {
            Ok(bits) if digits => Ok(Self(bits)),
            _ => Err(Error::new(ErrorKind::Invalid, "not the id of a permit: use its 32 hex digits")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_is_read_as_redisson_writes_it_and_nothing_else_is() {
        let id: PermitId = "00ff02030405060708090A0B0C0D0E0F".parse().unwrap();
        assert_eq!(id.bytes(), [0, 255, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(format!("{id:?}"), "PermitId(00ff02030405060708090a0b0c0d0e0f)");
        for wrong in [
            "",
            "00",
            "+0ff02030405060708090a0b0c0d0e0f",
            ":1700000000000",
            "ü0ff02030405060708090a0b0c0d0e0",
        ] {
            assert_eq!(wrong.parse::<PermitId>().unwrap_err().kind(), ErrorKind::Invalid, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_was_shown_is_read_back(bits: u128) {
            prop_assert_eq!(PermitId(bits).to_string().parse::<PermitId>().unwrap(), PermitId(bits));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<PermitId>();
        }
    }
}
