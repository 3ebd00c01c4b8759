//! The conformance suite on three members of etcd 3.5, and on one of 3.4. All of them are restarted in between.

mod rig;

use std::process::ExitCode;

use bramah_lab::servers::Flavor;

fn main() -> ExitCode {
    let three = rig::run(&rig::Plan {
        name: "etcd 3.5, three members",
        flavor: Flavor::Etcd35,
        members: 3,
        // Every hand-over is written to three disks, which are one here.
        abreast: 3,
        options: "",
        without: &[(
            "peers::a_dead_reader_does_not_live_on_in_the_others",
            "it looks after three ttls of 600 ms, and with the margin a lease of that is 3 s",
        )],
    });
    let old = rig::run(&rig::Plan {
        name: "etcd 3.4, one member",
        flavor: Flavor::Etcd34,
        members: 1,
        abreast: 6,
        options: "?margin=0s",
        without: &[],
    });
    if three == ExitCode::SUCCESS { old } else { three }
}
