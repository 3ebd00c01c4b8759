//! Which servers there are.

use std::fmt::{self, Display};

/// A server and its major version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flavor {
    /// Redis 7, as in Debian bookworm.
    Redis7,
    /// Redis 8, as in Debian trixie.
    Redis8,
    /// Valkey 8, as in Debian trixie.
    Valkey8,
}

impl Flavor {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Redis7, Self::Redis8, Self::Valkey8];

    /// Its name, for people and for directories: `redis7`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Redis7 => "redis7",
            Self::Redis8 => "redis8",
            Self::Valkey8 => "valkey8",
        }
    }

    pub(super) fn major(self) -> u32 {
        match self {
            Self::Redis7 => 7,
            Self::Redis8 | Self::Valkey8 => 8,
        }
    }

    /// The server's program, and the package that has it.
    pub(super) fn server(self) -> &'static str {
        match self {
            Self::Redis7 | Self::Redis8 => "redis-server",
            Self::Valkey8 => "valkey-server",
        }
    }

    pub(super) fn cli(self) -> &'static str {
        match self {
            Self::Redis7 | Self::Redis8 => "redis-cli",
            Self::Valkey8 => "valkey-cli",
        }
    }

    /// The release of Debian that has it.
    pub(super) fn suite(self) -> &'static str {
        match self {
            Self::Redis7 => "bookworm",
            Self::Redis8 | Self::Valkey8 => "trixie",
        }
    }

    /// Whether a version is one of this flavor.
    pub(super) fn is(self, version: &str) -> bool {
        version.split('.').next().is_some_and(|major| major.parse() == Ok(self.major()))
    }
}

impl Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The version in what a server prints: `Redis server v=7.0.15 sha=...`.
pub(super) fn version_of(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| word.strip_prefix("v="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_and_compared_by_its_major() {
        let text = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=0\n";
        assert_eq!(version_of(text), Some("7.0.15"));
        assert_eq!(version_of("cannot open shared object"), None);
        assert!(Flavor::Redis7.is("7.0.15") && Flavor::Valkey8.is("8.1.1"));
        assert!(!Flavor::Redis7.is("70.1") && !Flavor::Redis8.is("7.0.15"));
    }
}
