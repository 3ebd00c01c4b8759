//! The conformance suite on a cluster of three.

mod rig;

use bramah_lab::servers::Flavor;

fn main() -> std::process::ExitCode {
    rig::run("redis, cluster", &rig::Deployment::Cluster(Flavor::Redis7), "native")
}
