//! The conformance suite on a server that it starts.

#![allow(dead_code, reason = "each target has its own")]

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

/// Every session of session mode has connections of its own, and the suite has many side by side.
const SESSION_SETTINGS: &[(&str, &str)] =
    &[("innodb_flush_log_at_trx_commit", "2"), ("sync_binlog", "0"), ("max_connections", "400")];

/// Where the locks are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Table,
    Session,
}

/// Runs the suite over a server of its own.
pub(crate) fn run(flavor: Flavor, mode: Mode) -> ExitCode {
    // A child is told the address of the server that its parent started.
    if std::env::var_os(CHILD).is_some() {
        return suite(flavor, mode, String::new(), None);
    }
    if let Err(why) = servers::get(flavor) {
        servers::missing(flavor, &why);
        return ExitCode::SUCCESS;
    }
    let done = start(flavor, mode).and_then(|server| {
        let url = match mode {
            Mode::Table => server.url(),
            Mode::Session => format!("{}?mode=session&connections=250", server.url()),
        };
        let done = suite(flavor, mode, url, Some(server.clone()));
        leftovers(&server).map(|()| done)
    });
    done.unwrap_or_else(|why| {
        eprintln!("FAILED: {why}");
        ExitCode::FAILURE
    })
}

fn suite(flavor: Flavor, mode: Mode, url: String, server: Option<Arc<Server>>) -> ExitCode {
    let setup = move || -> Later<Result<Target>> {
        let (address, server) = (url.clone(), server.clone());
        let target =
            Target::new(move || connect(address.clone())).reachable_at(&url).dialled_by(connect).paced(4);
        let target = if mode == Mode::Session { target.bound_to_processes() } else { target };
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
    let (name, abreast) = match mode {
        // Sixteen at once, all of them looking every other millisecond, are more than two cores have time for.
        Mode::Table => (flavor.name().to_owned(), 8),
        // A session there begins with a connection, which is dear.
        Mode::Session => (format!("{}, session", flavor.name()), 4),
    };
    Suite::new(&name, setup).children(connect).abreast(abreast).main()
}

/// After the suite nobody is in any line.
fn leftovers(server: &Server) -> std::result::Result<(), String> {
    bramah_lab::until("empty lines", Duration::from_secs(30), || {
        let rows = server.sql(
            "SELECT name, held, note FROM bramah_locks \
             UNION ALL SELECT name, IS_USED_LOCK(lock_name), 'has it' FROM bramah_keys WHERE IS_USED_LOCK(lock_name) IS NOT NULL \
             UNION ALL SELECT 'a wait', id, state FROM \
                    /*!50700 performance_schema.*/ /*M! information_schema.*/ processlist WHERE state = 'User lock'",
        )?;
        if rows.is_empty() { Ok(()) } else { Err(format!("left over: {rows}")) }
    })
}

fn connect(url: String) -> Later<Result<Arc<dyn Engine>>> {
    Box::pin(async move { Ok(MySql::from_url(&url)?.into()) })
}

fn start(flavor: Flavor, mode: Mode) -> std::result::Result<Arc<Server>, String> {
    let settings = if mode == Mode::Session { SESSION_SETTINGS } else { SETTINGS };
    let server = Arc::new(Server::of(flavor, settings)?);
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    let init = async { MySql::from_url(&server.url())?.init().await };
    runtime.block_on(init).map_err(|error| error.to_string())?;
    Ok(server)
}
