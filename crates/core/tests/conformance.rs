//! The conformance suite on the memory engine.

use bramah_conformance::Target;
use bramah_core::Memory;

fn main() -> std::process::ExitCode {
    bramah_conformance::main("memory", || Box::pin(async { Ok(Target::shared(Memory::new())) }))
}
