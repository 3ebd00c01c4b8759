//! Servers and sessions for tests of failures.
#![allow(dead_code, reason = "each target has its own")]

use std::{sync::Arc, time::Duration};

use bramah_conformance::persist;
use bramah_core::{Engine, Guard, Session};
use bramah_lab::{
    MariaDb as Server,
    servers::{self, Flavor},
};
use bramah_mysql::MySql;

pub(crate) const SOON: Duration = Duration::from_secs(30);

/// The servers that can be had.
pub(crate) fn flavors() -> Vec<Flavor> {
    let mut flavors = vec![Flavor::MariaDb, Flavor::MySql];
    flavors.retain(|flavor| match servers::get(*flavor) {
        Ok(_) => true,
        Err(why) => {
            servers::missing(*flavor, &why);
            false
        }
    });
    flavors
}

pub(crate) async fn ready(flavor: Flavor, settings: &[(&str, &str)]) -> Server {
    let server = Server::of(flavor, settings).unwrap();
    let engine = MySql::from_url(&server.url()).unwrap();
    persist(SOON, || engine.init()).await.unwrap();
    server
}

pub(crate) async fn session(url: &str, ttl: Duration) -> Session {
    let engine: Arc<dyn Engine> = MySql::from_url(url).unwrap().into();
    persist(SOON, || Session::builder(engine.clone()).ttl(ttl).open()).await.unwrap()
}

/// Takes a lock however often the store is away, for a while.
pub(crate) async fn lock_within(patience: Duration, session: &Session, name: &str) -> Guard {
    let mutex = session.mutex(name).unwrap();
    persist(patience, || mutex.lock()).await.unwrap()
}

/// Takes a lock however often the store is away.
pub(crate) async fn lock(session: &Session, name: &str) -> Guard {
    lock_within(SOON, session, name).await
}

/// The connections of the user that the engine is.
pub(crate) fn connections(server: &Server) -> Vec<String> {
    let rows = server.sql("SHOW PROCESSLIST").unwrap();
    let columns = rows.lines().map(|row| row.split('\t').collect::<Vec<_>>());
    columns.filter(|row| row.get(1) == Some(&"bramah")).map(|row| row[0].to_owned()).collect()
}

/// Waits until so many claims wait.
pub(crate) fn until_waiting(server: &Server, count: usize) {
    let waiting = || {
        let waiting = server.sql("SELECT COUNT(*) FROM bramah_claims WHERE held = 0")?;
        if waiting == count.to_string() { Ok(()) } else { Err(format!("{waiting} wait")) }
    };
    bramah_lab::until("everybody to wait", SOON * 6, waiting).unwrap();
}
