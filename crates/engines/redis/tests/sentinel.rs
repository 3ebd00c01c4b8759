//! The conformance suite on a master that sentinels watch over.

mod rig;

use bramah_lab::servers::Flavor;

fn main() -> std::process::ExitCode {
    rig::run("redis, sentinel", &rig::Deployment::Sentinel(Flavor::Redis7), "native")
}
