//! The conformance suite on an ensemble that it starts.

#![allow(dead_code, reason = "each target has its own")]

use std::{process::ExitCode, sync::Arc, time::Duration};

use bramah_conformance::{CHILD, Later, Suite, Target};
use bramah_core::{Engine, Error, ErrorKind, Look, Result, Scope};
use bramah_lab::ZooKeeper as Ensemble;
use bramah_zookeeper::ZooKeeper;

/// Runs the suite over an ensemble of its own.
pub(crate) fn run(name: &str, members: usize, abreast: usize) -> ExitCode {
    // A child is told the address of the ensemble that its parent started.
    let started = match std::env::var_os(CHILD).is_some() {
        true => Ok(None),
        false => Ensemble::start(members).map(Arc::new).map(Some),
    };
    let ensemble = match started {
        Ok(ensemble) => ensemble,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    let url = ensemble.as_ref().map_or_else(String::new, |ensemble| url(ensemble));
    let (looked_at, address) = (ensemble.clone(), url.clone());
    let setup = move || -> Later<Result<Target>> {
        let (address, ensemble) = (url.clone(), ensemble.clone());
        let target = Target::new(move || connect(address.clone()))
            .reachable_at(&url)
            .dialled_by(connect)
            .bound_to_processes()
            .paced(4);
        let target = match ensemble {
            Some(ensemble) => target.restarted_by(move || {
                let restarted = restart(&ensemble).map_err(|why| Error::new(ErrorKind::Unavailable, why));
                Box::pin(async { restarted })
            }),
            None => target,
        };
        Box::pin(async { Ok(target) })
    };
    let done = Suite::new(name, setup).children(connect).abreast(abreast).main();
    match looked_at.map_or(Ok(()), |_| leftovers(&address)) {
        Err(why) => {
            eprintln!("FAILED: {why}");
            ExitCode::FAILURE
        }
        Ok(()) => done,
    }
}

/// Kills all members at once and starts them again.
fn restart(ensemble: &Ensemble) -> std::result::Result<(), String> {
    let all: Vec<usize> = (0..ensemble.count()).collect();
    all.iter().try_for_each(|member| ensemble.kill(*member))?;
    std::thread::scope(|scope| {
        let start = |member: &usize| {
            let member = *member;
            scope.spawn(move || ensemble.start_again(member))
        };
        let started: Vec<_> = all.iter().map(start).collect();
        started.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| Err("a start panicked".into())))
    })?;
    ensemble.await_leader(&all).map(drop)
}

/// After the suite nobody is in any line.
fn leftovers(url: &str) -> std::result::Result<(), String> {
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    let engine: Arc<dyn Engine> = ZooKeeper::from_url(url).map_err(|error| error.to_string())?.into();
    bramah_lab::until("empty lines", Duration::from_secs(30), || {
        let survey =
            runtime.block_on(engine.survey(&Scope::All, Look::Once)).map_err(|error| error.to_string())?;
        if survey.lines.is_empty() { Ok(()) } else { Err(format!("left over: {:?}", survey.lines)) }
    })
}

fn url(ensemble: &Ensemble) -> String {
    format!("zookeeper://{}/conformance?connect_timeout=10s&timeout=10s", ensemble.connect_string())
}

fn connect(url: String) -> Later<Result<Arc<dyn Engine>>> {
    Box::pin(async move { Ok(ZooKeeper::from_url(&url)?.into()) })
}
