//! The conformance suite on Redis 8.

mod rig;

use bramah_lab::servers::Flavor;

fn main() -> std::process::ExitCode {
    rig::run("redis 8", &rig::Deployment::One(Flavor::Redis8), "native")
}
