//! Servers and sessions for tests of failures.
#![allow(dead_code, reason = "each target has its own")]

use std::{sync::Arc, time::Duration};

use bramah_conformance::persist;
use bramah_core::{Engine, Guard, Session};
use bramah_lab::Postgres as Server;
use bramah_postgres::Postgres;

pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) async fn ready(settings: &[(&str, &str)]) -> Server {
    let server = Server::with(settings).unwrap();
    let engine = Postgres::from_url(&server.url()).unwrap();
    persist(SOON, || engine.init()).await.unwrap();
    server
}

pub(crate) async fn session(url: &str, ttl: Duration) -> Session {
    let engine: Arc<dyn Engine> = Postgres::from_url(url).unwrap().into();
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

/// Waits until so many claims wait.
pub(crate) fn until_waiting(server: &Server, count: usize) {
    let waiting = || {
        let waiting = server.sql("SELECT COUNT(*) FROM bramah_claims WHERE NOT held")?;
        if waiting == count.to_string() { Ok(()) } else { Err(format!("{waiting} wait")) }
    };
    bramah_lab::until("everybody to wait", SOON * 6, waiting).unwrap();
}
