//! The conformance suite on a server that it starts.

use std::{process::ExitCode, sync::Arc, time::Duration};

use bramah_conformance::{CHILD, Later, Suite, Target};
use bramah_core::{Engine, Error, ErrorKind, Result};
use bramah_lab::{
    MariaDb as Server,
    servers::{self, Flavor},
};
use bramah_mysql::MySql;

/// A commit is with the operating system when it is answered, and outlives the server, but not a loss of power, which does not
/// happen here: half of the suite would be spent waiting for the disk.
const SETTINGS: &[(&str, &str)] = &[("innodb_flush_log_at_trx_commit", "2"), ("sync_binlog", "0")];

/// Runs the suite over a server of its own.
pub(crate) fn run(flavor: Flavor) -> ExitCode {
    // A child is told the address of the server that its parent started.
    if std::env::var_os(CHILD).is_some() {
        return suite(flavor, String::new(), None);
    }
    if let Err(why) = servers::get(flavor) {
        servers::missing(flavor, &why);
        return ExitCode::SUCCESS;
    }
    let done = start(flavor).and_then(|server| {
        let done = suite(flavor, server.url(), Some(server.clone()));
        leftovers(&server).map(|()| done)
    });
    done.unwrap_or_else(|why| {
        eprintln!("FAILED: {why}");
        ExitCode::FAILURE
    })
}

fn suite(flavor: Flavor, url: String, server: Option<Arc<Server>>) -> ExitCode {
    let setup = move || -> Later<Result<Target>> {
        let (address, server) = (url.clone(), server.clone());
        let target = Target::new(move || connect(address.clone())).reachable_at(&url);
        let target = match server {
            Some(server) => target.restarted_by(move || {
                let restarted = server.stop().and_then(|()| server.start_again());
                let restarted = restarted.map_err(|why| Error::new(ErrorKind::Unavailable, why));
                Box::pin(async { restarted })
            }),
            None => target,
        };
        Box::pin(async { Ok(target) })
    };
    // Sixteen at once, all of them looking every other millisecond, are more than two cores have time for.
    Suite::new(flavor.name(), setup).children(connect).abreast(8).main()
}

/// After the suite nobody is in any line.
fn leftovers(server: &Server) -> std::result::Result<(), String> {
    bramah_lab::until("empty lines", Duration::from_secs(30), || {
        let rows = server.sql("SELECT name, held, note FROM bramah_locks")?;
        if rows.is_empty() { Ok(()) } else { Err(format!("left over: {rows}")) }
    })
}

fn connect(url: String) -> Later<Result<Arc<dyn Engine>>> {
    Box::pin(async move { Ok(MySql::from_url(&url)?.into()) })
}

fn start(flavor: Flavor) -> std::result::Result<Arc<Server>, String> {
    let server = Arc::new(Server::of(flavor, SETTINGS)?);
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    let init = async { MySql::from_url(&server.url())?.init().await };
    runtime.block_on(init).map_err(|error| error.to_string())?;
    Ok(server)
}
