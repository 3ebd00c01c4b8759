//! The conformance suite on Redisson's layout.

mod rig;

fn main() -> std::process::ExitCode {
    rig::run(
        "redisson_fair",
        &rig::Deployment::One(bramah_lab::servers::Flavor::Redis7),
        "redisson&fair=true",
    )
}
