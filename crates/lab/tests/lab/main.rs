//! The lab against the servers that it runs.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::disallowed_methods, reason = "how long a start took is no deadline of a lock")]

use bramah_lab::servers::{self, Flavor};

mod cluster;
mod proxy;
mod redis;
mod replicated;
mod sentinels;
#[cfg(feature = "tls")]
mod tls;

/// The flavors that this machine has; the others are reported.
fn flavors() -> impl Iterator<Item = Flavor> {
    Flavor::ALL.into_iter().filter(|flavor| {
        let got = servers::get(*flavor);
        if let Err(why) = &got {
            servers::missing(*flavor, why);
        }
        got.is_ok()
    })
}
