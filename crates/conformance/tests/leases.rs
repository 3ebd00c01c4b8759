//! The suite on an engine whose claims expire *and* that child processes can reach: the file engine with every session
//! made one that nobody keeps. So the cases that stop a process past its ttl have an engine to run on here.

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use bramah_conformance::{
    Later, Suite, Target,
    twist::{Twist, Twisted},
};
use bramah_core::{Engine, Keep, Liveness, Opening, Profile, Reply, Result};
use bramah_file::File;

/// Sessions live for their ttl after the last renewal, whatever the kernel knows of their process.
#[derive(Debug)]
struct Unkept;

impl Twist for Unkept {
    fn profile(&self, inner: &Arc<dyn Engine>) -> Profile {
        Profile { liveness: Liveness::Session, ..inner.profile() }
    }

    fn open(&self, inner: &Arc<dyn Engine>, opening: Arc<Opening>) -> Reply<Duration> {
        inner.open(Arc::new(Opening { keep: Keep::Nobody, ..(*opening).clone() }))
    }
}

fn main() -> ExitCode {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("leases-{}", std::process::id()));
    let address = dir.display().to_string();
    let setup = move || -> Later<Result<Target>> {
        let (dir, address) = (address.clone(), address.clone());
        Box::pin(async { Ok(Target::new(move || reopen(dir.clone())).reachable_at(address).paced(3)) })
    };
    let code = Suite::new("file with leases", setup).children(reopen).main();
    // What is left is in the build directory.
    let _ = std::fs::remove_dir_all(&dir);
    code
}

fn reopen(dir: String) -> Later<Result<Arc<dyn Engine>>> {
    Box::pin(async move {
        let engine: Arc<dyn Engine> = Arc::new(Twisted::new(Arc::new(File::open(dir)?), Arc::new(Unkept)));
        Ok(engine)
    })
}
