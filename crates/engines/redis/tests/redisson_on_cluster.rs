//! The conformance suite on Redisson's layout.

mod rig;

fn main() -> std::process::ExitCode {
    rig::run(
        "redisson_on_cluster",
        &rig::Deployment::Cluster(bramah_lab::servers::Flavor::Redis7),
        "redisson",
    )
}
