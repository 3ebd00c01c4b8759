//! The clock of the machine that locks are held on is set, by an hour ahead and back.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod rig;
mod stage;

use std::{process::ExitCode, time::Duration};

use bramah_conformance::{CHILD, Puppet};
use bramah_lab::{ShiftedClock, interop, servers::Flavor};

use crate::stage::{SOON, flavors, ready, until_waiting};

fn main() -> ExitCode {
    if std::env::var_os(CHILD).is_some() {
        return rig::run(Flavor::MariaDb, rig::Mode::Table);
    }
    match ShiftedClock::new() {
        Ok(clock) => flavors().into_iter().for_each(|flavor| it_is_set(flavor, &clock)),
        Err(why) => interop::missing("a C compiler, for clocks that jump", &why),
    }
    ExitCode::SUCCESS
}

/// One process holds and another waits while the clock of both is set, and set again.
fn it_is_set(flavor: Flavor, clock: &ShiftedClock) {
    const TTL_US: i64 = 2_000_000;
    let (hour, runtime) = (Duration::from_secs(3600), tokio::runtime::Runtime::new().unwrap());
    let server = runtime.block_on(ready(flavor, &[]));
    clock.forward(Duration::ZERO).unwrap();
    let mut processes =
        [(); 2].map(|()| Puppet::start(&server.url(), |command| clock.show_to(command)).unwrap());
    for process in &mut processes {
        assert_eq!(process.ask("open 2000").unwrap(), "open");
    }
    let near = runtime.block_on(stage::session(&server.url(), Duration::from_secs(2)));
    let mutex = near.mutex("clock").unwrap();
    let [mut holder, mut waiter] = processes;
    let mut last = fence(&holder.ask("lock clock").unwrap());
    for _ in 0..2 {
        waiter.tell("lock clock").unwrap();
        until_waiting(&server, 1);
        for step in 0..3 {
            match step {
                0 => clock.forward(hour),
                1 => clock.back(hour),
                _ => clock.forward(Duration::ZERO),
            }
            .unwrap();
            // Both are renewed for longer than they would live without.
            let expires = || -> Result<i64, String> {
                let expires = server.sql("SELECT MIN(expires) FROM bramah_claims WHERE name = 'clock'")?;
                expires.parse().map_err(|_| format!("no claim: {expires}"))
            };
            let before = expires().unwrap();
            let renewed = || {
                let ahead = expires()? - before;
                if ahead > TTL_US { Ok(()) } else { Err(format!("{ahead} us ahead")) }
            };
            bramah_lab::until("a ttl of renewals", SOON, renewed).unwrap();
            assert_eq!(holder.ask("state").unwrap(), "held");
            assert_eq!(waiter.heard(Duration::ZERO), None, "granted while another holds it");
            assert!(runtime.block_on(mutex.try_lock()).unwrap().is_none(), "granted while another holds it");
            until_waiting(&server, 1);
        }
        assert_eq!(holder.ask("release").unwrap(), "released");
        let next = fence(&waiter.heard(SOON).unwrap());
        assert!(next > last, "{next} after {last}");
        last = next;
        std::mem::swap(&mut holder, &mut waiter);
    }
    assert_eq!(holder.ask("release").unwrap(), "released");
    println!("ok {flavor}");
}

/// What a child has got.
fn fence(answer: &str) -> u64 {
    answer.strip_prefix("held ").and_then(|fence| fence.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}
