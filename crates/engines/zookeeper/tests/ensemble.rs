//! The conformance suite on three members, which are restarted in between.

mod rig;

fn main() -> std::process::ExitCode {
    rig::run("zookeeper of three", 3, 4)
}
