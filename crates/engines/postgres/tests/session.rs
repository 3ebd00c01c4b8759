//! The conformance suite on advisory locks of one server, which is restarted in between.

mod rig;

fn main() -> std::process::ExitCode {
    rig::run("postgres, session", rig::Deployment::Session)
}
