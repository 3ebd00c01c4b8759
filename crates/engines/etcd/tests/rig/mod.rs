//! The conformance suite on members that it starts.

#![allow(dead_code, reason = "each target has its own")]

use std::{process::ExitCode, sync::Arc};

use bramah_conformance::{CHILD, Later, Suite, Target};
use bramah_core::{Engine, Error, ErrorKind, Result};
use bramah_etcd::Etcd;
use bramah_lab::{Etcd as Server, servers::Flavor};

/// What is run.
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    pub(crate) flavor: Flavor,
    pub(crate) members: usize,
    /// How many cases side by side.
    pub(crate) abreast: usize,
    /// What its members are told.
    pub(crate) flags: &'static [(&'static str, &'static str)],
    /// Of the url.
    pub(crate) options: &'static str,
}

/// Runs the suite over members of its own.
pub(crate) fn run(plan: &Plan) -> ExitCode {
    let &Plan { name, flavor, members, abreast, flags, options } = plan;
    // A child is told the address of what its parent started.
    let server = match std::env::var_os(CHILD).is_some() {
        true => Ok(None),
        false => Server::with(flavor, members, flags).map(Arc::new).map(Some),
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
        let target =
            Target::new(move || connect(address.clone())).reachable_at(&url).dialled_by(connect).paced(4);
        let target = match server {
            Some(server) => target.restarted_by(move || {
                let restarted = restart(&server).map_err(|why| Error::new(ErrorKind::Unavailable, why));
                Box::pin(async { restarted })
            }),
            None => target,
        };
        Box::pin(async { Ok(target) })
    };
    let done = Suite::new(name, setup).children(connect).abreast(abreast).main();
    match looked_at.map_or(Ok(()), |server| leftovers(&server)) {
        Err(why) => {
            eprintln!("FAILED: {why}");
            ExitCode::FAILURE
        }
        Ok(()) => done,
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
