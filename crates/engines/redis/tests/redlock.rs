//! The conformance suite on Redlock: several masters that know nothing of each other.
//!
//! They were just started, so they are trusted: that a master which was waits is tested with the other faults.

mod rig;

use std::process::ExitCode;

use bramah_conformance::CHILD;
use rig::Deployment::Masters;

/// How many masters, and what follows `layout=`.
const ON: [(usize, &str); 6] =
    [(1, "plain"), (3, "plain"), (4, "plain"), (5, "plain"), (3, "redisson"), (2, "plain&quorum=all")];

fn main() -> ExitCode {
    let mut done = ExitCode::SUCCESS;
    for (masters, layout) in ON {
        let name = format!("redlock, {masters} masters, {layout}");
        let one = rig::run(&name, &Masters(masters), &format!("{layout}&restart=trust&node_timeout=1s"));
        // A child is told which masters are meant, so it is the same for all.
        if std::env::var_os(CHILD).is_some() {
            return one;
        }
        if one != ExitCode::SUCCESS {
            done = one;
        }
    }
    done
}
