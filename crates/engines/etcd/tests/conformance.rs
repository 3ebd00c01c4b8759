//! The conformance suite on one member of etcd 3.5, which is restarted in between.

mod rig;

use bramah_lab::servers::Flavor;

fn main() -> std::process::ExitCode {
    rig::run(&rig::Plan {
        name: "etcd 3.5, one member",
        flavor: Flavor::Etcd35,
        members: 1,
        abreast: 8,
        // Nothing has to outlive the machine.
        flags: &[("unsafe-no-fsync", "true")],
        // One member is never deposed, so no margin is needed.
        options: "?margin=0s",
    })
}
