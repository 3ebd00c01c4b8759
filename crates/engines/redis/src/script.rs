//! A script and what the server calls it.

use std::fmt;

/// Lua that runs on the server. The server keeps it under its hash until it forgets.
pub(crate) struct Script {
    name: &'static str,
    code: String,
    hash: String,
}

impl Script {
    /// A script of this text. The name is for people, and for a model server that knows it.
    pub(crate) fn new(name: &'static str, code: String) -> Self {
        let hash = sha1_hex(code.as_bytes());
        Self { name, code, hash }
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// Whether it judges by keys that it cannot name: the holds of readers, who are found in the lock only. Where a slot is on
    /// its way to, such a key may be missing because it has not come yet.
    pub(crate) fn looks_beside(&self) -> bool {
        matches!(self.name, "rw_leave" | "write_claim")
    }

    /// The SHA-1 of the text, in hex: what EVALSHA takes.
    pub(crate) fn hash(&self) -> &str {
        &self.hash
    }
}

/// The SHA-1 of any bytes, in hex: what a script computes of a value it finds.
pub(crate) fn sha1_hex(bytes: &[u8]) -> String {
    sha1_smol::Sha1::from(bytes).digest().to_string()
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Script({})", self.name)
    }
}
