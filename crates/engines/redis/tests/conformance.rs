//! The conformance suite on the native layout, on one node with a log on disk: it is restarted in between.

mod rig;

fn main() -> std::process::ExitCode {
    rig::run("redis", &rig::Deployment::One(bramah_lab::servers::Flavor::Redis7), "native")
}
