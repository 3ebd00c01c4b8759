//! The conformance suite on the plain layout and a cluster of three.

mod rig;

use bramah_lab::servers::Flavor;

fn main() -> std::process::ExitCode {
    rig::run("redis, plain, cluster", &rig::Deployment::Cluster(Flavor::Redis7), "plain")
}
