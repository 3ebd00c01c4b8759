//! The conformance suite on the memory engine. Its restart is the worst kind: the store forgets everything.

use std::sync::{Arc, Mutex, PoisonError};

use bramah_conformance::Target;
use bramah_core::{Engine, Memory};

fn main() -> std::process::ExitCode {
    bramah_conformance::main("memory", || Box::pin(async { Ok(target()) }))
}

fn target() -> Target {
    let store = Arc::new(Mutex::new(Memory::new()));
    let other = store.clone();
    let connect = move || {
        let engine: Arc<dyn Engine> = Arc::new(store.lock().unwrap_or_else(PoisonError::into_inner).clone());
        Box::pin(async { Ok(engine) }) as _
    };
    Target::new(connect).paced(3).restarted_by(move || {
        *other.lock().unwrap_or_else(PoisonError::into_inner) = Memory::new();
        Box::pin(async { Ok(()) })
    })
}
