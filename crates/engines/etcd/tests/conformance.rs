//! The conformance suite on one member of etcd 3.5, which is restarted in between.

mod rig;

use bramah_lab::servers::Flavor;

fn main() -> std::process::ExitCode {
    // One member is never deposed, so no margin is needed.
    rig::run("etcd 3.5, one member", Flavor::Etcd35, 1, "?margin=0s")
}
