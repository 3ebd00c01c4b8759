//! The conformance suite on a deployment that it starts.

#![allow(dead_code, reason = "each target has its own")]

use std::{process::ExitCode, sync::Arc, time::Duration};

use bramah_conformance::{CHILD, Later, Suite, Target};
use bramah_core::{Engine, Error, ErrorKind, Result};
use bramah_lab::{Cluster, Redis as Server, Sentinels, servers::Flavor};
use bramah_redis::{Redis, redlock::Redlock};

/// What the suite runs on.
pub(crate) enum Deployment {
    One(Flavor),
    Sentinel(Flavor),
    Cluster(Flavor),
    /// So many that know nothing of each other.
    Masters(usize),
}

/// What was started. Sentinels and clusters live as long as this process.
#[derive(Default)]
struct Started {
    url: String,
    /// The server to restart, where there is only one.
    restart: Option<Arc<Server>>,
    /// The servers to look at afterwards.
    looked_at: Vec<Arc<Server>>,
}

/// Runs the suite on `layout` over a deployment of its own.
pub(crate) fn run(name: &str, deployment: &Deployment, layout: &str) -> ExitCode {
    // A child is told the address of the servers that its parent started.
    let started = if std::env::var_os(CHILD).is_some() {
        Started::default()
    } else {
        match start(deployment, layout) {
            Ok(started) => started,
            Err(why) => {
                eprintln!("{why}");
                return ExitCode::FAILURE;
            }
        }
    };
    let Started { url, restart, looked_at } = started;
    let url = format!("{url}?layout={layout}");
    let setup = move || -> Later<Result<Target>> {
        let (address, server) = (url.clone(), restart.clone());
        let target = Target::new(move || connect(address.clone())).reachable_at(&url).dialled_by(connect);
        // A server has a third of the ttl to answer, a master of Redlock a tenth of it.
        let target = target.paced(4);
        let target = match server {
            Some(server) => target.restarted_by(move || {
                let restarted = server.restart().map_err(|why| Error::new(ErrorKind::Unavailable, why));
                Box::pin(async { restarted })
            }),
            None => target,
        };
        Box::pin(async { Ok(target) })
    };
    let suite = Suite::new(name, setup).children(connect);
    // Every case asks all masters at once.
    let suite = if matches!(deployment, Deployment::Masters(_)) { suite.abreast(9) } else { suite };
    let done = suite.main();
    match looked_at.iter().try_for_each(|server| leftovers(server)) {
        Err(why) => {
            eprintln!("FAILED: {why}");
            ExitCode::FAILURE
        }
        Ok(()) => done,
    }
}

/// After the suite there is only what Redisson itself leaves, tokens and the counters of semaphores, and who was there and
/// what was broken, for a while. The mark of the fences is there for good.
fn leftovers(server: &Server) -> std::result::Result<(), String> {
    let expected = |key: &str| -> std::result::Result<bool, String> {
        let ends = || -> std::result::Result<bool, String> { Ok(server.cli(&["PTTL", key])? != "-1") };
        Ok(key == "bramah:mark"
            || key.starts_with("redisson_lock_token:")
            || (["bramah:session:", "bramah:broken:", "bramah:queue:"]
                .iter()
                .any(|word| key.starts_with(word))
                || key.starts_with("bramah:{") && key.ends_with("}:b"))
                && ends()?
            || server.cli(&["TYPE", key])? == "string" && server.cli(&["GET", key])?.parse::<u32>().is_ok())
    };
    bramah_lab::until("a tidy store", Duration::from_secs(30), || {
        let mut strange = Vec::new();
        for key in server.cli(&["KEYS", "*"])?.lines() {
            if !expected(key)? {
                strange.push(key.to_owned());
            }
        }
        if strange.is_empty() { Ok(()) } else { Err(format!("left over: {strange:?}")) }
    })
}

fn connect(url: String) -> Later<Result<Arc<dyn Engine>>> {
    Box::pin(async move {
        let engine: Arc<dyn Engine> = if url.starts_with("redlock") {
            Redlock::from_url(&url)?.engine()?.into()
        } else {
            Arc::new(Redis::from_url(&url)?)
        };
        Ok(engine)
    })
}

fn start(deployment: &Deployment, layout: &str) -> std::result::Result<Started, String> {
    match deployment {
        Deployment::One(flavor) => {
            let server =
                Arc::new(Server::with(*flavor, &[("appendonly", "yes"), ("appendfsync", "always")])?);
            let looked_at = if layout.starts_with("redisson") { vec![server.clone()] } else { Vec::new() };
            Ok(Started { url: server.url(), restart: Some(server), looked_at })
        }
        Deployment::Sentinel(flavor) => {
            let sentinels = Sentinels::start(*flavor, 1)?;
            let url = format!("redis+sentinel://{}/{}", sentinels.url_list().join(","), sentinels.service());
            std::mem::forget(sentinels);
            Ok(Started { url, ..Started::default() })
        }
        Deployment::Cluster(flavor) => {
            let cluster = Cluster::start(*flavor)?;
            let url = format!("redis+cluster://{}", cluster.addresses().join(","));
            std::mem::forget(cluster);
            Ok(Started { url, ..Started::default() })
        }
        Deployment::Masters(number) => {
            let masters: Vec<Arc<Server>> = (0..*number)
                .map(|_| Server::start(Flavor::Redis7).map(Arc::new))
                .collect::<std::result::Result<_, _>>()?;
            let addresses: Vec<String> = masters.iter().map(|master| master.address()).collect();
            let url = format!("redlock://{}", addresses.join(","));
            Ok(Started { url, restart: None, looked_at: masters })
        }
    }
}
