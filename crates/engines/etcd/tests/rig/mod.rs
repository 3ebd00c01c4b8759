//! The conformance suite on members that it starts.

#![allow(dead_code, reason = "each target has its own")]

use std::{process::ExitCode, sync::Arc};

use bramah_conformance::{CHILD, Later, REPEAT, Suite, Target};
use bramah_core::{Engine, Error, ErrorKind, Result};
use bramah_etcd::Etcd;
use bramah_lab::{Etcd as Server, servers::Flavor};

/// Cases that no engine with one seat can meet as they are written, and why.
const ONE_SEAT: [(&str, &str); 2] = [
    ("permits::so_many_hold_and_no_more", "one session has two claims on one name there"),
    ("permits::a_big_claim_is_not_starved_by_small_ones", "one session has two claims on one name there"),
];

/// What is run.
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    pub(crate) flavor: Flavor,
    pub(crate) members: usize,
    /// How many cases side by side.
    pub(crate) abreast: usize,
    /// Of the url.
    pub(crate) options: &'static str,
    /// Cases that are left out besides, and why.
    pub(crate) without: &'static [(&'static str, &'static str)],
}

/// Runs the suite over members of its own.
pub(crate) fn run(plan: &Plan) -> ExitCode {
    let &Plan { name, flavor, members, abreast, options, without } = plan;
    // A child is told the address of what its parent started.
    let server = match std::env::var_os(CHILD).is_some() {
        true => Ok(None),
        false => Server::start(flavor, members).map(Arc::new).map(Some),
    };
    let server = match server {
        Ok(server) => server,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    let looked_at = server.clone();
    let url = server.as_ref().map_or_else(String::new, |server| url(server, options));
    let setup = move || -> Later<Result<Target>> {
        let (address, server) = (url.clone(), server.clone());
        let target = Target::new(move || connect(address.clone())).reachable_at(&url);
        let target = match server {
            Some(server) => target.restarted_by(move || {
                let restarted = restart(&server).map_err(|why| Error::new(ErrorKind::Unavailable, why));
                Box::pin(async { restarted })
            }),
            None => target,
        };
        Box::pin(async { Ok(target) })
    };
    let suite = Suite::new(name, setup).children(connect).abreast(abreast);
    let done = match std::env::var_os(CHILD).is_some() {
        true => return suite.main(),
        false => judge(&suite, without),
    };
    match looked_at.map_or(Ok(()), |server| leftovers(&server)) {
        Err(why) => {
            eprintln!("FAILED: {why}");
            ExitCode::FAILURE
        }
        Ok(()) => done,
    }
}

/// Runs the cases that the command line names, all of them if it names none, without those that are known to fail.
fn judge(suite: &Suite, without: &[(&str, &str)]) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_named = |case: &str| words.is_empty() || words.iter().any(|word| case.contains(word.as_str()));
    let left_out: Vec<_> = ONE_SEAT.iter().chain(without).filter(|(case, _)| is_named(case)).collect();
    for (case, why) in &left_out {
        println!("left out {case}: {why}");
    }
    let is_chosen = |case: &str| is_named(case) && !left_out.iter().any(|(name, _)| *name == case);
    let repeat = std::env::var(REPEAT).ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    match suite.run(is_chosen, repeat) {
        Ok(tally) => {
            println!("{tally}");
            if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{suite:?} cannot run: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Where the engine finds it.
pub(crate) fn url(server: &Server, options: &str) -> String {
    format!("etcd://{}{options}", server.addresses().join(","))
}

fn restart(server: &Server) -> std::result::Result<(), String> {
    let all: Vec<usize> = (0..server.count()).collect();
    all.iter().try_for_each(|member| server.kill(*member))?;
    std::thread::scope(|scope| {
        let started: Vec<_> = all.iter().map(|member| scope.spawn(|| server.start_again(*member))).collect();
        started.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| Err("it panicked".into())))
    })?;
    server.await_leader(&all).map(drop)
}

/// After the suite nobody is in any line. Records of breaks and floors stay.
pub(crate) fn leftovers(server: &Server) -> std::result::Result<(), String> {
    bramah_lab::until("empty lines", std::time::Duration::from_secs(60), || {
        let keys = server.ctl(&["get", "", "--prefix", "--keys-only"])?;
        let left: Vec<&str> =
            keys.lines().filter(|key| !key.is_empty() && !key.starts_with("/bramah/")).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("left over: {left:?}")) }
    })
}

fn connect(url: String) -> Later<Result<Arc<dyn Engine>>> {
    Box::pin(async move { Ok(Etcd::from_url(&url)?.into()) })
}
