//! A temporary directory.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

static MADE: AtomicU32 = AtomicU32::new(0);

/// A directory that is removed with everything in it when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// An empty one.
    ///
    /// # Errors
    /// A line for people when it cannot be made.
    pub fn new() -> Result<Self, String> {
        let n = MADE.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("bramah-lab-{}-{n}", process::id()));
        // The directory of a process that was killed and had the same id.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(|why| format!("cannot make {}: {why}", path.display()))?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left in the temporary directory does no harm.
        let _ = fs::remove_dir_all(&self.path);
    }
}
