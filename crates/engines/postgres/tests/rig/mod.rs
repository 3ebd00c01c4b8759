//! The conformance suite on a server that it starts.

#![allow(dead_code, reason = "each target has its own")]

use std::{process::ExitCode, sync::Arc};

use bramah_conformance::{CHILD, Later, Suite, Target};
use bramah_core::{Engine, Error, ErrorKind, Result};
use bramah_lab::{How, PgBouncer, Pooling, Postgres as Server};
use bramah_postgres::Postgres;

/// How the server is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deployment {
    Direct,
    Pooled,
    /// Advisory locks.
    Session,
}

/// What was started, and how to start it again.
struct Started {
    url: String,
    server: Option<Arc<Server>>,
    _bouncer: Option<PgBouncer>,
}

/// Runs the suite over a server of its own.
pub(crate) fn run(name: &str, deployment: Deployment) -> ExitCode {
    // A child is told the address of the server that its parent started.
    let started = match std::env::var_os(CHILD).is_some() {
        true => Ok(Started { url: String::new(), server: None, _bouncer: None }),
        false => start(deployment),
    };
    let Started { url, server, _bouncer } = match started {
        Ok(started) => started,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    let looked_at = server.clone();
    let setup = move || -> Later<Result<Target>> {
        let (address, server) = (url.clone(), server.clone());
        let target =
            Target::new(move || connect(address.clone())).reachable_at(&url).dialled_by(connect).paced(4);
        let target = match deployment {
            Deployment::Session => target.bound_to_processes(),
            Deployment::Direct | Deployment::Pooled => target,
        };
        let target = match server.filter(|_| deployment != Deployment::Pooled) {
            Some(server) => target.restarted_by(move || {
                let restarted = server.stop(How::Fast).and_then(|()| server.start_again());
                let restarted = restarted.map_err(|why| Error::new(ErrorKind::Unavailable, why));
                Box::pin(async { restarted })
            }),
            None => target,
        };
        Box::pin(async { Ok(target) })
    };
    let suite = Suite::new(name, setup).children(connect);
    // A session there begins with a connection, which is dear.
    let suite = if deployment == Deployment::Session { suite.abreast(4) } else { suite };
    let done = suite.main();
    match looked_at.map_or(Ok(()), |server| leftovers(&server)) {
        Err(why) => {
            eprintln!("FAILED: {why}");
            ExitCode::FAILURE
        }
        Ok(()) => done,
    }
}

/// After the suite nobody is in any line.
fn leftovers(server: &Server) -> std::result::Result<(), String> {
    bramah_lab::until("empty lines", std::time::Duration::from_secs(30), || {
        let rows = server.sql(
            "SELECT name, held::text, (until - clock_timestamp())::text FROM bramah_claims WHERE until > clock_timestamp() \
             UNION ALL SELECT coalesce(name, 'a key'), granted::text, pid::text FROM bramah_advisory LEFT JOIN bramah_keys USING (space, key)",
        )?;
        if rows.is_empty() { Ok(()) } else { Err(format!("left over: {rows}")) }
    })
}

fn connect(url: String) -> Later<Result<Arc<dyn Engine>>> {
    Box::pin(async move { Ok(Postgres::from_url(&url)?.into()) })
}

fn start(deployment: Deployment) -> std::result::Result<Started, String> {
    // Every session of session mode has connections of its own, and the suite has many side by side.
    let server = Arc::new(match deployment {
        Deployment::Session => Server::with(&[("max_connections", "300")])?,
        Deployment::Direct | Deployment::Pooled => Server::start()?,
    });
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    let init = async { Postgres::from_url(&server.url())?.init().await };
    runtime.block_on(init).map_err(|error| error.to_string())?;
    Ok(match deployment {
        Deployment::Direct => Started { url: server.url(), server: Some(server), _bouncer: None },
        Deployment::Session => {
            let url = format!("{}?mode=session&connections=200&connect_timeout=10s", server.url());
            Started { url, server: Some(server), _bouncer: None }
        }
        Deployment::Pooled => {
            let bouncer = PgBouncer::before(&server, Pooling::Transaction)?;
            Started {
                url: format!("{}?listen=off", bouncer.url()),
                server: Some(server),
                _bouncer: Some(bouncer),
            }
        }
    })
}
