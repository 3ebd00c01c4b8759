//! The suite on an engine where a session can claim a name once.

use std::{process::ExitCode, sync::Arc};

use bramah_conformance::{
    Target,
    twist::{OneSeat, Twisted},
};
use bramah_core::Memory;

fn main() -> ExitCode {
    bramah_conformance::main("memory with one seat", || {
        Box::pin(async {
            Ok(Target::shared(Twisted::new(Arc::new(Memory::new()), Arc::new(OneSeat::default()))))
        })
    })
}
