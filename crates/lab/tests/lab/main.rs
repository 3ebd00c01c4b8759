//! The lab against the servers that it runs.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::disallowed_methods, reason = "how long a start took is no deadline of a lock")]

use std::process::{Command, Stdio};

use bramah_lab::servers::{self, Flavor};

mod cluster;
mod etcd;
mod mariadb;
mod pgbouncer;
mod postgres;
mod proxy;
mod redis;
mod replicated;
mod sentinels;
#[cfg(feature = "tls")]
mod tls;
mod zookeeper;

/// The flavors of Redis that this machine has; the others are reported.
fn flavors() -> impl Iterator<Item = Flavor> {
    Flavor::REDIS.into_iter().filter(|flavor| has(*flavor))
}

/// Whether this machine has a flavor; if not, that is reported.
fn has(flavor: Flavor) -> bool {
    let got = servers::get(flavor);
    if let Err(why) = &got {
        servers::missing(flavor, why);
    }
    got.is_ok()
}

/// All members but one.
fn others(members: usize, but: usize) -> Vec<usize> {
    (0..members).filter(|member| *member != but).collect()
}

fn runs(pid: u32) -> bool {
    let mut kill = Command::new("kill");
    kill.args(["-0", &pid.to_string()]).stderr(Stdio::null()).status().unwrap().success()
}
