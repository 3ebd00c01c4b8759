//! The conformance suite on Valkey.

mod rig;

use bramah_lab::servers::Flavor;

fn main() -> std::process::ExitCode {
    rig::run("valkey", &rig::Deployment::One(Flavor::Valkey8), "native")
}
