//! The conformance suite on the locks of GET_LOCK on MariaDB, which is restarted in between.

mod rig;

fn main() -> std::process::ExitCode {
    rig::run(bramah_lab::servers::Flavor::MariaDb, rig::Mode::Session)
}
