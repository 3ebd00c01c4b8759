//! The conformance suite on one server, which is restarted in between.

mod rig;

fn main() -> std::process::ExitCode {
    rig::run("zookeeper", 1, 8)
}
