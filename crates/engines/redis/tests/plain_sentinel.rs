//! The conformance suite on the plain layout and a master that sentinels watch over.

mod rig;

use bramah_lab::servers::Flavor;

fn main() -> std::process::ExitCode {
    rig::run("redis, plain, sentinel", &rig::Deployment::Sentinel(Flavor::Redis7), "plain")
}
