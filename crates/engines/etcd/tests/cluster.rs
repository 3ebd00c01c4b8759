//! The conformance suite on three members of etcd 3.5, and on one of 3.4. All of them are restarted in between.

mod rig;

use std::process::ExitCode;

use bramah_lab::servers::Flavor;

fn main() -> ExitCode {
    let three = rig::run(&rig::Plan {
        name: "etcd 3.5, three members",
        flavor: Flavor::Etcd35,
        members: 3,
        abreast: 5,
        // The three disks are one here, and nothing has to outlive the machine.
        flags: &[("unsafe-no-fsync", "true"), ("heartbeat-interval", "100"), ("election-timeout", "1000")],
        options: "",
    });
    let old = rig::run(&rig::Plan {
        name: "etcd 3.4, one member",
        flavor: Flavor::Etcd34,
        members: 1,
        abreast: 8,
        flags: &[],
        options: "?margin=0s",
    });
    if three == ExitCode::SUCCESS { old } else { three }
}
