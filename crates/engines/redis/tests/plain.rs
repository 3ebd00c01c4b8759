//! The conformance suite on the plain layout, on one node that is restarted in between.

mod rig;

use bramah_lab::servers::Flavor;

fn main() -> std::process::ExitCode {
    rig::run("redis, plain", &rig::Deployment::One(Flavor::Redis7), "plain")
}
