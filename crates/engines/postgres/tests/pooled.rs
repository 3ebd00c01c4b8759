//! The conformance suite through PgBouncer, which hands connections out by transaction.

mod rig;

fn main() -> std::process::ExitCode {
    rig::run("postgres behind pgbouncer", rig::Deployment::Pooled)
}
