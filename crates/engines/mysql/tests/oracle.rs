//! The conformance suite on MySQL, which is restarted in between.

mod rig;

fn main() -> std::process::ExitCode {
    rig::run(bramah_lab::servers::Flavor::MySql, rig::Mode::Table)
}
