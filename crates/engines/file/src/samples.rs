//! What the unit tests are made of.

use std::{path::PathBuf, time::Duration};

use bramah_core::{Claim, ClaimId, Name, SessionId, Wait};

/// A claim of session 1 that waits in line.
pub(crate) fn claim(name: &str, seq: u64, capacity: u32, weight: u32) -> Claim {
    Claim {
        id: ClaimId { session: SessionId::from_bits(1), seq },
        name: Name::new(name).unwrap(),
        capacity,
        weight,
        wait: Wait::Line,
        again: false,
        floor: None,
        ttl: Duration::MAX,
        lease: None,
        note: "a note".into(),
    }
}

/// A directory that goes away with the test.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("bramah-unit-{}", SessionId::random().unwrap()));
        std::fs::create_dir(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
