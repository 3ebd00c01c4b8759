//! A store that refuses claims half-way.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bramah_core::{Claim, Engine, Error, ErrorKind, Reply, Standing};

use super::Twist;

/// Lets claims in and then answers with an error, as a script does that fails after its first write.
#[derive(Debug)]
pub struct Halfway {
    kind: ErrorKind,
    refuses: AtomicBool,
}

impl Halfway {
    /// One that refuses with errors of this kind.
    pub fn new(kind: ErrorKind) -> Arc<Self> {
        Arc::new(Self { kind, refuses: AtomicBool::new(true) })
    }

    /// From here on it refuses nothing.
    pub fn mend(&self) {
        self.refuses.store(false, Ordering::Release);
    }
}

impl Twist for Halfway {
    fn claim(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>) -> Reply<Standing> {
        let (kind, refuses) = (self.kind, self.refuses.load(Ordering::Acquire) && !claim.again);
        let reply = inner.claim(claim);
        Reply::later(async move {
            let answer = reply.await?;
            if refuses { Err(Error::new(kind, "refused half-way, for a test")) } else { Ok(answer) }
        })
    }
}
