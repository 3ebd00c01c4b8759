//! The conformance suite on the file engine, with child processes on the same directory. There is no server to restart;
//! what comes nearest is a directory whose ledgers were lost.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use bramah_conformance::{Later, Suite, Target};
use bramah_core::{Engine, Error, ErrorKind, Result};
use bramah_file::File;

fn main() -> ExitCode {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("conformance-{}", std::process::id()));
    let address = dir.display().to_string();
    let setup = move || -> Later<Result<Target>> {
        let (dir, address) = (address.clone(), address.clone());
        let ledgers = PathBuf::from(&address).join("locks");
        let target = Target::new(move || reopen(dir.clone())).reachable_at(address).paced(3);
        let target = target.restarted_by(move || {
            let lost = std::fs::remove_dir_all(&ledgers).and_then(|()| std::fs::create_dir(&ledgers));
            Box::pin(async { lost.map_err(|error| Error::new(ErrorKind::Unavailable, error.to_string())) })
        });
        Box::pin(async { Ok(target) })
    };
    let code = Suite::new("file", setup).children(reopen).main();
    // What is left is in the build directory.
    let _ = std::fs::remove_dir_all(&dir);
    code
}

fn reopen(dir: String) -> Later<Result<Arc<dyn Engine>>> {
    Box::pin(async move {
        let engine: Arc<dyn Engine> = Arc::new(File::open(dir)?);
        Ok(engine)
    })
}
